"""An ADK session that is created, written to, deleted and erased at once: every order, a kill between any two steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event

from strongroom.adapters.adk import StrongroomSessionService
from strongroom.adapters.adk.sessions import KIND
from strongroom.scope import Scope
from strongroom.services.sessions import erasure
from strongroom.services.sessions.layouts import session_name
from strongroom.services.sessions.state import SESSION
from strongroom.store import AsyncStore, Get
from strongroom.testing import CRASHED, explore

ONE: Any = {"app_name": "a", "user_id": "u", "session_id": "x"}
NAME = session_name("adk", "a", "u", "x")


def service(store: AsyncStore) -> StrongroomSessionService:
    """A service over the store of an exploration."""
    made = StrongroomSessionService.__new__(StrongroomSessionService)
    made.opened = SimpleNamespace(awaitable=Scope(store, clock=lambda: 1))  # type: ignore[assignment]
    return made


async def creating(store: AsyncStore) -> str:
    try:
        return str((await service(store).create_session(**ONE)).id)
    except AlreadyExistsError:
        return "exists"


async def appending(store: AsyncStore) -> str:
    opened = service(store)
    session = await opened.get_session(**ONE)
    if session is None:
        return "gone"
    try:
        return str((await opened.append_event(session, Event(id="e", author="user", timestamp=1.0))).id)
    except (SessionNotFoundError, StaleSessionError):
        return "gone"


async def deleting(store: AsyncStore) -> None:
    await service(store).delete_session(**ONE)


async def deleting_the_session(store: AsyncStore) -> None:
    await erasure.delete(Scope(store), NAME, None)


async def closing_and_removing(store: AsyncStore) -> None:
    while await erasure.close(Scope(store), NAME):
        await erasure.remove(Scope(store), NAME)


async def check(store: AsyncStore, results: Sequence[Any]) -> None:
    document, session = await Scope(store).read(Get(Scope(store).key(KIND, NAME)), Get(Scope(store).key(SESSION, NAME)))
    assert (document is None) == (session is None), "one without the other"
    found = await service(store).get_session(**ONE)
    assert (found is None) == (document is None)


TAKING = [deleting, deleting_the_session, closing_and_removing]


@pytest.mark.parametrize("taking", TAKING)
@pytest.mark.parametrize("other", [creating, appending])
@pytest.mark.parametrize("begun", [False, True])
def test_a_session_and_its_document_are_there_together_or_not_at_all(
    begun: bool, other: Callable[[AsyncStore], Awaitable[Any]], taking: Callable[[AsyncStore], Awaitable[Any]]
) -> None:
    programs: Any = [other, taking]
    told = explore(programs, check, setup=creating if begun else None, crashes=1, reads_in_order=True)
    assert told.failure is None, f"{told.schedules}: {told.failure}"


def test_a_session_that_is_deleted_as_soon_as_it_is_created_is_not_created_again() -> None:
    async def gone_or_there_once(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results[0] == "x" or CRASHED in results

    told = explore([creating, deleting], gone_or_there_once, reads_in_order=True)
    assert told.failure is None, f"{told.schedules}: {told.failure}"
