"""What a working set may hold and how it may change (pure).

Schema 2.1: every field is required and no other is allowed. Identity and objective never change; a field is replaced
whole, or, when it is a list, items are added to its end (`append`) or taken out (`remove`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

import msgspec

from strongroom.codec import MAX_DEPTH, encode, pack
from strongroom.errors import BudgetExceeded, Damaged, Immutable, InvalidInput
from strongroom.schemas import check as check_schema
from strongroom.schemas import no_field
from strongroom.services.runs import own_state
from strongroom.values import ArtifactRef, PinnedItem, RunConfig, SlidingItem, WorkingSet

WorkingSetJson = dict[str, Any]

MAX_RUN_ID = 160
IMMUTABLE = ("_schema_version", "_update_seq", "task_id", "thread_id", "run_id", "objective")
LISTS = ("acceptance_criteria", "constraints", "blockers", "artifact_refs", "pinned_context", "sliding_context")
MUTABLE = ("status", "current_stage", "next_action", "last_action_summary", *LISTS)
EDITS = ("state_patch", "append", "remove")  # what an update takes besides whole fields
# How a caller may name an immutable field: as the JSON does, or as the attribute of WorkingSet.
_ATTRIBUTES = {"seq": "_update_seq", "schema_version": "_schema_version"}
# Above this many differing items a single splice is written: matching costs the product of both lengths.
MAX_MATCHED = 2000
_LEAP = re.compile(r":60(?=[.+\-Zz])")


def initial(
    *,
    run_id: str,
    task_id: str,
    thread_id: str,
    objective: str,
    acceptance_criteria: Sequence[str] = (),
    constraints: Sequence[str] = (),
    current_stage: str = "BOOT",
    state: dict[str, Any] | None = None,
    config: RunConfig = RunConfig(),
) -> WorkingSetJson:
    """Return the working set of a new run, valid by schema."""
    made = {
        "_schema_version": "2.1",
        "_update_seq": 0,
        "task_id": task_id,
        "thread_id": thread_id,
        "run_id": run_id,
        "objective": objective,
        "status": "BOOT",
        "current_stage": current_stage,
        "acceptance_criteria": data(acceptance_criteria),
        "constraints": data(constraints),
        "blockers": [],
        "next_action": "",
        "last_action_summary": "",
        "artifact_refs": [],
        "pinned_context": [],
        "sliding_context": [],
    }
    require_valid(made)
    own_state.put(made, state, config)
    return made


def changed(
    state: WorkingSetJson,
    config: RunConfig,
    fields: Mapping[str, Any],
    append: Mapping[str, Sequence[Any]],
    remove: Mapping[str, Sequence[Any]],
    state_patch: Mapping[str, Any] | None = None,
    state_type: type[Any] | None = None,
    *,
    plain: bool = False,
) -> WorkingSetJson:
    """Return the state after one update, its sequence number one higher; raise if it may not become that.

    What is `plain` was read from JSON.
    """
    own, (new, added, removed) = fields, _edits(fields, append, remove, plain)
    after = {**state, **new}
    for name, items in removed.items():
        after[name] = _without(after[name], items)
    for name, items in added.items():
        after[name] = [*after[name], *items]
    after["_update_seq"] = state["_update_seq"] + 1
    _change_own(after, config, own, state_patch, state_type)
    touched = {name: after[name] for name in (*new, *added)}
    check_schema("ws_patch", touched, part="fields")
    _check_times(touched.get("sliding_context", ()))
    if len(after["pinned_context"]) > config.pinned_context_max_items:
        raise BudgetExceeded(
            f"pinned_context may hold {config.pinned_context_max_items} items, not {len(after['pinned_context'])}; "
            "nothing changed",
            limit=config.pinned_context_max_items,
            needed=len(after["pinned_context"]),
        )
    return after


def check_edits(
    fields: Mapping[str, Any], append: Mapping[str, Sequence[Any]], remove: Mapping[str, Sequence[Any]]
) -> None:
    """Refuse an update, read from JSON, for what is wrong with it whatever the run is like."""
    new, added, _ = _edits(fields, append, remove, plain=True)
    check_schema("ws_patch", {**new, **added}, part="fields")
    _check_times([*new.get("sliding_context", ()), *added.get("sliding_context", ())])


def _edits(
    fields: Mapping[str, Any], append: Mapping[str, Sequence[Any]], remove: Mapping[str, Sequence[Any]], plain: bool
) -> tuple[dict[str, Any], dict[str, list[Any]], dict[str, list[Any]]]:
    """Return what an update replaces, adds and removes as plain data, without the run's own state."""
    new = {name: value for name, value in fields.items() if name != own_state.FIELD}
    for name in new:
        if name not in MUTABLE:
            raise _refused(name, (*MUTABLE, own_state.FIELD, *EDITS))
    for name in (*append, *remove):
        if name not in MUTABLE:
            raise _refused(name, LISTS)
        if name not in LISTS:
            raise InvalidInput("is not a list, so nothing can be appended or removed; nothing changed", path=name)
        if name in new:
            raise InvalidInput("was both replaced and edited; do one of the two; nothing changed", path=name)
    removed = {name: _list(items, name) for name, items in remove.items()}
    added = {name: _list(items, name) for name, items in append.items()}
    if plain:
        return new, added, removed
    new, added, removed = data(new), data(added), data(removed)
    # What was there is known to be valid: only what is new has to be looked at.
    encode([new, added, removed])
    return new, added, removed


def _change_own(
    after: WorkingSetJson,
    config: RunConfig,
    fields: Mapping[str, Any],
    patch: Mapping[str, Any] | None,
    kind: type[Any] | None,
) -> None:
    """Replace the run's own state, or merge a patch into it. What a patch makes of it must fit the type."""
    if own_state.FIELD in fields:
        if patch:
            raise InvalidInput("was both replaced and patched; do one of the two; nothing changed", path="state")
        own_state.put(after, fields[own_state.FIELD], config)
    elif patch:
        own_state.put(after, own_state.patched(after.get(own_state.FIELD), patch, kind), config)


def require_valid(state: WorkingSetJson) -> None:
    """Raise `InvalidInput`, with the path, unless this is a working set 2.1."""
    encode(state)
    check_schema("working_set", state)
    _check_times(state["sliding_context"])


def _check_times(items: Sequence[Mapping[str, Any]]) -> None:
    for place, item in enumerate(items):
        if _instant(item["timestamp"]) is None:
            instant(item["timestamp"], f"$.sliding_context[{place}].timestamp")


def instant(text: str, path: str = "") -> datetime:
    """Return the moment an RFC 3339 time names, whatever its offset."""
    found = _instant(text)
    if found is None:
        raise InvalidInput(f"{text[:60]!r} is not a time such as 2026-01-31T09:30:00Z", path=path)
    return found


@lru_cache(maxsize=4096)
def _instant(text: str) -> datetime | None:
    try:
        # A leap second is a valid time that datetime cannot hold: it counts as the second before it.
        return datetime.fromisoformat(_LEAP.sub(":59", text).upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def ranked(items: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the places of sliding items in the order in which they leave: priority, instant, place."""
    return sorted(
        range(len(items)), key=lambda place: (items[place]["priority"], instant(items[place]["timestamp"]), place)
    )


def require_id(value: object, what: str) -> str:
    """Return an id that is safe as a key everywhere, or raise `InvalidInput`."""
    if type(value) is not str or not 0 < len(value) <= MAX_RUN_ID or not value.isprintable():
        raise InvalidInput(f"a {what} must be 1 to {MAX_RUN_ID} printable characters, not {value!r:.80}")
    return value


def data(value: Any, depth: int = 0) -> Any:
    """Return plain JSON data: our own frozen items become objects, tuples become lists.

    What is too deep to be stored stays as it is, for `encode` to refuse.
    """
    if isinstance(value, (ArtifactRef, PinnedItem, SlidingItem)):
        return msgspec.to_builtins(value)
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, (list, tuple)):
        return [data(item, depth + 1) for item in value]
    if type(value) is dict:
        return {key: data(item, depth + 1) for key, item in value.items()}
    return value


def view(state: WorkingSetJson) -> WorkingSet:
    """Return the frozen value of a state that was valid when it was stored.

    What a run's own state holds can be edited by whoever sees it, so that is a copy.
    """
    if state.get(own_state.FIELD) is not None:
        state = {**state, own_state.FIELD: pack(state[own_state.FIELD]).load()}
    try:
        return msgspec.convert(state, WorkingSet)
    except msgspec.ValidationError as problem:
        raise Damaged(f"a stored working set is not one ({problem})", reason="corrupt") from None


def _refused(name: str, allowed: Sequence[str]) -> Immutable | InvalidInput:
    name = _ATTRIBUTES.get(name, name)
    if name in IMMUTABLE:
        return Immutable(f"{name} never changes in a run; nothing changed", field=name)
    return InvalidInput(f"{no_field(name, allowed)}; nothing changed", path=name)


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(f"needs a list of items, not {type(value).__name__}; nothing changed", path=name)
    return list(value)


def _without(items: list[Any], wanted: list[Any]) -> list[Any]:
    """Leave out what equals a wanted item, or has it as its id. What is not there stays not there."""
    ids = {item for item in wanted if isinstance(item, str)}
    whole = [item for item in wanted if not isinstance(item, str)]
    return [
        item
        for item in items
        if not (item in ids if isinstance(item, str) else item["id"] in ids) and item not in whole
    ]


# ---- the difference between two states ------------------------------------------------------------------------------
#
# A change is JSON, as small as what really changed: `{"set": {field: value}, "lists": {field: [[start, stop, items],
# ...]}}`. A splice replaces old[start:stop] by items; the splices of a list are ascending, do not overlap, and speak
# about the list before any of them.


def change(before: WorkingSetJson, after: WorkingSetJson) -> dict[str, Any]:
    """Return what turns `before` into `after`. Both have the same fields, apart from a state of its own."""
    fields: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    for name, value in after.items():
        if name == own_state.FIELD:
            if name not in before or own_state.differs(before[name], value):
                fields[name] = value
            continue
        old = before[name]
        if old == value:
            continue
        if isinstance(value, list):
            lists[name] = _splices(old, value)
        else:
            fields[name] = value
    return {"set": fields, "lists": lists}


def apply(state: WorkingSetJson, change: dict[str, Any]) -> WorkingSetJson:
    """Return a new state with the change made; the given one stays as it is."""
    after = {**state, **change["set"]}
    for name, splices in change["lists"].items():
        items = list(state[name])
        for start, stop, replacement in reversed(splices):
            items[start:stop] = replacement
        after[name] = items
    return after


def _splices(old: list[Any], new: list[Any]) -> list[list[Any]]:
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    if not left or not right or len(left) * len(right) > MAX_MATCHED**2:
        return [[head, head + len(left), right]]
    matcher = SequenceMatcher(None, [encode(item) for item in left], [encode(item) for item in right], autojunk=False)
    return [[head + a, head + b, right[c:d]] for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
