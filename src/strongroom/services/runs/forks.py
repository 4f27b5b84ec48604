"""Forking: a new run that begins where another one was."""

from __future__ import annotations

import msgspec

from strongroom.errors import Conflict
from strongroom.services.runs import artifacts, history
from strongroom.services.runs.repeats import new_run_id, receipt_of, started
from strongroom.services.runs.state import Mark, Ref, RunState, put, record, retries, stored_in, whole
from strongroom.services.runs.working_set import require_id, view
from strongroom.store import EXISTS, Append, Commit, Expect, Get, Tail, new_id


async def fork(
    ref: Ref, seq: int | None, *, run_id: str | None, actor: str, commit_id: str | None
) -> tuple[Ref, RunState]:
    """Write the new run, with what it came from in both ledgers, in one commit."""
    scope = ref.scope
    new = new_run_id(commit_id) if run_id is None else require_id(run_id, "run_id")
    target = Ref(scope, new, new)
    if commit_id is not None and await receipt_of(ref, commit_id) is not None:
        return await started(scope, new, commit_id)
    for _ in retries():
        document, tail = await scope.store.read([Get(ref.key), Tail(ref.ledger, 1)])
        now = stored_in(ref, document, tail.length)
        origin = now.seq if seq is None else seq
        working_set = {**await history.at(now, origin), "run_id": new, "_update_seq": 0}
        state = RunState(working_set=working_set, streams=new, config=now.state.config, mark=Mark(0, 0))
        config = {"config": msgspec.to_builtins(state.config)}
        came = {"seq": origin, "from_run_id": ref.run_id, "length": tail.length, "chain": tail.records[0].chain.hex()}
        start = record(target, "RUN_START", config, actor=actor, detail=whole(working_set))
        told = record(target, "FORKED", came, actor=actor)
        gone = record(ref, "FORKED", {"seq": origin, "to_run_id": new}, actor=actor)
        pointers = view(working_set).artifact_refs
        expects, writes = await artifacts.copy_writes(scope, ref.run_id, new, pointers)
        commit = Commit(
            new_id() if commit_id is None else commit_id,
            (Expect(target.key, 0), Expect(ref.key, EXISTS), *expects),
            (put(target, state), Append(target.ledger, (start, told)), Append(ref.ledger, (gone,)), *writes),
        )
        try:
            await scope.store.commit(commit)
        except Conflict as conflict:
            if conflict.key == target.key:
                raise taken(new, conflict) from None
            lost = conflict
            continue
        return target, state
    raise lost


def taken(run_id: str, conflict: Conflict) -> Conflict:
    """Say that a run id is in use."""
    return Conflict(
        f"there is a run {run_id!r} already; nothing changed", expected=0, actual=conflict.actual, key=conflict.key
    )
