"""Erasing what a run holds, for good, in one commit that also says so; or in several, if it has many events.

Everything with content goes: the bodies of all events, episodes, artifacts nobody else uses, the fields of the working
set. What stays is the shape: how many events there were, of which types, when and by whom, and that they were erased.
ERASED events hold no content and stay; they keep what `ledger.py` needs to check the chain. From then on a hash tells
whose the run was: what is added to it later is still found by whoever erases that owner.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.operations import Operation, Plan, erasing_step, perform, still_pending, traces
from strongroom.scope import Scope
from strongroom.services.erasing import require_brief
from strongroom.services.owning import OWNER, unnamed
from strongroom.services.packs import staging
from strongroom.services.runs import artifacts, history, usage
from strongroom.services.runs.ledger import Tombstone, body_of, tombstone
from strongroom.services.runs.own_state import FIELD
from strongroom.services.runs.state import (
    KIND,
    Mark,
    Ref,
    RunState,
    Stored,
    beginning,
    find,
    put,
    read,
    record,
    stored_in,
)
from strongroom.services.runs.verifying import ERASED
from strongroom.services.runs.working_set import LISTS, WorkingSetJson
from strongroom.store import Append, Delete, Entry, Erase, Expect, Get, Range, Receipt, Scan, Write
from strongroom.values import Erasure, moment

ERASED_TEXT = "(erased)"
MAX_TOMBSTONES = 1000
PAGE = 100


def scrubbed(state: WorkingSetJson) -> WorkingSetJson:
    """Return the working set with nothing in it but who it belongs to."""
    empty: WorkingSetJson = {**{name: [] for name in LISTS}, "next_action": "", "last_action_summary": ""}
    told = {"objective": ERASED_TEXT, "current_stage": ERASED_TEXT, "_update_seq": state["_update_seq"] + 1}
    return {**state, **empty, **told, **({FIELD: None} if FIELD in state else {})}


async def erase(ref: Ref, *, reason: str, actor: str, commit_id: str | None = None) -> Erasure:
    """Erase a run's content and return the receipt."""
    if not isinstance(reason, str) or not reason:
        raise InvalidInput("an erasure needs a reason to record; nothing changed", path="reason")
    require_brief(actor=actor, reason=reason)

    before = Counts()

    async def attempt() -> Plan[Erasure]:
        nonlocal before
        while (made := await _emptied(ref, reason=reason, actor=actor)).left:
            before = before.plus(await _most(ref, reason=reason, actor=actor))
        counts = made.at, *before.plus(made.counts)
        return Plan(
            made.expects,
            (*made.writes, traces(ref.ledger)),
            lambda receipt: receipt_of(receipt, counts, receipt.pending),
            encode(counts),
        )

    def receipt_of(receipt: Receipt, counts: Sequence[int], pending: str | None) -> Erasure:
        at, events, past, used = counts
        return Erasure(
            run_id=ref.run_id,
            reason=reason,
            actor=actor,
            at=moment(at),
            events=events,
            episodes=past,
            artifacts=used,
            sequence_id=receipt.versions[1],
            complete=pending is None,
            pending=pending,
        )

    async def replay(receipt: Receipt) -> Erasure:
        assert receipt.answer is not None
        return receipt_of(receipt, receipt.answer.load(), await still_pending(ref.scope, ref.ledger, receipt))

    operation = Operation("runs.erase", ref.key, encode({"reason": reason, "actor": actor}), commit_id)
    return await perform(ref.scope, operation, attempt, replay)


async def of_owner(scope: Scope, user_id: str) -> list[str]:
    """Return the runs of a user, also those that were erased, and those that cannot be read."""
    owners = dict.fromkeys((user_id, unnamed(user_id)))
    scans = [Scan(scope.space, KIND, {OWNER: owner}, limit=PAGE) for owner in owners]
    return [id for scan in scans for id in await scope.ids(scan)]


async def empty(scope: Scope, run_id: str, user_id: str, *, reason: str, actor: str) -> bool:
    """Erase a run's content as a step of the erasure of its owner. False if it was erased, and holds nothing since."""
    ref, state = await find(scope, run_id)
    if state.user_id == unnamed(user_id) and not await _to_erase(await read(ref)):
        return False

    async def attempt() -> Plan[None]:
        while (made := await _emptied(ref, reason=reason, actor=actor)).left:
            await _most(ref, reason=reason, actor=actor)
        return Plan(made.expects, made.writes, lambda _: None)

    await erasing_step(scope, ref.ledger, attempt)
    return True


class Counts(NamedTuple):
    """How much an erasure took."""

    events: int = 0
    episodes: int = 0
    artifacts: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(self, other, strict=True)))


Stretch = tuple[int, list[Tombstone]]


class _Emptied(Struct, frozen=True):
    """What leaves nothing in a run but the oldest of its events, if they are more than one commit can take: `left`."""

    expects: tuple[Expect, ...]
    writes: tuple[Write, ...]
    at: int
    counts: Counts
    left: list[Stretch]


async def _most(ref: Ref, *, reason: str, actor: str) -> Counts:
    """Empty a run in steps, up to what one more commit can take.

    From the first step on it begins anew, so it verifies whatever is still there of its past, and the newest events go
    first: a version that is left can be reached, because it is told from older ones.
    """

    async def attempt() -> Plan[_Emptied]:
        made = await _emptied(ref, reason=reason, actor=actor)
        return Plan(made.expects, made.writes, lambda _: made)

    made = await erasing_step(ref.scope, ref.ledger, attempt)
    count = made.counts
    for first, stones in reversed(made.left[1:]):
        count = count.plus(Counts(len(stones)))
        told = record(ref, ERASED, _payload(first, stones, reason), actor=actor)
        await erasing_step(ref.scope, ref.ledger, _blanked(ref, told, first, first + len(stones)))
    return count


def _blanked(ref: Ref, told: Entry, first: int, stop: int) -> Callable[[], Awaitable[Plan[None]]]:
    async def attempt() -> Plan[None]:
        return Plan((), (Append(ref.ledger, (told,)), Erase(ref.ledger, first, stop)), lambda _: None)

    return attempt


async def _emptied(ref: Ref, *, reason: str, actor: str) -> _Emptied:
    document, events, past = await ref.scope.read(
        Get(ref.key), Range(ref.ledger, limit=0), Range(ref.episodes, limit=0)
    )
    now = stored_in(ref, document, events.length)
    owner = None if now.state.user_id is None else unnamed(now.state.user_id)
    after = scrubbed(now.working_set)
    left = await _to_erase(now)
    gone = list[Stretch]()
    while left and (not gone or sum(len(stones) for _, stones in (left[-1], *gone)) <= MAX_TOMBSTONES):
        gone.insert(0, left.pop())
    expects, writes, used = await artifacts.erase_writes(ref.scope, ref.run_id)
    untouched, unfinished = await staging.leftovers(ref.scope, {"run": ref.run_id}, before=ref.scope.clock() + 1)
    state = msgspec.structs.replace(now.state, working_set=after, mark=Mark(now.length, 0), user_id=owner)
    told = _events(ref, gone, state, reason=reason, actor=actor, episodes=past.length, artifacts=used)
    return _Emptied(
        # The ledger's length too: an event recorded meanwhile must not escape.
        (now.unchanged, Expect(ref.ledger, now.length), Expect(ref.episodes, past.length), *expects, *untouched),
        (
            put(ref, state),
            Append(ref.ledger, tuple(told)),
            *(Erase(ref.ledger, first, first + len(stones)) for first, stones in gone),
            Delete(ref.episodes),
            *writes,
            *unfinished,
            usage.forget(ref),
        ),
        told[-1].at,
        Counts(sum(len(stones) for _, stones in gone), past.length, used),
        left,
    )


async def _to_erase(stored: Stored) -> list[Stretch]:
    """Return stretches of events that still have content: where each begins and what will stay of it."""
    stretches: list[Stretch] = []
    async for kept in history.records(stored.ref, 0, stored.length):
        if kept.body is None or kept.type == ERASED:
            continue
        if stretches:
            first, stones = stretches[-1]
            if first + len(stones) == kept.index and len(stones) < MAX_TOMBSTONES:
                stones.append(tombstone(body_of(kept.body)))
                continue
        stretches.append((kept.index, [tombstone(body_of(kept.body))]))
    return stretches


def _events(
    ref: Ref,
    gone: list[Stretch],
    after: RunState,
    *,
    reason: str,
    actor: str,
    episodes: int,
    artifacts: int,
) -> list[Entry]:
    """Return the ERASED events, one for each stretch (at least one); the last one carries what is left."""
    told = []
    stretches = gone or [(0, [])]
    for first, stones in stretches:
        payload = _payload(first, stones, reason)
        last = first == stretches[-1][0]
        if last:
            payload |= {"episodes": episodes, "artifacts": artifacts}
        told.append(record(ref, ERASED, payload, actor=actor, detail=beginning(after) if last else None))
    return told


def _payload(first: int, stones: list[Tombstone], reason: str) -> dict[str, Any]:
    return {
        "reason": reason,
        "first": first + 1,
        "last": first + len(stones),
        "tombstones": msgspec.to_builtins(stones),
    }
