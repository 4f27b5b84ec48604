"""What people see of memories in a terminal, and how they decide there."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import strongroom
from tests.cli.conftest import Type, memory_id


@pytest.mark.parametrize(
    ("whose", "told"),
    [
        ({"scope": "user", "user_id": "u1"}, "(user u1, "),
        ({"scope": "project", "project_id": "p1"}, "(project p1, "),
        ({"scope": "user", "user_id": "u1", "project_id": "p1"}, "(user u1, project p1, "),
        ({"scope": "global"}, "(global, of everybody, "),
    ],
)
def test_what_waits_for_a_decision_says_whose_it_is(
    whose: dict[str, str], told: str, here: Path, type_in: Type
) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        wanted = {"op": "add", "type": "fact", "content": "likes tea", "rationale": "said so", "confidence": 1}
        ctx.memories.propose([{**wanted, "source_refs": [], **whose}], proposer="agent-8")  # type: ignore[list-item]
    assert told in type_in("memories", "pending", "--proposer", "agent-8").out


def test_the_first_memory_creates_the_store_and_looking_does_not(empty: Path, type_in: Type) -> None:
    assert "no store at" in type_in("--url", "new.db", "memories", "list").err
    assert not (empty / "new.db").exists()
    assert type_in("--url", "new.db", "memories", "add", "likes tea").out.startswith("active: ")
    assert type_in("--url", "new.db", "--json", "memories", "list").json["memories"][0]["content"] == "likes tea"


def test_the_first_proposal_creates_the_store(here: Path, type_in: Type) -> None:
    made = type_in("--url", "new.db", "memories", "propose", "proposal.json", "--proposer", "agent-8")
    assert made.out.startswith("pending: ") and (here / "new.db").exists()


def test_what_is_not_said_of_a_memory_depends_on_who_says_it(empty: Path, type_in: Type) -> None:
    type_in("--url", "agent.db", "memories", "add", "likes tea")
    type_in("memories", "add", "likes milk", "--proposer", "agent-8")
    [known] = type_in("--json", "memories", "list").json["memories"]
    [batch] = type_in("--json", "memories", "pending").json["batches"]
    asked = batch["proposals"][0]["request"]
    assert [(one["confidence"], one["rationale"]) for one in (known, asked)] == [
        (1.0, "added in a terminal"),
        (0.8, "no reason given"),
    ]


def test_any_status_lists_what_is_no_longer_known_too(empty: Path, type_in: Type) -> None:
    with strongroom.open(empty / "agent.db") as ctx:
        ctx.memories.delete(ctx.memories.add("likes tea").id)
    assert type_in("--json", "memories", "list").json["memories"] == []
    assert len(type_in("--json", "memories", "list", "--status", "any").json["memories"]) == 1


def test_what_is_pending_is_said_to_wait_in_its_batch(empty: Path, type_in: Type) -> None:
    with strongroom.open(empty / "agent.db") as ctx:
        added = ctx.memories.add("likes tea", proposer="agent-8")
    assert f"waits for a review in batch '{added.batch_id}'" in type_in("memories", "delete", added.id).err


def decide(type_in: Type, monkeypatch: pytest.MonkeyPatch, *lines: str) -> dict[str, int]:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    made: dict[str, int] = type_in("--json", "memories", "review", "--reviewer", "ana").json
    return made


def test_a_review_steps_through_the_queue(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        batches = ["batch_second", *(ctx.memories.add(f"tea {n}", proposer="agent-8").batch_id for n in range(3))]
    made = decide(type_in, monkeypatch, "accept", "r", "hearsay", "what?", "s", "q")
    assert made == {"accepted": 1, "rejected": 1, "edited": 0, "skipped": 1}
    with strongroom.open(here / "agent.db") as ctx:
        found = [ctx.memories.batch(id) for id in batches]
        assert [batch.status for batch in found] == ["committed", "rejected", "pending", "pending"]
        assert found[1].reason == "hearsay"


def test_all_of_a_proposal_is_shown_before_it_is_accepted(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        long = "harmless " * 200 + "and invoices go to account 666"
        ctx.memories.add(long, proposer="agent-8", rationale=f"{long}, I was told")
    monkeypatch.setattr("sys.stdin", io.StringIO("s\nq\n"))
    shown = type_in("memories", "review", "--reviewer", "ana", "--proposer", "agent-8").out
    assert f"     {long}\n" in shown and f"because {long}, I was told" in shown


def test_a_question_mark_says_what_each_answer_does(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("?\nq\n"))
    told = type_in("memories", "review", "--reviewer", "ana").err
    assert "a  accept: all of the batch becomes known" in told
    with strongroom.open(here / "agent.db") as ctx:
        assert len(ctx.memories.pending()) == 1


def test_what_is_edited_is_accepted_in_one_go(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    made = decide(type_in, monkeypatch, "edit", "allows two requests", "quit")
    assert made["edited"] == 1 and made["accepted"] == 0
    with strongroom.open(here / "agent.db") as ctx:
        assert ctx.memories.pending() == []
        [proposal] = ctx.memories.batch("batch_second").proposals
        assert (proposal.outcome, proposal.edited) == ("committed", "allows two requests")


def test_an_edit_without_words_decides_nothing(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(decide(type_in, monkeypatch, "edit", "", "quit").values()) == 0


def test_a_batch_is_committed_in_other_words(here: Path, type_in: Type) -> None:
    type_in("memories", "commit", "batch_second", "--reviewer", "ana", "--edit", "0=allows two requests")
    with strongroom.open(here / "agent.db") as ctx:
        assert ctx.memories.batch("batch_second").proposals[0].edited == "allows two requests"


def test_an_edit_that_does_not_say_which_is_explained(here: Path, type_in: Type) -> None:
    refused = type_in("memories", "commit", "batch_second", "--reviewer", "ana", "--edit", "allows three")
    assert refused.code == 2 and "say which and how" in refused.err


def test_the_end_of_the_answers_is_the_end_of_the_review(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(decide(type_in, monkeypatch).values()) == 0
    with strongroom.open(here / "agent.db") as ctx:
        assert len(ctx.memories.pending()) == 1


def test_a_search_that_found_nothing_says_when_nobody_was_named(here: Path, type_in: Type) -> None:
    assert "name an owner with --user or --project" in type_in("memories", "search", "tea").out
    assert "name an owner" not in type_in("memories", "search", "tea", "--user", "u1").out


@pytest.mark.parametrize("where", ["nonsense", "[1]", '{"a": {"near": 1}}'])
def test_a_condition_that_is_none_is_refused(here: Path, type_in: Type, where: str) -> None:
    assert type_in("memories", "list", "--where", where).code in (1, 2)


def test_metadata_that_is_no_json_is_called_by_its_option(here: Path, type_in: Type) -> None:
    assert "--metadata takes JSON" in type_in("memories", "add", "likes tea", "--metadata", '{"a":').err


def test_a_list_of_more_than_what_is_active_says_what_is(here: Path, type_in: Type) -> None:
    type_in("memories", "delete", memory_id(here))
    told = type_in("memories", "list", "--status", "any").out
    assert "status" in told and "deprecated" in told


def test_a_list_of_what_is_active_does_not_say_so(here: Path, type_in: Type) -> None:
    assert "active" not in type_in("memories", "list").out


@pytest.mark.parametrize("order", ["--user u --project p", "--project p --user u"])
def test_a_user_in_a_project_is_erased_in_whatever_order_they_are_named(order: str, here: Path, type_in: Type) -> None:
    type_in("memories", "add", "likes tea", "--user", "u", "--project", "p")
    assert "erased: 1 memory" in type_in("memories", "erase", *order.split(), "--yes").out


def test_an_erasure_that_is_not_confirmed_changes_nothing(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        added = ctx.memories.add("likes tea", user_id="u1")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert type_in("memories", "erase", "--user", "u1").code == 1
    with strongroom.open(here / "agent.db") as ctx:
        assert ctx.memories.get(added.id).content == "likes tea"


def test_a_person_is_erased_where_an_embedder_is_named(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRONGROOM_EMBEDDER", "tests.hashed:hashed")
    with strongroom.open(here / "agent.db") as ctx:
        ctx.memories.add("likes tea", user_id="u1")
    assert type_in("--json", "erase", "--user", "u1", "--yes").json["complete"]


def test_that_there_is_no_memory_at_all_is_said_only_where_nobody_has_one(empty: Path, type_in: Type) -> None:
    with strongroom.open(empty / "agent.db") as ctx:
        assert "there is none at all in space 'default'" in type_in("memories", "show", "x").err
        ctx.memories.add("likes tea", user_id="ana")
    told = type_in("memories", "show", "x").err
    assert "`strongroom memories list --everyone --status any` shows what there is" in told


def test_batches_that_were_decided_are_not_said_to_be_none(here: Path, type_in: Type) -> None:
    type_in("memories", "commit", "batch_second", "--reviewer", "ana")
    assert "none waits for a decision in space 'default'" in type_in("memories", "commit", "x").err


def test_a_list_says_of_an_erased_owner_that_it_is_erased_and_no_hash(here: Path, type_in: Type) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        ctx.runs.create(objective="o", run_id="r-of-ana", user_id="ana")
    type_in("erase", "--user", "ana", "--yes")
    [line] = [line for line in type_in("runs", "list").out.splitlines() if "r-of-ana" in line]
    assert len(re.findall(r"\(erased\)(?! [0-9a-f])", line)) == 2
