"""FileLedger: an append-only list of events behind the path of a JSON-lines file.

Events are a stream of the store beside the file; the file is a readable copy. Where files lie as they usually do, the
run of an event is in the same store, and the event joins that run's own ledger in the same commit, so that packs hold
it. The ledger file of a server's run is a copy of the run's own ledger, and appending to one is appending to the other.

Some events stand for something that Strongroom did, and only Strongroom records them as such: a run's history is read
from them. A caller who tells of the same is heard too: in a run's own ledger under a `custom.` type, in the file as
given.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from strongroom.blocking import Context
from strongroom.bridge import Inline, run
from strongroom.compat.aos_context import _legacy, _locations
from strongroom.compat.aos_context._exports import GIVEN, as_given, export_ledger, extend
from strongroom.compat.aos_context.validation import validate_instance
from strongroom.errors import Conflict, InvalidInput, NotFound, StrongroomError
from strongroom.scope import Scope
from strongroom.services.runs.ledger import PAGE, EventTypes, Identity, body_of, entry
from strongroom.services.runs.ledger import event as event_of
from strongroom.services.runs.state import find, record
from strongroom.services.runs.working_set import instant
from strongroom.store import EXISTS, Append, Commit, Entry, Expect, Key, Range, Write, ask, new_id
from strongroom.values import EPOCH, iso

KIND = "ledger_file"
IDS = ("run_id", "task_id", "thread_id")
# Types that callers of this API record by themselves, and Strongroom too, for a change that it made.
BOTH = ("RUN_START", "WS_UPDATE_APPLIED", "WS_UPDATE_REJECTED", "MILESTONE")


@dataclass
class LedgerAppendResult:
    ok: bool
    sequence_id: int | None = None
    error: str | None = None


def utc_iso() -> str:
    """Return the time now, as ledgers write it."""
    return iso(datetime.now(UTC))


class FileLedger:
    """A ledger. Any number of threads and processes may append to one path; ids have no gaps and no repeats."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def append(self, event: dict[str, Any]) -> LedgerAppendResult:
        """Add an event. Without a `sequence_id` it gets the next one; with one, it must be the next one."""
        told = {"sequence_id": None, **event} if isinstance(event, dict) else event
        result = validate_instance("ledger_event", told)
        if not result.ok:
            return LedgerAppendResult(False, None, f"schema: {result.error}")
        location = _locations.of_ledger(self.path)
        try:
            if told["event_type"] not in BOTH:
                EventTypes().check(told["event_type"], told["payload"])
            with _locations.using(location) as ctx:
                if not location.rooted:
                    self._adopt(ctx)
                return LedgerAppendResult(True, self._append(ctx, location, told))
        except InvalidInput as problem:
            return LedgerAppendResult(False, None, f"schema: {problem}")
        except Conflict as lost:
            wrong = f"sequence_id {told['sequence_id']} is not the next one, {lost.actual + 1}; nothing was appended"
            return LedgerAppendResult(False, None, wrong)
        except StrongroomError as problem:
            return LedgerAppendResult(False, None, f"append: {problem}")

    def _append(self, ctx: Context, location: _locations.Location, told: dict[str, Any]) -> int:
        mine = location.run(ctx) if location.rooted else None
        if mine is not None and mine.id != told["run_id"]:
            raise InvalidInput(f"this is the ledger of run {mine.id!r}, not {told['run_id']!r:.80}")
        expects, writes = _with_run(ctx, told, alone=mine is not None)
        if mine is None:
            writes = (Append(self._key(ctx), (self._entry(ctx, told),)), *writes)
        if told["sequence_id"] is not None:
            expects = (*expects, Expect(writes[0].key, told["sequence_id"] - 1))
        receipt = ctx.store.commit(Commit(new_id(), expects, writes))
        if mine is None:
            extend(self.path, lambda after: self._events(ctx, after))
        else:
            export_ledger(mine, self.path)
        return receipt.versions[0]

    def _adopt(self, ctx: Context) -> None:
        """Take in a file that was there before its store; the original stays beside it."""
        if self._length(ctx) or not self.path.exists() or not self.path.stat().st_size:
            return
        old = _legacy.ledger(self.path.read_bytes())
        shutil.copyfile(self.path, f"{self.path}.original")
        entries = tuple(self._entry(ctx, event) for event in old.events)
        if entries:
            try:
                ctx.store.commit(Commit(new_id(), (Expect(self._key(ctx), 0),), (Append(self._key(ctx), entries),)))
            except Conflict:
                return
        extend(self.path, lambda after: self._events(ctx, after), anew=True)

    def _events(self, ctx: Context, after: int) -> Iterator[dict[str, Any]]:
        while True:
            page = ask(ctx.store, Range(self._key(ctx), after, None, PAGE))
            for kept in page.records:
                assert kept.body is not None, "a file of these is never erased"
                detail = body_of(kept.body).detail or {}
                yield as_given(event_of(kept, detail).to_dict(), detail)
            if not page.records:
                return
            after = page.records[-1].index + 1

    def _length(self, ctx: Context) -> int:
        page = ask(ctx.store, Range(self._key(ctx), limit=0))
        return int(page.length)

    def _entry(self, ctx: Context, event: dict[str, Any]) -> Entry:
        return entry(
            Identity(ctx.space, self._key(ctx).id),
            event["event_type"],
            event["payload"],
            actor=event["writer_id"],
            at=(instant(event["timestamp"], "timestamp") - EPOCH) // timedelta(microseconds=1),
            parent=event["parent_event_id"],
            detail={name: event[name] for name in IDS} | {GIVEN: {"timestamp": event["timestamp"]}},
            id=event["event_id"],
        )

    def _key(self, ctx: Context) -> Key:
        return Key(ctx.space, KIND, self.path.name)


def _with_run(ctx: Context, event: dict[str, Any], *, alone: bool) -> tuple[tuple[Expect, ...], tuple[Write, ...]]:
    """Say what records the event in its run's own ledger, if the run is in this store.

    What Strongroom records by itself is not told twice, unless that ledger is `alone` in holding it. The time of an
    event there is when it was recorded; that of the caller is beside it, and so is its type, where it differs.
    """
    type, given = event["event_type"], {"timestamp": event["timestamp"]}
    if type in BOTH:
        if not alone:
            return (), ()
        type, given = f"custom.aos.{type.lower()}", {**given, "event_type": type}
    try:
        ref, _ = run(find(Scope(Inline(ctx.store), ctx.space), event["run_id"]))
    except NotFound:
        return (), ()
    told = record(
        ref,
        type,
        event["payload"],
        actor=event["writer_id"],
        parent=event["parent_event_id"],
        id=event["event_id"],
        detail={GIVEN: given},
    )
    return (Expect(ref.key, EXISTS),), (Append(ref.ledger, (told,)),)
