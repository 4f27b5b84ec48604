"""From mem0's arguments to those of `ctx.memories`, and from memories to mem0's answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from hashlib import md5
from typing import Any

from strongroom.errors import InvalidInput
from strongroom.services.memories.values import Change, Memory

Answer = dict[str, Any]

PROJECT = "mem0"
OWNERS = ("user_id", "agent_id", "run_id")
TAGGED = ("agent_id", "run_id", "role", "actor_id")
FIRST, SINCE = "mem0_id", "mem0_created_at"  # metadata of an updated memory: what stays of the first
LONGEST = 90
MOST = 1_000
UNCHANGED = "nothing changed"
_SAME = ("gt", "gte", "lt", "lte", "in")


def lens(filters: Mapping[str, Any] | None, named: Mapping[str, str | None]) -> dict[str, Any]:
    """Return whose memories are meant and which of them, from `filters`, or from ids given by name."""
    given = {name: value for name, value in named.items() if value is not None} | dict(filters or {})
    owners = {name: given.pop(name) for name in OWNERS if isinstance(given.get(name), str) and given[name] != "*"}
    if "user_id" in given:
        raise InvalidInput(f"user_id names one user, not {given['user_id']!r:.60}")
    whose, carried = whose_and_tags(owners)
    return {**whose, "tags": carried, **({"where": _condition(given)} if given else {})}


def whose_and_tags(owners: Mapping[str, str | None]) -> tuple[dict[str, str], list[str]]:
    """Return the owner in terms of a memory, and the tags for its agent and run."""
    if all(owners.get(name) is None for name in OWNERS):
        raise InvalidInput(f"one of {', '.join(OWNERS)} must say whose memories; {UNCHANGED}")
    user = owners.get("user_id")
    whose = {"scope": "project", "project_id": PROJECT} if user is None else {"scope": "user", "user_id": user}
    return whose, tags({name: owners.get(name) for name in OWNERS})


def tags(values: Mapping[str, Any]) -> list[str]:
    """Return what is kept as tags, such as `agent_id:a7`."""
    found = {name: values[name] for name in TAGGED if values.get(name) is not None}
    for name, value in found.items():
        if not isinstance(value, str) or not 0 < len(value) <= LONGEST:
            raise InvalidInput(f"{name} is a text of 1 to {LONGEST} characters, not {value!r:.100}; {UNCHANGED}")
    return [f"{name}:{value}" for name, value in found.items()]


def tagged(carried: Iterable[str]) -> dict[str, str]:
    """Return what was kept as tags."""
    parts = [tag.partition(":") for tag in carried]
    return {name: value for name, colon, value in parts if colon and name in TAGGED}


def _condition(filters: object) -> dict[str, Any]:
    if not isinstance(filters, Mapping) or not filters:
        raise InvalidInput(f"filters are fields with values, or AND, OR, NOT with lists of them, not {filters!r:.60}")
    parts = [_part(name, value) for name, value in filters.items()]
    return parts[0] if len(parts) == 1 else {"and": parts}


def _part(name: str, value: Any) -> dict[str, Any]:
    if name in ("AND", "OR", "NOT"):
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise InvalidInput(f"{name} takes a list of filters, not {value!r:.60}")
        parts = [_condition(one) for one in value]
        return {"and": parts} if name == "AND" else {"or": parts} if name == "OR" else {"not": {"or": parts}}
    if name == "user_id":
        raise InvalidInput("user_id stands at the top of filters, by itself: it says whose memories may be seen at all")
    if name in ("and", "or", "not", "tags"):
        raise InvalidInput(f"there is no filter {name!r}; there are metadata, {', '.join(OWNERS)}, AND, OR and NOT")
    if isinstance(value, Mapping):
        parts = [_compared(name, how, operand) for how, operand in value.items()]
        return parts[0] if len(parts) == 1 else {"and": parts}
    return _compared(name, "eq", value)


def _compared(name: str, how: str, value: Any) -> dict[str, Any]:
    if how in ("ne", "nin"):
        return {"not": _compared(name, {"ne": "eq", "nin": "in"}[how], value)}
    if how != "eq" and how not in _SAME:
        raise InvalidInput(f"a filter compares with eq, ne, in, nin, gt, gte, lt or lte, not {how!r:.40}")
    if name in TAGGED:
        return _tag_compared(name, how, value)
    if how == "eq" and value == "*":  # whatever it is, as long as it is there
        return {"or": [{name: {"prefix": ""}}, {name: {"gte": float("-inf")}}, {name: {"in": [True, False, None]}}]}
    return {name: value if how == "eq" else {how: value}}


def _tag_compared(name: str, how: str, value: Any) -> dict[str, Any]:
    if how == "eq" and value == "*":
        return {"tags": {"prefix": f"{name}:"}}
    if how == "eq":
        return {"tags": f"{name}:{value}"}
    if how == "in" and isinstance(value, Sequence) and not isinstance(value, str):
        return {"tags": {"in": [f"{name}:{one}" for one in value]}}
    raise InvalidInput(f"{name} is compared with eq, ne, in or nin, not {how!r} with {value!r:.60}")


def count(top_k: int) -> int:
    if type(top_k) is not int or not 0 < top_k <= MOST:
        raise InvalidInput(f"top_k is a whole number from 1 to {MOST:,}, not {top_k!r:.40}")
    return top_k


def messages_of(given: object) -> list[Mapping[str, Any]]:
    """Return the messages to keep: those that anybody but the system said."""
    if isinstance(given, str):
        given = {"role": "user", "content": given}
    listed = [given] if isinstance(given, Mapping) else given
    if not isinstance(listed, Sequence):
        raise InvalidInput(f"messages are a text, a message or a list of messages, not {given!r:.60}; {UNCHANGED}")
    for place, one in enumerate(listed):
        if not isinstance(one, Mapping) or not isinstance(one.get("role"), str):
            raise InvalidInput(f"a message has a role and a content; {UNCHANGED}", path=f"messages[{place}]")
        if one["role"] != "system" and not isinstance(one.get("content"), str):
            raise InvalidInput(f"a content is a text; {UNCHANGED}", path=f"messages[{place}]")
    return [one for one in listed if one["role"] != "system"]


def metadata_of(given: Mapping[str, Any] | None) -> dict[str, Any]:
    for name in (FIRST, SINCE):
        if given is not None and name in given:
            raise InvalidInput(f"metadata {name!r} is the adapter's own; {UNCHANGED}")
    return dict(given or {})


def end_of(day: str | date | None) -> datetime | None:
    """Return the instant at which the day, in UTC, is over."""
    if day is None:
        return None
    try:
        read = date.fromisoformat(day) if isinstance(day, str) else day
        return datetime.combine(read + timedelta(days=1), time(), UTC)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"expiration_date is a day such as '2030-12-31', not {day!r:.60}; {UNCHANGED}") from None


def first_id(memory: Memory) -> str:
    """Return the id that a memory had before all updates."""
    return str(memory.metadata.get(FIRST, memory.id))


def since(memory: Memory) -> str:
    return str(memory.metadata.get(SINCE, memory.created_at.isoformat()))


def own_metadata(memory: Memory) -> dict[str, Any]:
    return {name: value for name, value in memory.metadata.items() if name not in (FIRST, SINCE)}


def shown(memory: Memory) -> Answer:
    """Return a memory as mem0 answers."""
    user = {} if memory.user_id is None else {"user_id": memory.user_id}
    return {
        "id": first_id(memory),
        "memory": memory.content,
        "hash": md5(memory.content.encode(), usedforsecurity=False).hexdigest(),
        "metadata": own_metadata(memory) or None,
        "created_at": since(memory),
        "updated_at": memory.created_at.isoformat(),
        **user,
        **tagged(memory.tags),
    }


def rows(changes: Sequence[Change], memory: Memory) -> list[Answer]:
    """Return the history of a memory: added, updated, deleted."""
    named, found, known = tagged(memory.tags), list[Answer](), None
    for change in changes:
        if change.event in ("proposed", "superseded"):
            continue  # what a commit follows, in the same instant or later
        new = change.content if change.event == "committed" else None
        row = {
            "id": f"{change.memory_id}:{change.event}",
            "memory_id": first_id(memory),
            "old_memory": change.content if new is None else known,
            "new_memory": new,
            "event": "DELETE" if new is None else "ADD" if known is None else "UPDATE",
            "created_at": since(memory),
            "updated_at": change.at.isoformat(),
            "is_deleted": new is None,
        }
        found.append({**row, "actor_id": named.get("actor_id"), "role": named.get("role")})
        known = new
    return found


def deleting(memory: Memory) -> dict[str, Any]:
    """Return the request that ends a memory."""
    return {
        "op": "deprecate",
        "type": memory.type,
        "scope": memory.scope,
        "user_id": memory.user_id,
        "project_id": memory.project_id,
        "content": "(deleted)",
        "rationale": "deleted through mem0",
        "confidence": 1.0,
        "source_refs": [],
        "target_memory_id": memory.id,
    }
