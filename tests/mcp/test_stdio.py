"""`strongroom mcp` as assistants start it: real processes, a shared file, kill -9."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import mcp
import strongroom
from strongroom.errors import InvalidInput
from strongroom.mcp.principals import PROFILE_OF_ROLE, PROFILES, Profile, profile_of
from tests.mcp.conftest import call
from tests.mcp.line import Line
from tests.server.serving import served

ASSISTANTS = 8
SECONDS = float(os.environ.get("STRONGROOM_SECONDS", "1"))
KILLS = int(os.environ.get("STRONGROOM_KILLS", "2"))
SEED = int(os.environ.get("SEED", "1"))


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_process_serves_both_families_over_its_pipes(tmp_path: Path, mode: str) -> None:
    environment = {"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    process = mcp.StdioServerParameters(command=sys.executable, args=["-m", "strongroom", "mcp"], env=environment)
    async with mcp.Client(process, mode=mode) as client:
        made = await call(client, "run_start", objective="Build")
        assert (await call(client, "run_get", run_id=made["run"]["run_id"]))["run"]["seq"] == made["run"]["seq"]
    file = tmp_path / ".local/share/strongroom/agent.db"
    assert file.stat().st_mode & 0o077 == 0 or file.parent.stat().st_mode & 0o077 == 0
    with strongroom.open(file) as ctx:
        event = ctx.runs.get(made["run"]["run_id"]).events(limit=1)[0]
        assert event.actor == "assistant"


def test_the_profile_and_the_name_come_from_the_command_line(tmp_path: Path) -> None:
    url = tmp_path / "agent.db"
    with strongroom.open(url) as ctx:
        request = {"op": "add", "type": "fact", "scope": "global", "content": "tea", "rationale": "said",
                   "confidence": 0.9, "source_refs": []}  # fmt: skip
        batch = ctx.memories.propose([request], proposer="bot")  # type: ignore[list-item]
    line = Line(url, "--profile", "reviewer", "--name", "ana").ready()
    line.call("memory_decide", batch_id=batch.id, decision="approve")
    assert line.read()["result"]["structuredContent"]["reviewer"] == "ana"
    line.call("memory_propose", items=[])
    assert line.read()["error"]["code"] == -32602
    assert line.close() == 0


def test_an_older_client_that_asked_for_the_list_is_told_when_it_changes(tmp_path: Path) -> None:
    url = tmp_path / "agent.db"
    line = Line(url)
    assert line.read()["result"]["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
    line.send("resources/list", {})
    assert line.read()["result"]["resources"]
    with strongroom.open(url) as ctx:
        ctx.sessions.open("new")
    assert line.read()["method"] == "notifications/resources/list_changed"
    assert line.close() == 0


# ---- on a server the key decides ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "own"), PROFILE_OF_ROLE.items())
def test_a_key_has_the_profile_of_its_role_or_looks_only_and_never_another(role: str, own: Profile) -> None:
    assert profile_of(role) == profile_of(role, own) == own
    assert profile_of(role, "reader") == "reader"
    for other in set(PROFILES) - {own, "reader"}:
        with pytest.raises(InvalidInput, match="make another key"):
            profile_of(role, other)


def test_an_admins_key_proposes_and_no_process_that_has_it_decides(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server:
        admin, reviewer = server.key(role="admin"), server.key(role="reviewer")
        refused = Line(server.url, "--profile", "reviewer", STRONGROOM_API_KEY=admin)
        assert refused.read() == {} and refused.kill() == [] and refused.process.returncode == 1
        line = Line(server.url, STRONGROOM_API_KEY=admin).ready()
        line.call("memory_propose", items=[{"content": "tea", "rationale": "said"}])
        batch = line.read()["result"]["structuredContent"]["batch"]["batch_id"]
        line.call("memory_decide", batch_id=batch, decision="approve")
        assert "Unknown tool" in line.read()["error"]["message"]
        assert line.close() == 0
        line = Line(server.url, "--name", "ana", STRONGROOM_API_KEY=reviewer).ready()
        line.call("memory_propose", items=[{"content": "tea", "rationale": "said"}])
        assert "Unknown tool" in line.read()["error"]["message"]
        line.call("memory_decide", batch_id=batch, decision="approve")
        assert line.read()["result"]["structuredContent"]["status"] == "committed"
        assert line.close() == 0


# ---- crashes and company --------------------------------------------------------------------------------------------


def test_nothing_that_was_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    url, chance, acknowledged = tmp_path / "agent.db", random.Random(SEED), list[str]()
    for _ in range(KILLS):
        line = Line(url).ready()
        calls = 60
        for number in range(calls):
            line.call("session_append", session_id="s", messages=[{"role": "user", "content": f"message {number}"}])
        for _ in range(chance.randrange(1, calls // 2)):
            acknowledged += line.read()["result"]["structuredContent"]["message_ids"]
        for answer in line.kill():
            acknowledged += answer["result"]["structuredContent"]["message_ids"]
    with strongroom.open(url) as ctx:
        kept = {message.id for message in ctx.sessions.get("s").load()}
    assert set(acknowledged) <= kept and len(acknowledged) == len(set(acknowledged)) >= KILLS


def answered(answer: dict[str, Any]) -> None:
    assert not answer["result"].get("isError"), answer


def test_assistants_share_one_file_and_all_are_served(tmp_path: Path) -> None:
    url = tmp_path / "agent.db"
    lines = [Line(url, "--name", f"assistant-{number}") for number in range(ASSISTANTS)]
    for line in lines:
        line.ready()
    rounds, end = 0, time.monotonic() + SECONDS
    while rounds == 0 or time.monotonic() < end:
        rounds += 1
        for number, line in enumerate(lines):
            line.call(
                "session_append", session_id="shared", messages=[{"role": "user", "content": f"{number}/{rounds}"}]
            )
            item = {"content": f"fact {number}/{rounds}", "rationale": "so"}
            line.call("memory_propose", items=[item])
            line.call("files_edit", path=f"/{number}.md", text=str(rounds))
        for line in lines:
            for _ in range(3):
                answered(line.read())
            line.call("session_window", session_id="shared", max_tokens=500)  # there is one, now
            answered(line.read())
    assert [line.close() for line in lines] == [0] * ASSISTANTS
    with strongroom.open(url) as ctx:
        assert ctx.sessions.get("shared").info().messages == ASSISTANTS * rounds
        assert len(ctx.files.list()) == ASSISTANTS
        assert {file.version for file in ctx.files.list()} == {rounds}


def test_what_is_wrong_with_the_address_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "strongroom", "mcp"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={"HOME": str(tmp_path), "STRONGROOM_URL": "ftp://x", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 1 and "ftp" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
