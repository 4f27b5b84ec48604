"""What models and tools cost a run: sums over its ledger, kept as it grows.

A `MODEL_ACTION` or `TOOL_RESULT` may say which model it was, how many tokens went in and out, how long it took, what it
cost and what went wrong. The sums up to a place of the ledger are kept in a document (kind `run_usage`); whoever
records the event that ends a block of the ledger brings it up to there. So `usage` reads that document and the end of
the ledger, in one read, however long the ledger is; on a server that bounds its reads, large events come a few at a
time. It is derived: if it is lost or late, more of the ledger is read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.codec import INT_MAX, pack
from strongroom.errors import BudgetExceeded, StrongroomError
from strongroom.operations import Plan, made_here, step
from strongroom.services.runs import history
from strongroom.services.runs.ledger import body_of
from strongroom.services.runs.state import Ref
from strongroom.store import Delete, Document, Expect, Get, Key, Put, Record, Slice, Tail
from strongroom.values import ModelUsage, Usage

KIND = "run_usage"
BLOCK = 256
TYPES = ("MODEL_ACTION", "TOOL_RESULT")
MOST_MODELS = 100  # and as many tools
LONGEST_NAME = 200
OTHERS = "(others)"
_FIGURES = ModelUsage.__struct_fields__
_SAID = tuple(name for name in _FIGURES if name not in ("calls", "errors"))  # by the events themselves


class Sums(Struct, frozen=True):
    """The stored form: what the first `upto` events of the ledger come to, and whether that is told `by_tool` too."""

    upto: int = 0
    usage: Usage = Usage()
    by_tool: bool = False


def usage_key(ref: Ref) -> Key:
    return ref.scope.key(KIND, ref.streams)


async def usage(ref: Ref) -> Usage:
    """Return what the whole ledger comes to."""
    document, tail = await _read(ref, 2 * BLOCK)
    return (await _upto(ref, _sums(document), tail, tail.length)).usage


async def keep_up(ref: Ref, before: int, length: int) -> None:
    """Bring the kept sums up to date, if the ledger has come to the end of a block.

    What was asked for is done, whatever becomes of this: others do so if it fails.
    """
    if before // BLOCK == length // BLOCK or not made_here(ref.scope):
        return

    async def attempt() -> Plan[None]:
        # The last block's end was summed up, so what came since is all that there is to read.
        document, tail = await _read(ref, BLOCK + length % BLOCK)
        sums = await _upto(ref, _sums(document), tail, tail.length)
        version = 0 if document is None else document.version
        put = Put(usage_key(ref), pack(sums))
        return Plan((Expect(put.key, version),), (put,), lambda receipt: None, refusal=lambda conflict: conflict)

    with suppress(StrongroomError):
        await step(ref.scope, ref.key, attempt)


def forget(ref: Ref) -> Delete:
    """Say how the sums go with what they are of."""
    return Delete(usage_key(ref))


async def _read(ref: Ref, count: int) -> tuple[Document | None, Slice]:
    """Return the kept sums and the end of the ledger, or its length alone where its events are too large together."""
    try:
        return await ref.scope.read(Get(usage_key(ref)), Tail(ref.ledger, count))
    except BudgetExceeded:
        return await ref.scope.read(Get(usage_key(ref)), Tail(ref.ledger, 0))


def _sums(document: Document | None) -> Sums:
    if document is None:
        return Sums()
    try:
        sums = msgspec.json.decode(document.value, type=Sums)
        return sums if sums.by_tool else Sums()  # kept before tools were told apart: the ledger knows better
    except msgspec.ValidationError:  # an infinite sum was kept, and JSON has none: the ledger knows better
        return Sums()


async def _upto(ref: Ref, sums: Sums, tail: Slice, length: int) -> Sums:
    """Add the events after those that are summed up already."""
    first = tail.records[0].index if tail.records else length
    made = sums.usage
    async for record in history.records(ref, sums.upto, first):
        made = added(made, record)
    for record in tail.records:
        if record.index >= sums.upto:
            made = added(made, record)
    return Sums(length, made, by_tool=True)


def added(sums: Usage, record: Record) -> Usage:
    """Return the sums with one more event."""
    if record.body is None or record.type not in TYPES:
        return sums
    return told(sums, record.type, body_of(record.body).payload)


def told(sums: Usage, type: str, payload: Mapping[str, Any]) -> Usage:
    """Return the sums with what one more event says."""
    if type not in TYPES:
        return sums
    fields = {name: payload.get(name) or 0 for name in _SAID}
    failed = payload.get("error") is not None or payload.get("ok") is False
    one = ModelUsage(calls=1, errors=int(failed), **fields)
    total = summed(sums.total, one)
    if type == "TOOL_RESULT":
        tools = _with(sums.tools, payload.get("tool_name"), one)
        return msgspec.structs.replace(sums, total=total, tool_results=sums.tool_results + 1, tools=tools)
    models = _with(sums.models, payload.get("model"), one)
    return msgspec.structs.replace(sums, total=total, model_actions=sums.model_actions + 1, models=models)


def _with(known: dict[str, ModelUsage], name: Any, one: ModelUsage) -> dict[str, ModelUsage]:
    """Return the sums by name with one more; of what has no name there are none. Names that go on and on are cut."""
    if not isinstance(name, str):
        return known
    name = name[:LONGEST_NAME]
    if name not in known and len(known) >= MOST_MODELS:
        name = OTHERS
    return {**known, name: summed(known.get(name, ModelUsage()), one)}


def summed(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    """Return sums that JSON can hold: old ledgers may hold figures that no schema bounded."""
    return ModelUsage(**{name: _held(getattr(one, name) + getattr(other, name)) for name in _FIGURES})


def _held(total: Any) -> Any:
    return min(total, sys.float_info.max if isinstance(total, float) else INT_MAX)
