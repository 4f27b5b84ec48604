"""From what a proposer sent to requests that obey the schema and every rule a request can break on its own. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from strongroom.codec import pack
from strongroom.errors import InvalidInput
from strongroom.services.memories import screening
from strongroom.services.memories.keys import OUR_IDS
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.trust import lowest
from strongroom.services.memories.values import Proposal, Request
from strongroom.store import require_name


def stage(mcrs: Sequence[Any], batch_id: str, proposer: str, policy: Policy, now: datetime) -> tuple[Proposal, ...]:
    """Turn requests into the proposals of a batch. Raise `InvalidInput` naming the first thing that is wrong."""
    if isinstance(mcrs, (str, bytes, Mapping)) or not isinstance(mcrs, Sequence):
        raise InvalidInput(f"proposals come as a list of requests, not as a {type(mcrs).__name__}")
    if not 0 < len(mcrs) <= policy.max_items:
        raise InvalidInput(f"a batch holds 1 to {policy.max_items} requests, not {len(mcrs)}; nothing was staged")
    plain = [msgspec.to_builtins(mcr) if isinstance(mcr, Request) else mcr for mcr in mcrs]  # made by hand, unchecked
    try:
        requests = msgspec.convert(plain, list[Request])
    except msgspec.ValidationError:
        requests = [_read(mcr, f"$[{place}]") for place, mcr in enumerate(plain)]
    ids = _memory_ids(requests, batch_id)
    places = {id: place for place, id in reversed(list(enumerate(ids)))}
    targets: set[str] = set()
    for place, request in enumerate(requests):
        _check_rules(request, place, policy, now)
        for target in replaced(request):
            if target in targets:
                raise InvalidInput(f"two requests of one batch would replace {target!r}", path=f"$[{place}]")
            targets.add(target)
        if (id := ids[place]) is not None and places[id] != place:
            raise InvalidInput(f"two requests of one batch have the memory_id {id!r}", path=f"$[{place}]")
        for ref in request.source_refs:
            if places.get(ref, -1) >= place:
                raise InvalidInput(
                    f"{ref!r} can not be a source of itself or of what comes before it", path=f"$[{place}]"
                )
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


def _flags(requests: Sequence[Request]) -> list[tuple[str, ...]]:
    """Return what is odd about each request. Where nothing is odd about all of them together, nothing is about any."""
    texts = [f"{request.content}\n{request.rationale}" for request in requests]
    if not screening.flags("\n".join(texts)):
        return [()] * len(texts)
    return [screening.flags(text) for text in texts]


def replaced(request: Request) -> tuple[str, ...]:
    """Return the ids of the memories a request would end."""
    if request.op == "supersede":
        return request.supersedes
    return (request.target_memory_id,) if request.op == "deprecate" and request.target_memory_id else ()


def _read(mcr: Any, path: str) -> Request:
    try:
        return msgspec.convert(mcr, Request)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"{problem}; nothing was staged", path=path) from None


def _check_rules(request: Request, place: int, policy: Policy, now: datetime) -> None:
    if max(len(request.content), len(request.rationale)) > policy.max_content_chars:
        limit = policy.max_content_chars
        raise InvalidInput(f"content and rationale are limited to {limit} characters", path=f"$[{place}]")
    if not screening.plain(request.content).strip():
        raise InvalidInput("content holds nothing a reader could see", path=f"$[{place}]")
    if request.expires_at is not None and request.expires_at <= now:
        raise InvalidInput(f"expires_at {request.expires_at} has passed", path=f"$[{place}]")
    if request.source_refs:
        _check_sources(request.source_refs, f"$[{place}]", policy)
    if request.op != "add" or _names_something(request):
        _check_names(request, f"$[{place}]")
    if not (request.content.isascii() and request.rationale.isascii() and not request.source_refs):
        pack(request)  # refuses lone surrogates, which no store could hold


def _check_sources(refs: Sequence[str], path: str, policy: Policy) -> None:
    if len(refs) > policy.max_source_refs:
        raise InvalidInput(f"a request may cite {policy.max_source_refs} sources", path=path)
    if any(len(ref) > 2_000 for ref in refs):
        raise InvalidInput("a source_ref is limited to 2000 characters", path=path)


def _names_something(request: Request) -> bool:
    return bool(
        request.memory_id or request.target_memory_id or request.supersedes or request.user_id or request.project_id
    )


def _check_names(request: Request, path: str) -> None:
    if request.op == "supersede" and not request.supersedes:
        raise InvalidInput("op 'supersede' needs at least one id in supersedes", path=path)
    if request.op != "supersede" and request.supersedes:
        raise InvalidInput(f"op {request.op!r} takes no supersedes", path=path)
    if request.op == "deprecate" and not request.target_memory_id:
        raise InvalidInput("op 'deprecate' needs target_memory_id", path=path)
    if request.op != "deprecate" and request.target_memory_id:
        raise InvalidInput(f"op {request.op!r} takes no target_memory_id", path=path)
    if request.op in ("deprecate", "noop") and request.memory_id:
        raise InvalidInput(f"op {request.op!r} makes no memory, so it takes no memory_id", path=path)
    if request.scope == "global" and (request.user_id or request.project_id):
        raise InvalidInput("a global memory belongs to nobody: it takes no user_id and no project_id", path=path)
    for field in ("memory_id", "target_memory_id", "user_id", "project_id"):
        value = getattr(request, field)
        if value is not None:
            require_name(value, f"{path}.{field}")
    for target in request.supersedes:
        require_name(target, f"{path}.supersedes")


def _memory_ids(requests: Sequence[Request], batch_id: str) -> list[str | None]:
    """Name the memories to be made. Those of one batch are neighbours, so that a store's index keeps them together."""
    ours = OUR_IDS + sha256(batch_id.encode()).hexdigest()[:20]
    ids: list[str | None] = []
    for place, request in enumerate(requests):
        makes = request.op in ("add", "supersede")
        ids.append((request.memory_id or f"{ours}{place:04x}") if makes else None)
    return ids
