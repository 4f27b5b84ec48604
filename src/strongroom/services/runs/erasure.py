"""Erasing what a run holds, for good, in one commit that also says so.

Everything with content goes: the bodies of all events, episodes, artifacts nobody else uses, the fields of the working
set. What stays is the shape: how many events there were, of which types, when and by whom, and that they were erased.
ERASED events hold no content and stay; they keep what `ledger.py` needs to check the chain.
"""

from __future__ import annotations

import msgspec

from strongroom.errors import Conflict, InvalidInput
from strongroom.services.runs import artifacts, history, staging
from strongroom.services.runs.changes import WorkingSetJson
from strongroom.services.runs.ledger import Tombstone, body_of, tombstone
from strongroom.services.runs.state import Mark, Ref, Stored, put, record, retries, stored_in, whole
from strongroom.services.runs.verifying import ERASED
from strongroom.services.runs.working_set import LISTS
from strongroom.store import Append, Commit, Delete, Entry, Erase, Expect, Get, Range, Write, new_id
from strongroom.values import Erasure, moment

ERASED_TEXT = "(erased)"
MAX_TOMBSTONES = 1000


def scrubbed(state: WorkingSetJson) -> WorkingSetJson:
    """Return the working set with nothing in it but who it belongs to."""
    empty: WorkingSetJson = {**{name: [] for name in LISTS}, "next_action": "", "last_action_summary": ""}
    told = {"objective": ERASED_TEXT, "current_stage": ERASED_TEXT, "_update_seq": state["_update_seq"] + 1}
    return {**state, **empty, **told}


async def erase(ref: Ref, *, reason: str, actor: str) -> Erasure:
    """Erase a run's content and return the receipt."""
    if not isinstance(reason, str) or not reason:
        raise InvalidInput("an erasure needs a reason to record; nothing changed", path="reason")
    store = ref.scope.store
    for _ in retries():
        document, events, past = await store.read(
            [Get(ref.key), Range(ref.ledger, limit=0), Range(ref.episodes, limit=0)]
        )
        now = stored_in(ref, document, events.length)
        after = scrubbed(now.working_set)
        gone = await _to_erase(now)
        expects, writes, used = await artifacts.erase_writes(ref.scope, ref.run_id)
        unfinished = await staging.leftovers(ref.scope, {"run": ref.run_id}, before=ref.scope.clock() + 1)
        told = _events(ref, gone, after, reason=reason, actor=actor, episodes=past.length, artifacts=used)
        state = msgspec.structs.replace(now.state, working_set=after, mark=Mark(now.length, 0))
        all_writes: tuple[Write, ...] = (
            put(ref, state),
            *(Erase(ref.ledger, first, first + len(stones)) for first, stones in gone),
            Append(ref.ledger, tuple(told)),
            Delete(ref.episodes),
            *writes,
            *unfinished,
            # Even if nothing is left to blank: an erasure that was killed may have left traces in the store's files,
            # and a store that is told to erase removes them.
            Erase(ref.ledger, 0, 0),
        )
        # The ledger's length too: an event recorded meanwhile must not escape.
        checks = (now.unchanged, Expect(ref.ledger, now.length), Expect(ref.episodes, past.length), *expects)
        try:
            receipt = await store.commit(Commit(new_id(), checks, all_writes))
        except Conflict as conflict:
            lost = conflict
            continue
        return Erasure(
            run_id=ref.run_id,
            reason=reason,
            actor=actor,
            at=moment(told[-1].at),
            events=sum(len(stones) for _, stones in gone),
            episodes=past.length,
            artifacts=used,
            sequence_id=receipt.versions[1 + len(gone)],
        )
    raise lost


async def _to_erase(stored: Stored) -> list[tuple[int, list[Tombstone]]]:
    """Return stretches of events that still have content: where each begins and what will stay of it."""
    stretches: list[tuple[int, list[Tombstone]]] = []
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
    gone: list[tuple[int, list[Tombstone]]],
    after: WorkingSetJson,
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
        payload = {
            "reason": reason,
            "first": first + 1,
            "last": first + len(stones),
            "tombstones": msgspec.to_builtins(stones),
        }
        last = first == stretches[-1][0]
        if last:
            payload |= {"episodes": episodes, "artifacts": artifacts}
        told.append(record(ref, ERASED, payload, actor=actor, detail=whole(after) if last else None))
    return told
