"""Whoever writes blocking code never reads of an async name: not in a signature, not in its help, not in an error."""

from __future__ import annotations

import inspect
import pkgutil
import pydoc
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import pytest

import strongroom
import strongroom.blocking
from strongroom.blocking.files import Files
from strongroom.blocking.memories import Memories
from strongroom.blocking.registry import Registry
from strongroom.blocking.runs import Runs
from strongroom.blocking.sessions import Sessions
from strongroom.blocking.threads import Threads
from strongroom.dispatch import AsyncDispatcher, Dispatcher
from strongroom.errors import InvalidInput, StrongroomError
from strongroom.services.files.files import AsyncFiles
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.threads.registry import AsyncRegistry
from strongroom.services.threads.threads import AsyncThreads
from strongroom.values import Listing
from tests.server.serving import served


def handles() -> Iterator[type]:
    for module in pkgutil.iter_modules(strongroom.blocking.__path__, "strongroom.blocking."):
        found = vars(import_module(module.name)).values()
        yield from (one for one in found if inspect.isclass(one) and one.__module__ == module.name)
    yield strongroom.Context


HANDLES = [*handles(), Dispatcher]


def methods(handle: type) -> list[str]:
    return [name for name, found in vars(handle).items() if callable(found) and not name.startswith("_")]


@pytest.mark.parametrize("handle", HANDLES, ids=lambda handle: handle.__name__)
def test_a_method_tells_of_blocking_names_only(handle: type) -> None:
    for name in methods(handle):
        method = getattr(handle, name)
        told = f"{inspect.signature(method)} {inspect.getdoc(method)} {method.__qualname__} {method.__annotations__}"
        assert "Async" not in told, name


@pytest.mark.parametrize("handle", HANDLES, ids=lambda handle: handle.__name__)
def test_help_and_the_signature_of_a_class_tell_of_blocking_names_only(handle: type) -> None:
    told = f"{handle.__name__}{inspect.signature(handle)}\n{pydoc.plain(pydoc.render_doc(handle))}"
    assert [line for line in told.splitlines() if "Async" in line] == []


@pytest.mark.parametrize("handle", HANDLES, ids=lambda handle: handle.__name__)
def test_the_hints_of_a_method_can_be_evaluated_and_are_of_blocking_types(handle: type) -> None:
    for name in methods(handle):
        assert "Async" not in repr(typing.get_type_hints(getattr(handle, name))), name


TWINS: list[tuple[type, type]] = [
    *((strongroom.Context, strongroom.AsyncContext), (strongroom.Run, strongroom.AsyncRun), (Runs, AsyncRuns)),
    *((strongroom.Session, strongroom.AsyncSession), (Sessions, AsyncSessions), (Memories, AsyncMemories)),
    *((strongroom.Thread, strongroom.AsyncThread), (Threads, AsyncThreads), (Registry, AsyncRegistry)),
    *((strongroom.Turn, strongroom.AsyncTurn), (Files, AsyncFiles), (Dispatcher, AsyncDispatcher)),
]
# What only one of the two has: the way from blocking code to async code, a property of what is an attribute there, and
# what other services of ours call.
ONE_SIDED = {
    "Context": {"awaitable"},
    "Memories": {"pack_items", "unpack_writes"},
    "Threads": {"limits", "entry", "plan", "slots", "thread"},
}


@pytest.mark.parametrize(("blocking", "original"), TWINS, ids=lambda kind: kind.__name__)
def test_twins_have_the_same_names_methods_and_properties(blocking: type, original: type) -> None:
    names, others = ({name for name in dir(kind) if not name.startswith("_")} for kind in (blocking, original))
    assert names ^ others == ONE_SIDED.get(blocking.__name__, set())


def test_a_session_tells_who_counts_its_tokens() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        session.append({"role": "user", "content": "tea"})
        assert session.tokenizer.name == session.info().tokenizer


def test_what_gives_a_handle_says_so_in_its_hints() -> None:
    with strongroom.open("memory://") as ctx:
        gives: dict[Any, Any] = {
            strongroom.Run: [ctx.runs.create, ctx.runs.open, ctx.runs.get, ctx.runs.restore, strongroom.Run.fork],
            strongroom.Session: [ctx.sessions.open, ctx.sessions.get, strongroom.Session.fork],
        }
        for kind, methods in gives.items():
            assert {typing.get_type_hints(method)["return"] for method in methods} == {kind}
        assert typing.get_type_hints(ctx.runs.list)["return"] == Listing[strongroom.Run]
        assert typing.get_type_hints(ctx.threads.get)["return"] is strongroom.Thread


def test_the_hints_of_what_opens_a_context_can_be_evaluated_in_a_program_that_used_nothing_yet() -> None:
    program = (
        "import typing, strongroom; hints = typing.get_type_hints(strongroom.open); "
        "assert hints['return'] is strongroom.Context and 'relaxed' in repr(hints['durability']); "
        "assert typing.get_type_hints(strongroom.aopen)['space'] is str"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_wrong_call_is_answered_with_blocking_names_only() -> None:
    told = []
    with strongroom.open("memory://") as ctx, ctx.turn() as turn:
        run, session = ctx.runs.create(objective="o"), ctx.sessions.open("s")
        ctx.threads.append("t", 1, from_id="a")
        things = [ctx, ctx.runs, run, ctx.sessions, session, ctx.memories, ctx.threads, ctx.threads.get("t"), ctx.files]
        for thing in (*things, turn, ctx.registry, Dispatcher(ctx)):
            for name in sorted({name for kind in type(thing).__mro__ for name in methods(kind)} - {"close"}):
                told += [wrong(thing, name, ()), wrong(thing, name, (object(),) * 9)]
    assert [words for words in told if "Async" in words] == []
    assert len([words for words in told if words]) > 200


@pytest.mark.parametrize("served_too", [False, True], ids=["opened", "connected"])
def test_a_handle_of_the_wrong_kind_is_refused_with_the_right_one(served_too: bool) -> None:
    with (
        served("memory://") if served_too else nullcontext() as server,
        strongroom.connect(server.url, key=server.key()) if server else strongroom.open("memory://") as ctx,
    ):
        run: Any = ctx.runs.create(objective="o")
        session: Any = ctx.sessions.open("s")
        with pytest.raises(
            InvalidInput, match=r"^session must be a Session \(`ctx.sessions.get\(...\)`\), text or None, "
        ):
            ctx.prompt(session=run, max_tokens=100)
        with pytest.raises(InvalidInput, match=r"^run must be a Run \(`ctx.runs.get\(...\)`\), text or None, not "):
            ctx.prompt(run=session, max_tokens=100)
        with pytest.raises(
            InvalidInput, match=r"^session must be text or a Session \(`ctx.sessions.get\(...\)`\), not "
        ):
            ctx.memories.learn(run, model=lambda messages: "")


async def test_an_awaited_prompt_says_that_it_takes_ids_too() -> None:
    given: Any = 7
    async with strongroom.aopen("memory://") as ctx:
        with pytest.raises(
            InvalidInput, match=r"^session must be an AsyncSession \(`await .*`\), text or None, not 7$"
        ):
            await ctx.prompt(session=given, max_tokens=100)


def wrong(thing: Any, name: str, given: tuple[object, ...]) -> str:
    """Call a method as nobody may, and return what is said."""
    try:
        getattr(thing, name)(*given, there_is_no_such_thing=1)
    except (TypeError, StrongroomError) as refused:
        return str(refused)
    return ""


def test_a_dispatcher_that_is_made_wrongly_is_told_of_blocking_names_only() -> None:
    kind: Any = Dispatcher
    with strongroom.open("memory://") as ctx:
        calls: list[Callable[[], Any]] = [
            lambda: kind("agent.db"),
            lambda: kind(ctx, max_conkurrent=3),
            lambda: kind(ctx, lease_seconds="long"),
            lambda: kind().bind("agent.db"),
            lambda: kind().handler(3),
            lambda: kind().drain(),
        ]
        for call in calls:
            with pytest.raises((TypeError, StrongroomError)) as refused:
                call()
            assert "Async" not in str(refused.value)


def test_a_dispatcher_is_bound_to_a_context_with_its_functions() -> None:
    seen: list[Any] = []
    table = Dispatcher(lease_seconds=7)
    table.handler("planner")(lambda payload, call: seen.append(payload))
    with strongroom.open("memory://") as ctx, table.bind(ctx) as bound:
        bound.send("t", "hello", from_id="a", to_id="planner")
        bound.drain()
    assert seen == ["hello"] and isinstance(bound, Dispatcher)
