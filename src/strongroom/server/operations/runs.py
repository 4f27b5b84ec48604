"""Operations of runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import file_digest
from pathlib import Path
from typing import Any

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.operations import Undecided
from strongroom.server.operations.asked import Asked, Make, call, understood
from strongroom.services.runs import episodes, packs, updates
from strongroom.services.runs.ledger import EventTypes
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.runs.updates import By
from strongroom.values import Head, Pack


async def _the_run(asked: Asked) -> AsyncRun:
    return await asked.ctx.runs.get(asked.id, actor=asked.caller.name)


def _expected(asked: Asked) -> dict[str, Any]:
    """Return which version the caller saw, where it says so."""
    return {name: value for name, value in asked.more.items() if name == "expected_seq"}


class _Edit(Struct, frozen=True, forbid_unknown_fields=True):
    fields: dict[str, Any]
    append: dict[str, list[Any]]
    remove: dict[str, list[Any]]
    actor: str
    parent: str | None


async def update(asked: Asked) -> object:
    edit: _Edit = understood(_Edit, asked.arguments)
    unknown = edit.fields.keys() & {"expected_seq", "append", "remove", "actor", "parent", "commit_id"}
    if unknown:
        raise InvalidInput(f"a working set has no field {min(unknown)!r}; nothing changed", path="fields")
    options = {"append": edit.append, "remove": edit.remove, "actor": edit.actor, "parent": edit.parent}
    return await call(asked, AsyncRun.update, await _the_run(asked), named=edit.fields | options | _expected(asked))


async def update_with(asked: Asked) -> object:
    decision = None if asked.besides is None else understood(updates.Decision, asked.besides)
    run, by = await _the_run(asked), understood(By, [asked.arguments.get("actor"), asked.arguments.get("parent")])
    return await run._update_decided(by, updates.decided(decision), asked.commit_id)


async def record(asked: Asked) -> object:
    """Record an event. A `custom.` type is registered with the client, which held the payload against its schema."""
    run, type = await _the_run(asked), asked.arguments.get("type")
    if isinstance(type, str) and type.startswith("custom."):
        run._types = EventTypes()
        run._types.register(type, {})
    return await call(asked, AsyncRun.record, run, named=asked.arguments)


async def attach(asked: Asked) -> object:
    arguments = dict(asked.arguments)
    with _file(asked).open("rb") as file:
        if file_digest(file, "sha256").hexdigest() != arguments.pop("sha256", None):
            raise InvalidInput("what was sent is not what was announced; nothing changed", path="sha256")
    return await call(asked, AsyncRun.attach, await _the_run(asked), _file(asked), named=arguments)


async def milestone(asked: Asked) -> object:
    """Make a milestone whose summary is the caller's."""
    undecided = {"seen": [], "summary": ""}
    summarized = understood(episodes.Summarized, undecided if asked.besides is None else asked.besides)
    named = asked.arguments | {"summarizer": summarized}
    return await call(asked, AsyncRun.milestone, await _the_run(asked), named=named)


async def export(asked: Asked) -> object:
    """Tell in the ledger of a pack that the caller has written."""
    run = await _the_run(asked)

    async def written() -> Pack:
        if asked.besides is None:
            raise Undecided
        return await packs.require_written(run._ref, understood(Pack, asked.besides))

    where, actor = asked.arguments.get("where"), asked.arguments["actor"]
    return await packs.told(run._ref, str(where), written, actor=actor, commit_id=asked.commit_id)


async def restore(asked: Asked) -> object:
    # A pack can hold memories, and bringing memories in is for reviewers: nobody may smuggle them past the review.
    runs = asked.ctx.runs if asked.caller.may("review") else AsyncRuns(asked.ctx.scope)
    more, head = asked.more, asked.more.get("head")
    try:
        public_key = None if more.get("public_key") is None else bytes.fromhex(more["public_key"])
    except (TypeError, ValueError):
        raise InvalidInput("a public key is 32 bytes in hexadecimal; nothing changed", path="public_key") from None
    return await runs.restore(
        _file(asked),
        run_id=more.get("run_id"),
        public_key=public_key,
        head=None if head is None else understood(Head, head),
        max_bytes=min(understood(int, more.get("max_bytes")), asked.settings.max_pack_bytes),
        actor=asked.arguments["actor"],
        commit_id=asked.commit_id,
    )


def _file(asked: Asked) -> Path:
    assert asked.file is not None, "the table says that it takes one"
    return asked.file


def run(method: Callable[..., Awaitable[object]]) -> Make:
    async def made(asked: Asked) -> object:
        return await call(asked, method, await _the_run(asked), named=asked.arguments | _expected(asked))

    return made
