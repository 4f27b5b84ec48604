"""Starting a run: from nothing, or from what another one was."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from strongroom.codec import Json, encode, pack
from strongroom.errors import Damaged, InvalidInput
from strongroom.operations import Operation, Plan, perform
from strongroom.schemas import no_field
from strongroom.scope import Scope
from strongroom.services.owning import owned, to_be_given
from strongroom.services.runs import artifacts, history, own_state
from strongroom.services.runs.eviction import make_room
from strongroom.services.runs.state import (
    Detail,
    Mark,
    Ref,
    RunState,
    beginning,
    find,
    load,
    put,
    record,
    refs,
    stored_in,
    taken,
    unused,
)
from strongroom.services.runs.working_set import data, initial, require_id, view
from strongroom.store import EXISTS, Append, Document, Expect, Get, Receipt, Tail
from strongroom.values import RunConfig

Started = tuple[Ref, RunState]

CONFIG_LIMITS = (
    ("ws_max_tokens", 1, 10**9),
    ("pinned_context_max_items", 0, 10),
    ("milestone_step_cap", 1, 10**9),
    ("milestone_error_cap", 1, 10**9),
    ("state_max_bytes", 0, 1 << 20),
)


async def start(
    scope: Scope,
    *,
    ids: Mapping[str, str | None],
    config: RunConfig | Mapping[str, Any] | None,
    actor: str,
    commit_id: str | None,
    existing: bool = False,
    own: Any = None,
    own_type: type[Any] | None = None,
    user_id: str | None = None,
    **fields: str | Sequence[str],
) -> Started:
    """Write a new run; with `existing`, return the one that is there instead of refusing."""
    given = {name: None if id is None else require_id(id, name) for name, id in ids.items()}
    chosen = _config(config)
    made: dict[str, Any] = {name: _fresh(name.removesuffix("_id")) if id is None else id for name, id in given.items()}
    told: dict[str, Any] = {name: data(value) for name, value in fields.items()}
    told |= {} if own is None else {"state": own_state.plain(own, own_type or own_state.type_of(own))}
    owner = owned({}, user_id)
    content = encode({**given, **told, **owner, "config": msgspec.to_builtins(chosen), "actor": actor})
    working_set = initial(**made, **told, config=chosen)
    make_room(None, working_set, max_tokens=chosen.ws_max_tokens, tokenizer=scope.tokenizer)
    ref = Ref(scope, made["run_id"], made["run_id"])
    answer = encode(ref.run_id)

    async def attempt() -> Plan[Started]:
        if existing and (document := await scope.get(Get(ref.key))) is not None:
            return await _existing(ref, document, user_id, actor, answer)
        state = RunState(
            working_set=working_set,
            streams=ref.streams,
            config=chosen,
            mark=Mark(0, 0),
            created=scope.clock(),
            user_id=user_id,
        )
        first = record(ref, "RUN_START", _start(state), at=state.created, actor=actor, detail=beginning(state))
        return Plan(
            unused(ref),
            (put(ref, state), Append(ref.ledger, (first,))),
            lambda receipt: (ref, state),
            answer,
            lambda conflict: None if existing and conflict.key == ref.key else taken(ref.run_id, conflict),
        )

    target = scope.key("runs", "new") if given["run_id"] is None else ref.key
    operation = Operation("runs.open" if existing else "runs.create", target, content, commit_id)
    return await perform(scope, operation, attempt, lambda receipt: started(scope, receipt))


async def _existing(ref: Ref, document: Document, user_id: str | None, actor: str, answer: Json) -> Plan[Started]:
    """Plan to find a run; if it was nobody's, to give it to whom it is opened for."""
    state = load(document, ref.run_id)
    [found] = await refs(ref.scope, [(ref.run_id, state)])
    if isinstance(found, Damaged):
        raise found
    if user_id is None or not to_be_given(f"run {ref.run_id!r}", ref.key, state.user_id, user_id):
        return Plan((Expect(ref.key, EXISTS),), (), lambda receipt: (found, state), answer)
    theirs = msgspec.structs.replace(state, user_id=user_id)
    told = record(found, "OWNED", {"user_id": user_id}, actor=actor, detail=pack(Detail(user_id=user_id)))
    return Plan(
        (Expect(ref.key, document.version),),
        (put(found, theirs), Append(found.ledger, (told,))),
        lambda receipt: (found, theirs),
        answer,
    )


async def fork(ref: Ref, seq: int | None, *, run_id: str | None, actor: str, commit_id: str | None) -> Started:
    """Write a new run that begins where another one was, and tell so in both ledgers, in one commit."""
    scope = ref.scope
    content = encode({"seq": seq, "run_id": run_id, "actor": actor})
    new = _fresh("run") if run_id is None else require_id(run_id, "run_id")
    target = Ref(scope, new, new)

    async def attempt() -> Plan[Started]:
        document, tail = await scope.read(Get(ref.key), Tail(ref.ledger, 1))
        now, chain = stored_in(ref, document, tail.length), tail.records[0].chain
        assert document is not None and chain is not None
        origin = now.seq if seq is None else seq
        working_set = {**await history.at(now, origin), "run_id": new, "_update_seq": 0}
        state = msgspec.structs.replace(
            now.state, working_set=working_set, streams=new, mark=Mark(0, 0), created=scope.clock()
        )
        came = {"seq": origin, "from_run_id": ref.run_id, "length": tail.length, "chain": chain.hex()}
        told = record(target, "FORKED", came, actor=actor)
        gone = record(ref, "FORKED", {"seq": origin, "to_run_id": new}, actor=actor)
        pointers = view(working_set).artifact_refs
        expects, writes, copied = await artifacts.copy_writes(scope, ref.run_id, new, pointers)
        told_all = beginning(state, copied)
        begun = record(target, "RUN_START", _start(state), at=state.created, actor=actor, detail=told_all)
        return Plan(
            # As it was read: what is erased meanwhile must not come back in the copy.
            (*unused(target), Expect(ref.key, document.version), *expects),
            (put(target, state), Append(target.ledger, (begun, told)), Append(ref.ledger, (gone,)), *writes),
            lambda receipt: (target, state),
            encode(new),
            lambda conflict: (
                taken(new, conflict) if conflict.key in (target.key, target.ledger, target.episodes) else None
            ),
        )

    operation = Operation("run.fork", ref.key, content, commit_id)
    return await perform(scope, operation, attempt, lambda receipt: started(scope, receipt))


async def started(scope: Scope, receipt: Receipt) -> Started:
    """Look up the run that a commit started, as it is by now."""
    assert receipt.answer is not None
    return await find(scope, receipt.answer.load())


def _start(state: RunState) -> dict[str, Any]:
    return {"config": msgspec.to_builtins(state.config)}


def _fresh(kind: str) -> str:
    return f"{kind}_{os.urandom(8).hex()}"


def _config(config: RunConfig | Mapping[str, Any] | None) -> RunConfig:
    given = msgspec.to_builtins(config) if isinstance(config, RunConfig) else dict(config or {})
    if unknown := [name for name in given if name not in RunConfig.__struct_fields__]:
        raise InvalidInput(f"{no_field(unknown[0], RunConfig.__struct_fields__)}; nothing changed", path="config")
    try:
        made = msgspec.convert(given, RunConfig)
    except (msgspec.ValidationError, UnicodeEncodeError) as problem:
        raise InvalidInput(f"{problem}; nothing changed", path="config") from None
    for name, low, high in CONFIG_LIMITS:
        value = getattr(made, name)
        if value is not None and not low <= value <= high:
            raise InvalidInput(f"must be {low} to {high}, not {value}; nothing changed", path=f"config.{name}")
    return made
