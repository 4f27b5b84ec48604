"""From what a proposer sent to requests that obey the schema and every rule a request can break on its own. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from strongroom.codec import pack
from strongroom.errors import InvalidInput
from strongroom.services.memories import screening
from strongroom.services.memories.keys import OUR_IDS
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.values import (
    SCHEMA_VERSION,
    Memory,
    Op,
    Proposal,
    Request,
    ScopeName,
    Trust,
    Type,
    lowest,
)
from strongroom.store import require_name

UNCHANGED = "nothing changed"
UNSEEN = "content holds nothing a reader could see"
# What a request about one memory may keep from it: whatever its caller does not say anew.
KEPT = ("type", "scope", "confidence", "user_id", "project_id", "tags", "metadata", "expires_at", "source_refs")
_FIELDS = {field.encode_name: field.required for field in msgspec.structs.fields(Request)}
_BOUND = re.compile(r"Expected `(\w+)` (of length )?([<>]=) ([0-9.]+)")
_CHOICES: dict[str, tuple[object, ...]] = {
    "_schema_version": ("2.1",),
    "op": get_args(Op),
    "type": get_args(Type),
    "scope": get_args(ScopeName),
    "trust": (*get_args(Trust), None),
}


def read_requests(given: Any) -> list[Request]:
    """Read one request or a list of them, looking at their form alone. Raise `InvalidInput` for the first bad one."""
    listed = [given] if isinstance(given, (Mapping, Request)) else given
    if isinstance(listed, (str, bytes)) or not isinstance(listed, Sequence):
        raise InvalidInput(f"proposals are a request or a list of requests, not a {type(given).__name__}; {UNCHANGED}")
    plain = [msgspec.to_builtins(one) if isinstance(one, Request) else one for one in listed]  # made by hand, unchecked
    try:
        return msgspec.convert(plain, list[Request])
    except (msgspec.ValidationError, UnicodeEncodeError):
        return [_read(one, f"$[{place}]") for place, one in enumerate(plain)]


def require_kept(requests: Sequence[Request], kept: Sequence[str]) -> None:
    """Refuse to keep what a memory does not have, or to keep anything where a request is not about one memory."""
    known = isinstance(kept, list | tuple) and all(name in KEPT for name in kept)  # it may come from elsewhere
    if kept and not (known and [len(replaced(one)) for one in requests] == [1]):
        raise InvalidInput(f"one request about one memory may keep {', '.join(KEPT)} of it; {UNCHANGED}", path="kept")


def keeping(request: Request, memory: Memory, kept: Sequence[str]) -> Request:
    """Return a request with what it keeps of the memory it is about."""
    return replace(request, **{name: getattr(memory, name) for name in kept})


def normal(requests: Sequence[Request]) -> list[Request]:
    """Return requests that are encoded alike if they are equal: with a version that is spelt out, or without."""
    return [
        one if one.schema_version is SCHEMA_VERSION else replace(one, schema_version=SCHEMA_VERSION) for one in requests
    ]


def stage(
    requests: Sequence[Request], batch_id: str, proposer: str, policy: Policy, now: datetime
) -> tuple[Proposal, ...]:
    """Turn requests into the proposals of a batch. Raise `InvalidInput` naming the first thing that is wrong."""
    if not 0 < len(requests) <= policy.max_items:
        raise InvalidInput(f"a batch holds 1 to {policy.max_items} requests, not {len(requests)}; {UNCHANGED}")
    ids = _memory_ids(requests, batch_id)
    places = {id: place for place, id in reversed(list(enumerate(ids)))}
    targets: set[str] = set()
    for place, request in enumerate(requests):
        try:
            check_rules(request, policy, now)
            for target in replaced(request):
                if target in targets:
                    raise InvalidInput(f"two requests of one batch would replace {target!r}")
                targets.add(target)
            if (id := ids[place]) is not None and places[id] != place:
                raise InvalidInput(f"two requests of one batch have the memory_id {id!r}")
            for ref in request.source_refs:
                if places.get(ref, -1) >= place:
                    raise InvalidInput(f"{ref!r} cannot be a source of itself or of what comes before it")
        except InvalidInput as problem:
            raise InvalidInput(f"{problem}; {UNCHANGED}", path=f"$[{place}]") from None
    ceiling = policy.ceiling(proposer)
    flags = _flags(requests)
    return tuple(
        [
            Proposal(
                request=request,
                memory_id=ids[place],
                trust=lowest(ceiling, [request.trust]) if request.trust else ceiling,
                flags=flags[place],
            )
            for place, request in enumerate(requests)
        ]
    )


def accepted(proposal: Proposal) -> Request:
    """Return what committing a proposal makes known: its request, with its reviewer's words if those are others."""
    return proposal.request if proposal.edited is None else replace(proposal.request, content=proposal.edited)


def edited(proposal: Proposal, content: str, policy: Policy) -> Proposal:
    """Return a proposal with a reviewer's words for it, which obey what a proposer's have to."""
    request = proposal.request
    if content == request.content:
        return proposal
    if proposal.memory_id is None:
        raise InvalidInput(f"op {request.op!r} makes no memory, so there is nothing to edit")
    check_content(content, policy)
    return replace(proposal, edited=content, flags=screening.flags(_said(replace(request, content=content))))


def _flags(requests: Sequence[Request]) -> list[tuple[str, ...]]:
    """Return what is odd about each request. Where nothing is odd about all of them together, nothing is about any."""
    texts = [_said(request) for request in requests]
    if not screening.flags("\n".join(texts)):
        return [()] * len(texts)
    return [screening.flags(text) for text in texts]


def _said(request: Request) -> str:
    """Return all that a proposer says in words of its own, each on a line: how much is bounded by `values.Request`.

    A name, a hash or an address says nothing to a model; what has blanks in it, or more than ASCII, may be words.
    """
    beside = [*request.source_refs, *request.tags]
    for name, value in request.metadata.items():
        beside += [name, value] if isinstance(value, str) else [name]
    words = [text for text in beside if not text.isascii() or len(text.split()) > 1]
    return "\n".join([request.content, request.rationale, *words])


def besides(request: Request) -> dict[str, object]:
    """Return what a proposal says besides its words and its reason, by its names: a reviewer is shown all of it."""
    said: dict[str, object] = {"sources": list(request.source_refs), "tags": list(request.tags)}
    said |= {"metadata": dict(request.metadata), "happened": request.happened_at, "valid from": request.valid_from}
    said |= {"valid until": request.valid_until, "expires": request.expires_at}
    return {name: value for name, value in said.items() if value}


def replaced(request: Request) -> tuple[str, ...]:
    """Return the ids of the memories a request would end."""
    if request.op == "supersede":
        return request.supersedes
    return (request.target_memory_id,) if request.op == "deprecate" and request.target_memory_id else ()


def _read(given: Any, path: str) -> Request:
    try:
        return msgspec.convert(given, Request)
    except (msgspec.ValidationError, UnicodeEncodeError) as problem:
        wrong = "; ".join(_wrong(given)) if isinstance(given, Mapping) else ""
        raise InvalidInput(f"{wrong or _plainly(problem)}; {UNCHANGED}", path=path) from None


def _plainly(problem: Exception) -> str:
    """Say which field is wrong and what is allowed in it, where the library says what it expected."""
    told, _, where = str(problem).partition(" - at `")
    field = where.rpartition("$.")[2].rstrip("`")
    if "timezone component" in told:
        return f"{field} must say its time zone, as datetime.now(timezone.utc) does"
    found = _BOUND.fullmatch(told)
    if found is None or not field:
        return str(problem)
    kind, length, sign, bound = found.groups()
    named = f"a key of {field}" if where.startswith("key") else field
    if not length:
        return f"{named} must be {'at least' if sign == '>=' else 'at most'} {float(bound):g}"
    if (kind, sign, bound) == ("str", ">=", "1"):
        return f"{named} must not be empty"
    what = "characters" if kind == "str" else "items"
    return f"{named} must have {'at least' if sign == '>=' else 'at most'} {bound} {what}"


def _wrong(given: Mapping[Any, Any]) -> list[str]:
    """Say all that is missing, unknown or not among what is allowed."""
    found = []
    if missing := [name for name, required in _FIELDS.items() if required and name not in given]:
        found.append(f"a request needs {', '.join(missing)} too")
    if unknown := [name for name in given if name not in _FIELDS]:
        found.append(f"a request has no {', '.join(f'{name!r:.40}' for name in unknown)}; it has {', '.join(_FIELDS)}")
    found += [f"{name} must not be empty" for name in ("content", "rationale") if given.get(name) == ""]
    for name, allowed in _CHOICES.items():
        if name in given and given[name] not in allowed:
            choices = ", ".join(str(each) for each in allowed)
            found.append(f"{name} must be one of {choices}, not {given[name]!r:.40}")
    return found


def check_rules(request: Request, policy: Policy, now: datetime) -> None:
    """Raise `InvalidInput` for the first rule that a request breaks on its own."""
    for name, text in (("content", request.content), ("rationale", request.rationale)):
        if len(text) > policy.max_content_chars:
            raise InvalidInput(f"{name} is limited to {policy.max_content_chars} characters")
    if not screening.plain(request.content).strip():
        raise InvalidInput(UNSEEN)
    if request.valid_from is not None and request.valid_until is not None and request.valid_until <= request.valid_from:
        raise InvalidInput("valid_until must be later than valid_from")
    if request.expires_at is not None and request.expires_at <= now:
        raise InvalidInput(f"expires_at {request.expires_at} has passed")
    if len(request.source_refs) > policy.max_source_refs:
        raise InvalidInput(f"a request may cite {policy.max_source_refs} sources")
    if any(len(ref) > 2_000 for ref in request.source_refs):
        raise InvalidInput("a source_ref is limited to 2000 characters")
    if policy.require_owner and request.op in ("add", "supersede"):
        _check_owner(request)
    _check_names(request)
    plain = not (request.source_refs or request.tags or request.metadata)
    if not (plain and request.content.isascii() and request.rationale.isascii()):
        pack(request)  # refuses lone surrogates, which no store could hold


def check_content(content: str, policy: Policy) -> None:
    """Raise `InvalidInput` for the first rule that words break which nobody proposed."""
    if len(content) > policy.max_content_chars:
        raise InvalidInput(f"content is limited to {policy.max_content_chars} characters")
    if not screening.plain(content).strip():
        raise InvalidInput(UNSEEN)
    pack({"content": content})  # refuses lone surrogates, which no store could hold


def _check_owner(request: Request) -> None:
    """Whose a memory is stands in its own field: without it everybody would see what is said to be one's own."""
    owner = {"user": request.user_id, "project": request.project_id}
    if owner.get(request.scope, "") is None:
        raise InvalidInput(f"scope {request.scope!r} needs a {request.scope}_id; without one, use scope 'global'")


def _check_names(request: Request) -> None:
    if request.op == "supersede" and not request.supersedes:
        raise InvalidInput("op 'supersede' needs at least one id in supersedes")
    if request.op != "supersede" and request.supersedes:
        raise InvalidInput(f"op {request.op!r} takes no supersedes")
    if request.op == "deprecate" and not request.target_memory_id:
        raise InvalidInput("op 'deprecate' needs target_memory_id")
    if request.op != "deprecate" and request.target_memory_id:
        raise InvalidInput(f"op {request.op!r} takes no target_memory_id")
    if request.op in ("deprecate", "noop") and request.memory_id:
        raise InvalidInput(f"op {request.op!r} makes no memory, so it takes no memory_id")
    if request.scope == "global" and (request.user_id or request.project_id):
        raise InvalidInput("a global memory belongs to nobody: it takes no user_id and no project_id")
    for field in ("memory_id", "target_memory_id", "user_id", "project_id"):
        value = getattr(request, field)
        if value is not None:
            require_name(value, field)
    for target in request.supersedes:
        require_name(target, "an id in supersedes")


def _memory_ids(requests: Sequence[Request], batch_id: str) -> list[str | None]:
    """Name the memories to be made. Those of one batch are neighbours, so that a store's index keeps them together."""
    ours = OUR_IDS + sha256(batch_id.encode()).hexdigest()[:20]
    ids: list[str | None] = []
    for place, request in enumerate(requests):
        makes = request.op in ("add", "supersede")
        ids.append((request.memory_id or f"{ours}{place:04x}") if makes else None)
    return ids
