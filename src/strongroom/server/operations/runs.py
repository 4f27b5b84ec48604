"""Operations of runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import file_digest
from pathlib import Path
from typing import Any

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.operations import Undecided
from strongroom.server.operations.invocation import Invocation, Make, call, expected, understood
from strongroom.services.runs import episodes, packs, updates
from strongroom.services.runs.ledger import EventTypes
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.runs.updates import By
from strongroom.values import Head, Pack


async def _the_run(op: Invocation) -> AsyncRun:
    return await op.ctx.runs.get(op.id, actor=op.caller.name)


class _Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """An update. Which fields there are, and what each holds, is for `AsyncRun.update` to say, in its own words."""

    fields: dict[str, Any]
    append: dict[str, Any]
    remove: dict[str, Any]
    actor: str
    parent: str | None
    state_patch: dict[str, Any] | None = None


async def update(op: Invocation) -> object:
    edit: _Edit = understood(_Edit, op.arguments)
    unknown = edit.fields.keys() & {"expected_seq", "append", "remove", "state_patch", "actor", "parent", "commit_id"}
    if unknown:
        raise InvalidInput(f"a working set has no field {min(unknown)!r}; nothing changed", path="fields")
    options = {
        "append": edit.append,
        "remove": edit.remove,
        "state_patch": edit.state_patch,
        "actor": edit.actor,
        "parent": edit.parent,
    }
    return await call(
        op, AsyncRun.update, await _the_run(op), named=edit.fields | options | expected(op, "expected_seq")
    )


async def update_with(op: Invocation) -> object:
    decision = None if op.besides is None else understood(updates.Decision, op.besides)
    run, by = await _the_run(op), understood(By, [op.arguments.get("actor"), op.arguments.get("parent")])
    return await run._update_decided(by, updates.decided(decision), op.commit_id)


async def record(op: Invocation) -> object:
    """Record an event. A `custom.` type is registered with the client, which held the payload against its schema."""
    run, type = await _the_run(op), op.arguments.get("type")
    if isinstance(type, str) and type.startswith("custom."):
        run._types = EventTypes()
        run._types.register(type, {})
    return await call(op, AsyncRun.record, run, named=op.arguments)


async def attach(op: Invocation) -> object:
    arguments = dict(op.arguments)
    with _file(op).open("rb") as file:
        if file_digest(file, "sha256").hexdigest() != arguments.pop("sha256", None):
            raise InvalidInput("what was sent is not what was announced; nothing changed", path="sha256")
    return await call(op, AsyncRun.attach, await _the_run(op), _file(op), named=arguments)


async def milestone(op: Invocation) -> object:
    """Make a milestone whose summary is the caller's."""
    undecided = {"seen": [], "summary": ""}
    summarized = understood(episodes.Summarized, undecided if op.besides is None else op.besides)
    named = op.arguments | {"summarizer": summarized}
    return await call(op, AsyncRun.milestone, await _the_run(op), named=named)


async def export(op: Invocation) -> object:
    """Tell in the ledger of a pack that the caller has written."""
    run = await _the_run(op)

    async def written() -> Pack:
        if op.besides is None:
            raise Undecided
        return await packs.require_written(run._ref, understood(Pack, op.besides))

    where, actor = op.arguments.get("where"), op.arguments["actor"]
    return await packs.told(run._ref, str(where), written, actor=actor, commit_id=op.commit_id)


async def restore(op: Invocation) -> object:
    # A pack can hold memories, and bringing memories in is for reviewers: nobody may smuggle them past the review.
    runs = op.ctx.runs if op.caller.may("review") else AsyncRuns(op.ctx.scope)
    more, head = op.more, op.more.get("head")
    return await runs.restore(
        _file(op),
        run_id=more.get("run_id"),
        head=None if head is None else understood(Head, head),
        **_demands(op),
        actor=op.arguments["actor"],
        commit_id=op.commit_id,
    )


async def restore_all(op: Invocation) -> object:
    return await op.ctx.restore(_file(op), **_demands(op), actor=op.arguments["actor"], commit_id=op.commit_id)


def _demands(op: Invocation) -> dict[str, Any]:
    """Return what a caller demands of a pack, within what the server allows."""
    given = op.more.get("public_key")
    try:
        public_key = None if given is None else bytes.fromhex(given)
    except (TypeError, ValueError):
        raise InvalidInput("a public key is 32 bytes in hexadecimal; nothing changed", path="public_key") from None
    most = min(understood(int, op.more.get("max_bytes")), op.settings.max_pack_bytes)
    return {"public_key": public_key, "max_bytes": most}


def _file(op: Invocation) -> Path:
    assert op.file is not None, "the table says that it takes one"
    return op.file


def run(method: Callable[..., Awaitable[object]]) -> Make:
    async def made(op: Invocation) -> object:
        return await call(op, method, await _the_run(op), named=op.arguments | expected(op, "expected_seq"))

    return made
