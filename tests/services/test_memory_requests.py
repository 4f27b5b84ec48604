"""What a request must be: the schema of version 2.1 and its rules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from strongroom.errors import InvalidInput
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.requests import read_requests, stage
from strongroom.services.memories.values import MemoryRequest, Proposal, Request
from tests.services.memory_samples import mcr

NOW = datetime(2026, 1, 1, tzinfo=UTC)

REFUSED: dict[str, Any] = {
    "no requests": [],
    "text": "remember this",
    "not an object": ["remember this"],
    "an unknown field": [mcr(importance=3)],
    "another schema version": [mcr(_schema_version="3.0")],
    "an unknown op": [mcr(op="delete")],
    "an unknown type": [mcr(type="rumour")],
    "an unknown scope": [mcr(scope="world")],
    "no content": [{key: value for key, value in mcr().items() if key != "content"}],
    "empty content": [mcr("")],
    "invisible content": [mcr("\u200b\u2060 ")],
    "empty rationale": [mcr(rationale="")],
    "confidence above 1": [mcr(confidence=1.01)],
    "confidence below 0": [mcr(confidence=-0.01)],
    "confidence not a number": [mcr(confidence=float("nan"))],
    "confidence as text": [mcr(confidence="high")],
    "no source_refs": [{key: value for key, value in mcr().items() if key != "source_refs"}],
    "source_refs as text": [mcr(source_refs="web")],
    "an empty source": [mcr(source_refs=[""])],
    "too many sources": [mcr(source_refs=[str(n) for n in range(65)])],
    "supersede without targets": [mcr(op="supersede")],
    "add with targets": [mcr(supersedes=["mem_1"])],
    "deprecate without target": [mcr(op="deprecate")],
    "add with a target": [mcr(target_memory_id="mem_1")],
    "deprecate with an id of its own": [mcr(op="deprecate", target_memory_id="mem_1", memory_id="mem_2")],
    "a short memory id": [mcr(memory_id="ab")],
    "a long memory id": [mcr(memory_id="m" * 256)],
    "a memory id that cannot be printed": [mcr(memory_id="mem\n1")],
    "two of one memory id": [mcr(memory_id="mem_1"), mcr("other", memory_id="mem_1")],
    "two that replace one": [mcr(op="supersede", supersedes=["mem_1"]) for _ in range(2)],
    "global with a user": [mcr(user_id="u1")],
    "of a user who is not named": [mcr(scope="user")],
    "of a user, but a project is named": [mcr(scope="user", project_id="p1")],
    "of a project that is not named": [mcr(scope="project", user_id="u1")],
    "replacing for a user who is not named": [mcr(op="supersede", supersedes=["mem_1"], scope="user")],
    "a date that is none": [mcr(created_at="banana")],
    "a date without a zone": [mcr(updated_at="2026-01-01T00:00:00")],
    "expired already": [mcr(expires_at="2025-12-31T23:59:59Z")],
    "an unknown trust": [mcr(trust="absolute")],
    "its own source": [mcr(memory_id="mem_1", source_refs=["mem_1"])],
    "a later one as source": [mcr(source_refs=["mem_2"]), mcr("other", memory_id="mem_2")],
    "a lone surrogate": [mcr("bad \ud800 text")],
    "oversized content": [mcr("x" * 8_001)],
    "too many requests": [mcr(f"fact {n}") for n in range(201)],
}


def staged(requests: Any, batch_id: str = "batch_1", proposer: str = "agent-7") -> tuple[Proposal, ...]:
    return stage(read_requests(requests), batch_id, proposer, Policy(), NOW)


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what: str) -> None:
    with pytest.raises(InvalidInput):
        staged(REFUSED[what])


def test_a_minimal_request_is_accepted() -> None:
    request = mcr()
    del request["_schema_version"]
    [proposal] = staged([request])
    assert proposal.request.content == request["content"]


def test_what_was_once_known_without_its_owner_can_still_be_deprecated() -> None:
    [proposal] = staged([mcr(op="deprecate", target_memory_id="mem_1", scope="user")])
    assert proposal.request.user_id is None


def test_a_policy_may_let_memories_of_nobody_pass() -> None:
    [proposal] = stage(read_requests([mcr(scope="user")]), "b", "agent-7", Policy(require_owner=False), NOW)
    assert proposal.request.scope == "user"


def test_every_optional_field_is_accepted() -> None:
    request = mcr(
        op="supersede", scope="user", supersedes=["mem_1"], target_memory_id=None, memory_id="mem_2", user_id="u1",
        project_id=None, created_at="2026-01-01T00:00:00+02:00", updated_at="2026-01-01T00:00:00Z", trust="untrusted",
        expires_at="2027-01-01T00:00:00Z", confidence=1,
    )  # fmt: skip
    [proposal] = staged([request])
    assert (proposal.memory_id, proposal.trust) == ("mem_2", "untrusted")


def test_the_error_names_the_place() -> None:
    with pytest.raises(InvalidInput) as refused:
        staged([mcr(), mcr(confidence=2)])
    assert refused.value.path == "$[1]"


def test_all_that_is_missing_is_said_at_once() -> None:
    with pytest.raises(InvalidInput, match="needs scope, rationale, confidence, source_refs too; nothing changed"):
        staged({"op": "add", "type": "fact", "content": "x"})


@pytest.mark.parametrize(
    ("field", "wrong", "allowed"),
    [
        ("op", "addd", "add, supersede, deprecate, noop"),
        ("type", "rumour", "fact, preference, policy, decision, invariant"),
        ("scope", "world", "user, project, global"),
        ("trust", "absolute", "untrusted, unverified, trusted, None"),
    ],
)
def test_the_error_names_what_is_allowed(field: str, wrong: str, allowed: str) -> None:
    with pytest.raises(InvalidInput, match=f"{field} must be one of {allowed}, not '{wrong}'"):
        staged(mcr(**{field: wrong}))


def test_a_field_that_nobody_knows_is_told_which_there_are() -> None:
    with pytest.raises(InvalidInput, match="has no 'importance'; it has _schema_version, op, type, scope"):
        staged(mcr(importance=3))


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_request_says_that_nothing_changed(what: str) -> None:
    with pytest.raises(InvalidInput, match="nothing changed"):
        staged(REFUSED[what])


def test_type_checkers_know_the_fields_that_there_are() -> None:
    needed = {field.encode_name for field in msgspec.structs.fields(Request) if field.required}
    assert MemoryRequest.__required_keys__ == needed
    assert MemoryRequest.__optional_keys__ == {f.encode_name for f in msgspec.structs.fields(Request)} - needed


def test_ids_depend_on_the_batch_and_the_place_only() -> None:
    once = staged([mcr(), mcr("other")])
    again = staged([mcr(), mcr("other")])
    other = staged([mcr(), mcr("other")], "batch_2", "agent-7")
    ids = [proposal.memory_id for proposal in (*once, *other)]
    assert [proposal.memory_id for proposal in once] == [proposal.memory_id for proposal in again]
    assert len(set(ids)) == 4


def test_the_ids_of_one_batch_are_neighbours_in_its_order() -> None:
    batches = [staged([mcr(f"fact {n}") for n in range(200)], f"batch_{n}", "a") for n in range(5)]
    ids = [[proposal.memory_id or "" for proposal in batch] for batch in batches]
    assert sorted(id for batch in ids for id in batch) == [id for batch in sorted(ids) for id in batch]
