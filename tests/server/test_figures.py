"""What lists show beside each thing, and what happened last."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.server.routes.figures import COUNTED
from strongroom.services.sessions.sessions import AsyncSessions
from tests.server.conftest import client
from tests.server.samples import MCR
from tests.server.serving import Served, served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(str(tmp_path / "agent.db")) as started:
        yield started


@pytest.fixture
def http(server: Served) -> Iterator[httpx.Client]:
    with client(server.url) as made:
        yield made


@pytest.fixture
def ctx(tmp_path: Path, server: Served) -> Iterator[Context]:
    with strongroom.open(tmp_path / "agent.db") as opened:
        yield opened


def figures(http: httpx.Client, kind: str, *ids: str) -> list[dict[str, Any]]:
    told = http.get(f"/figures/{kind}", params={"id": list(ids)})
    assert told.status_code == 200, told.text
    found: list[dict[str, Any]] = told.json()[kind]
    return found


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_a_runs_figures_are_what_its_ledger_comes_to(http: httpx.Client, ctx: Context) -> None:
    run = ctx.runs.create(objective="Import parcels", run_id="import", user_id="ana")
    run.record("MODEL_ACTION", {"action": "read", "tokens_in": 900, "tokens_out": 100, "cost": 0.25}, actor="reader")
    run.record("TOOL_RESULT", {"tool_name": "rows", "ok": True, "latency_ms": 1500}, actor="reader")
    run.record("ERROR", {"error_type": "ValueError", "message": "row 7 has 14 columns"}, actor="importer")
    [told] = figures(http, "runs", "import")
    events = run.events()
    assert told == {
        "run_id": "import", "events": 4, "agent": "importer", "tokens": 1000, "cost": 0.25, "worked_ms": 1500.0,
        "user_id": "ana",
        "error": "ValueError: row 7 has 14 columns", "started_at": _json(events[0].at), "last_at": _json(events[-1].at),
    }  # fmt: skip


def _json(at: Any) -> str:
    return str(at.isoformat()).replace("+00:00", "Z")


@pytest.mark.parametrize("kind", ["runs", "sessions"])
def test_what_is_not_there_is_left_out(http: httpx.Client, kind: str) -> None:
    assert figures(http, kind, "nobody", "x" * 2_000) == []


@pytest.mark.parametrize("kind", ["runs", "sessions"])
def test_a_few_are_told_at_a_time(http: httpx.Client, kind: str) -> None:
    assert http.get(f"/figures/{kind}", params={"id": [f"r{number}" for number in range(26)]}).status_code == 422
    assert http.get(f"/figures/{kind}").status_code == 422


def test_a_tool_is_told_apart_from_others(http: httpx.Client, ctx: Context) -> None:
    run = ctx.runs.create(objective="Import parcels", run_id="import")
    for name, ok in (("rows", True), ("rows", False), ("mail", True)):
        run.record("TOOL_RESULT", {"tool_name": name, "ok": ok, "latency_ms": 100})
    tools = http.get("/runs/import/usage").json()["tools"]
    assert {name: (one["calls"], one["errors"], one["latency_ms"]) for name, one in tools.items()} == {
        "rows": (2, 1, 200.0), "mail": (1, 0, 100.0),
    }  # fmt: skip


# ---- sessions -------------------------------------------------------------------------------------------------------


def test_a_session_is_known_by_how_it_began(http: httpx.Client, ctx: Context) -> None:
    talk = ctx.sessions.open("s1", title="Parcels")
    talk.append([
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is my parcel?"},
        {"role": "assistant", "content": "On its way."},
    ])  # fmt: skip
    [told] = figures(http, "sessions", "s1")
    messages = talk.load(3)
    assert (told["first"], told["exact"]) == ("Where is my parcel?", True)
    assert told["tokens"] == sum(message.tokens for message in messages)
    assert told["last_at"] == _json(messages[-1].at)


def test_the_tokens_of_a_long_session_are_projected_from_its_newest_messages(http: httpx.Client, ctx: Context) -> None:
    ctx.sessions.open("s1").append([{"role": "user", "content": "the same words"} for _ in range(2 * COUNTED)])
    [told] = figures(http, "sessions", "s1")
    assert told["exact"] is False
    assert told["tokens"] == 2 * COUNTED * ctx.sessions.open("s1").load(1)[0].tokens


def test_a_session_without_a_message_has_no_last_one(http: httpx.Client, ctx: Context) -> None:
    ctx.sessions.open("empty")
    assert figures(http, "sessions", "empty") == [
        {"session_id": "empty", "first": "", "tokens": 0, "exact": True, "last_at": None}
    ]


# ---- what happened --------------------------------------------------------------------------------------------------


def test_what_happened_last_comes_first_and_says_who_did_it(http: httpx.Client, ctx: Context) -> None:
    run = ctx.runs.create(objective="Import parcels", run_id="import", actor="importer")
    ctx.sessions.open("s1", title="Parcels").append({"role": "user", "content": "Where is my parcel?"})
    ctx.memories.commit(
        ctx.memories.propose([{**MCR, "memory_id": "tea-1"}], proposer="agent-7", run_id="import"), reviewer="ana"
    )
    run.record("TOOL_CALL", {"tool_name": "rows", "arguments": {}}, actor="importer")
    told = http.get("/activity").json()["activity"]
    assert [(one["who"], one["type"], one["kind"], one["id"], one["about"]) for one in told] == [
        ("importer", "TOOL_CALL", "run", "import", "rows"), ("ana", "COMMITTED", "memory", "tea-1", "tea-1"),
        ("agent-7", "PROPOSED", "batch", told[2]["id"], "a global fact"),
        ("user", "MESSAGE", "session", "s1", "Parcels"), ("importer", "RUN_START", "run", "import", ""),
    ]  # fmt: skip
    assert len(http.get("/activity", params={"limit": 2}).json()["activity"]) == 2


@pytest.mark.parametrize(
    ("action", "about"),
    [("search", "search"), (None, ""), ({"content": None, "ok": True}, '{"content":null,"ok":true}')],
)
def test_what_is_no_text_is_told_as_json(http: httpx.Client, ctx: Context, action: Any, about: str) -> None:
    ctx.runs.create(objective="x").record("MODEL_ACTION", {"action": action})
    assert http.get("/activity").json()["activity"][0]["about"] == about


def test_nothing_happened_in_an_empty_space(http: httpx.Client) -> None:
    assert http.get("/activity").json() == {"activity": []}


def test_activity_names_what_is_damaged_and_tells_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path) as ctx:
        for id in ("bad", "good"):
            ctx.runs.create(objective="x", run_id=id).record("ERROR", {"error_type": "E", "message": f"of {id}"})
    with closing(sqlite3.connect(path)) as raw:
        harm = "UPDATE record SET body = CAST('{' AS BLOB) WHERE instr(body, CAST('of bad' AS BLOB))"
        assert raw.execute(harm).rowcount == 1
        raw.commit()
    with served(str(path)) as started, client(started.url) as http:
        told = http.get("/activity")
    assert told.status_code == 200, told.text
    assert {each["id"] for each in told.json()["activity"]} == {"good"} and told.json()["damaged"] == ["bad"]


def test_activity_leaves_out_a_session_that_is_deleted_meanwhile(
    http: httpx.Client, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id in ("stays", "goes"):
        ctx.sessions.open(id).append({"role": "user", "content": "x"})
    listed = AsyncSessions.list

    async def overtaken(self: AsyncSessions, **given: Any) -> Any:
        found = await listed(self, **given)
        monkeypatch.undo()
        await self.delete("goes")
        return found

    monkeypatch.setattr(AsyncSessions, "list", overtaken)
    told = http.get("/activity")
    assert told.status_code == 200, told.text
    assert [each["id"] for each in told.json()["activity"]] == ["stays"]


# ---- beside one thing -----------------------------------------------------------------------------------------------


def test_artifacts_are_listed_with_their_size_and_shown_from_their_beginning(http: httpx.Client, ctx: Context) -> None:
    run = ctx.runs.create(objective="Import parcels", run_id="import")
    made = run.attach(b"parcel,day\n5100,1\n", type="text/csv", path="parcels.csv")
    [told] = http.get("/runs/import/artifacts").json()["artifacts"]
    assert (told["id"], told["path"], told["bytes"]) == (made.id, "parcels.csv", 18)
    at = f"/runs/import/artifacts/{made.id}"
    assert http.get(at, params={"first": 6}).content == b"parcel"
    assert http.get(at).content == b"parcel,day\n5100,1\n"
    assert http.get(at, params={"first": 0}).status_code == 422


def test_a_key_is_called_by_its_label(server: Served, http: httpx.Client) -> None:
    assert http.get("/me").json()["label"] == ""
    made = http.post("/keys", json={"role": "admin", "label": "ana's laptop"}).json()["key"]
    told = http.get("/me", headers={"Authorization": f"Bearer {made}"}).json()
    assert told["label"] == "ana's laptop"


def test_which_threads_wait_is_told_with_their_handlers(http: httpx.Client, ctx: Context) -> None:
    ctx.threads.append("t1", {"text": "print"}, from_id="desk", to_id="printer")
    waiting = http.get("/threads/queues").json()["waiting"]
    assert waiting == [{"thread_id": "t1", "handler": "printer", "attempts": 0}]


def test_where_the_store_is_and_how_it_grew_is_the_operators_to_see(server: Served, http: httpx.Client) -> None:
    place = http.get("/upkeep").json()["place"]
    assert place["kind"].startswith("SQLite ") and place["file"] == "agent.db" and place["free_bytes"] > 0
