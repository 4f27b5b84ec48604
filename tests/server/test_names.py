"""Who is recorded: the name that a caller says, whichever it is, and the key's own if they say none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom.errors import InvalidInput
from tests.server.samples import MCR
from tests.server.serving import Served, served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(str(tmp_path / "agent.db")) as started:
        yield started


@pytest.fixture
def local(server: Served) -> Iterator[strongroom.Context]:
    """Somebody on this machine, of a server without keys."""
    with strongroom.connect(server.url) as ctx:
        yield ctx


@pytest.fixture
def writer(server: Served) -> Iterator[tuple[strongroom.Context, str]]:
    """A writer, and the name of its key."""
    key = server.key(role="writer")
    with strongroom.connect(server.url, key=key) as ctx:
        yield ctx, key[4:16]


def test_a_proposer_called_agent_is_recorded(local: strongroom.Context) -> None:
    written = local.memories.add("likes tea", user_id="ana", proposer="agent")
    assert local.memories.batch(written.batch_id).proposer == "agent"


def test_a_proposer_called_agent_may_not_approve_what_it_proposed(local: strongroom.Context) -> None:
    written = local.memories.add("likes tea", user_id="ana", proposer="agent")
    with pytest.raises(InvalidInput, match="may not commit it"):
        local.memories.commit(written.batch_id, reviewer="Agent")


def test_what_a_proposer_called_agent_proposed_is_found_by_its_name(local: strongroom.Context) -> None:
    written = local.memories.add("likes tea", user_id="ana", proposer="agent")
    assert [batch.id for batch in local.memories.pending(proposer="agent")] == [written.batch_id]


def test_a_proposer_called_agent_stands_behind_the_name_of_its_key(writer: tuple[strongroom.Context, str]) -> None:
    ctx, key = writer
    assert ctx.memories.propose([MCR], proposer="agent").proposer == f"{key}/agent"


def test_a_proposer_called_agent_is_recorded_in_a_turn(local: strongroom.Context) -> None:
    with local.turn() as turn:
        turn.propose([MCR], proposer="agent")
    assert turn.results()[0].proposer == "agent"


def test_a_reviewer_called_agent_is_recorded(local: strongroom.Context) -> None:
    batch = local.memories.propose([MCR], proposer="agent-7")
    assert local.memories.commit(batch.id, reviewer="agent").reviewer == "agent"


def test_an_actor_called_agent_is_recorded(local: strongroom.Context) -> None:
    run = local.runs.create(objective="x")
    assert run.record("TOOL_RESULT", {"tool_name": "t", "ok": True}, actor="agent").actor == "agent"


def test_an_actor_called_agent_stands_behind_the_name_of_its_key(writer: tuple[strongroom.Context, str]) -> None:
    ctx, key = writer
    run = ctx.runs.create(objective="x")
    assert run.record("TOOL_RESULT", {"tool_name": "t", "ok": True}, actor="agent").actor == f"{key}/agent"


def test_a_run_is_begun_by_an_actor_called_agent(local: strongroom.Context) -> None:
    assert next(iter(local.runs.create(objective="x", actor="agent").events())).actor == "agent"


def test_a_run_that_was_got_for_agent_records_it(local: strongroom.Context) -> None:
    local.runs.create(objective="x", run_id="r")
    assert local.runs.get("r", actor="agent").record("TOOL_RESULT", {"tool_name": "t", "ok": True}).actor == "agent"


def _actors(run: strongroom.Run) -> set[str]:
    return {event.actor for event in run.events()}


def everything(ctx: strongroom.Context, tmp_path: Path) -> set[str]:
    """Return whom the ledgers name, if nobody says who does it."""
    run = ctx.runs.create(objective="x", run_id="r")
    run.update(status="BUSY")
    run.update_with(lambda ws: {"next_action": "look"})
    run.record("TOOL_RESULT", {"tool_name": "t", "ok": True})
    run.attach(b"x", type="text")
    run.milestone("so far")
    run.rollback(0)
    run.export(tmp_path / "pack.zip")
    with ctx.turn() as turn:
        turn.update(run, status="BUSY")
        turn.record(run, "TOOL_RESULT", {"tool_name": "t", "ok": True})
    [listed] = ctx.runs.list()
    listed.update(status="PAUSED")
    ctx.runs.open("r", objective="x", user_id="ana").update(status="BUSY")
    other = run.fork()
    other.update(status="DONE")
    again = ctx.runs.restore(tmp_path / "pack.zip", run_id="again")
    again.record("TOOL_RESULT", {"tool_name": "t", "ok": True})
    ctx.runs.erase("again", reason="asked to")
    return _actors(run) | _actors(other)


def test_whoever_says_no_name_is_known_by_the_key(local: strongroom.Context, tmp_path: Path) -> None:
    assert everything(local, tmp_path) == {"local"}


def test_without_a_server_whoever_says_no_name_is_the_agent(tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        assert everything(ctx, tmp_path) == {"agent"}


class Two(msgspec.Struct):
    """A state of one's own."""

    number: int = 0


def test_a_state_is_held_against_its_type_where_nobody_said_who_updates(local: strongroom.Context) -> None:
    runs = [local.runs.create(objective="x", state=Two()) for _ in range(2)]
    wrong: dict[str, Any] = {"number": "two"}
    with pytest.raises(InvalidInput), local.turn() as turn:
        turn.update(runs[0], state_patch={"number": 1})
        turn.update(runs[1], state_patch=wrong)
