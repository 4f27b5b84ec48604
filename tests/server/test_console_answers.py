"""What pages for people ask: what would fall, where something comes from, what waits, and anything by id or words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from docs.recording import prepare

import strongroom
from strongroom.dispatch import Dispatcher
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


def remember(http: httpx.Client, id: str, *sources: str) -> None:
    request = {**MCR, "memory_id": id, "content": f"{id} is known", "source_refs": sources}
    http.post("/memories/propose", json={"requests": [request], "batch_id": f"batch-{id}"})
    assert http.post(f"/memories/batches/batch-{id}/commit", json={"reviewer": "ana"}).status_code == 200


# ---- memories -------------------------------------------------------------------------------------------------------


def test_a_preview_is_what_a_revocation_then_does(http: httpx.Client) -> None:
    remember(http, "one", "talk#1")
    remember(http, "two", "one")
    remember(http, "three", "two", "elsewhere")
    remember(http, "apart", "elsewhere")
    preview = http.get("/memories/revoke/preview", params={"source_ref": "talk#1"}).json()
    assert [each["id"] for each in preview["memories"]] == ["one", "two", "three"] and preview["complete"] is True
    assert {http.get(f"/memories/{id}").json()["status"] for id in ("one", "two", "three")} == {"active"}
    assert http.post("/memories/revoke", json={"source_ref": "talk#1"}).json()["memories"] == 3
    assert http.get("/memories/revoke/preview", params={"source_ref": "talk#1"}).json()["memories"] == []


def test_a_preview_says_that_there_is_more(http: httpx.Client) -> None:
    for id in ("one", "two", "three"):
        remember(http, id, "talk#1")
    preview = http.get("/memories/revoke/preview", params={"source_ref": "talk#1", "limit": 2}).json()
    assert (len(preview["memories"]), preview["complete"]) == (2, False)


def test_the_same_is_had_from_a_context(tmp_path: Path, server: Served, http: httpx.Client) -> None:
    remember(http, "one", "talk#1")
    with strongroom.connect(server.url) as ctx:
        assert [each.id for each in ctx.memories.would_revoke(source_ref="talk#1")] == ["one"]
        assert ctx.memories.revocation("talk#1") is None
        ctx.memories.revoke(source_ref="talk#1", reason="a joke")
        told = ctx.memories.revocation("talk#1")
        assert told is not None and told.reason == "a joke"


def test_memories_are_listed_by_what_became_of_them(http: httpx.Client) -> None:
    remember(http, "one", "talk#1")
    remember(http, "two")
    http.post("/memories/revoke", json={"source_ref": "talk#1"})

    def listed(**query: str) -> list[str]:
        return [each["id"] for each in http.get("/memories", params=query).json()["memories"]]

    assert listed(status="any") == ["one", "two"]
    assert listed() == listed(status="active") == ["two"]
    assert listed(status="revoked") == ["one"]


def test_memories_are_listed_as_they_were_known_at_a_time(http: httpx.Client) -> None:
    remember(http, "one", "talk#1")
    between = http.get("/memories/one").json()["created_at"]
    remember(http, "two")
    http.post("/memories/revoke", json={"source_ref": "talk#1"})

    def listed(**query: Any) -> list[str]:
        return [each["id"] for each in http.get("/memories", params=query).json()["memories"]]

    assert listed(known_at=between) == listed(known_at=between, everyone=True) == ["one"]
    assert listed(known_at="2100-01-01T00:00:00Z") == ["two"] and listed(known_at="2000-01-01T00:00:00Z") == []
    assert http.get("/memories", params={"known_at": between, "status": "revoked"}).status_code == 422
    assert http.get("/memories", params={"known_at": "2100-01-01T00:00:00"}).status_code == 422


def test_memories_are_listed_as_they_were_so_at_a_time(http: httpx.Client) -> None:
    then = {**MCR, "memory_id": "then", "valid_from": "2020-01-01T00:00:00Z", "valid_until": "2021-01-01T00:00:00Z"}
    http.post("/memories/propose", json={"requests": [then], "batch_id": "b"})
    assert http.post("/memories/batches/b/commit", json={"reviewer": "ana"}).status_code == 200
    for day, expected in (("2020-06-01T00:00:00Z", ["then"]), ("2022-01-01T00:00:00Z", [])):
        page = http.get("/memories", params={"as_of": day}).json()
        assert [each["id"] for each in page["memories"]] == expected


def test_a_source_is_shown_as_what_it_is(http: httpx.Client) -> None:
    said = [{"id": f"m{number}", "role": "user", "content": f"message {number}"} for number in range(9)]
    http.post("/sessions/talk/messages", json={"messages": said})
    remember(http, "one")
    http.post("/memories/revoke", json={"source_ref": "https://a.example", "reason": "gone"})
    refs = ["one", "talk#m4", "talk#4", "talk#m99", "nowhere#1", "https://a.example"]
    found = http.get("/memories/sources", params={"ref": refs}).json()["sources"]
    assert [each["kind"] for each in found] == ["memory", "message", "message", "other", "other", "other"]
    assert found[0]["trust"] == found[0]["memory"]["trust"]
    assert found[1]["messages"] == found[2]["messages"] and found[1]["message_id"] == "m4"
    assert [each["id"] for each in found[1]["messages"]] == ["m2", "m3", "m4", "m5", "m6"]
    assert found[5]["revoked"]["reason"] == "gone"


# ---- workers --------------------------------------------------------------------------------------------------------


def test_a_dead_letter_is_shown_and_delivered_again(server: Served, http: httpx.Client) -> None:
    server.do(prepare(server.app.state.store))
    [letter] = http.get("/threads/dead").json()["letters"]
    assert letter["payload"] == {"order": 7} and letter["handler"] == "payer"
    assert http.get("/threads/dead", params={"handler": "other"}).json()["letters"] == []
    again = http.post(f"/threads/dead/{letter['id']}/retry").json()
    assert (again["index"], again["payload"], again["to_id"]) == (1, {"order": 7}, "payer")
    assert http.get("/threads/dead").json()["letters"] == []
    assert http.post(f"/threads/dead/{letter['id']}/retry").status_code == 404


def test_queues_tell_what_waits_and_who_is_at_it(server: Served, http: httpx.Client, tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    with strongroom.open(tmp_path / "agent.db") as ctx:
        dispatcher = Dispatcher(ctx)

        @dispatcher.handler("payer")
        def pay(payload: Any, call: Any) -> None:
            seen.append(http.get("/threads/queues").json())

        for number in range(2):
            ctx.threads.append(f"t{number}", {"order": number}, from_id="shop", to_id="payer")
        before = http.get("/threads/queues").json()
        dispatcher.drain()
    [queue] = before["queues"]
    assert (queue["handler"], queue["threads"], queue["retrying"]) == ("payer", 2, 0) and queue["oldest"]
    assert before["leases"] == [] and before["complete"] is True
    assert seen[0]["leases"] and all(lease["handlers"] == ["payer"] for lease in seen[0]["leases"])
    assert {lease["thread_id"] for lease in seen[0]["leases"]} <= {"t0", "t1"}
    assert http.get("/threads/queues").json()["queues"] == []


# ---- anything -------------------------------------------------------------------------------------------------------


def test_anything_is_found_by_its_id(http: httpx.Client) -> None:
    http.post("/runs", json={"objective": "x", "run_id": "known"})
    http.post("/sessions/known/messages", json={"messages": [{"role": "user", "content": "x"}]})
    http.post("/threads/known/slots", json={"payload": 1, "from_id": "a"})
    remember(http, "known")
    http.put("/files", json={"path": "/known.md", "text": "x"})
    kinds = [each["kind"] for each in http.get("/search", params={"q": "known"}).json()["hits"]]
    assert kinds[:4] == ["run", "session", "memory", "thread"]
    assert http.get("/search", params={"q": "/known.md"}).json()["hits"][0]["kind"] == "file"
    assert http.get("/search", params={"q": "batch-known"}).json()["hits"][0]["kind"] == "batch"


def test_a_proposal_that_waits_is_found_by_its_words_until_it_is_decided(http: httpx.Client) -> None:
    asked = [{**MCR, "memory_id": f"mem-{word}", "content": f"the {word} is green"} for word in ("drum", "Xylophone")]
    http.post("/memories/propose", json={"requests": asked, "batch_id": "b"})
    [found] = http.get("/search", params={"q": "xylophone green"}).json()["hits"]
    assert (found["kind"], found["id"], found["place"], found["title"]) == ("batch", "b", 1, "the Xylophone is green")
    http.post("/memories/batches/b/reject", json={"reviewer": "ana", "reason": "it is red"})
    assert http.get("/search", params={"q": "xylophone green"}).json()["hits"] == []


def test_each_proposal_of_a_batch_is_found(http: httpx.Client) -> None:
    asked = [{**MCR, "memory_id": f"mem-{word}", "content": f"the {word} is green"} for word in ("drum", "oboe")]
    http.post("/memories/propose", json={"requests": asked, "batch_id": "b"})
    found = http.get("/search", params={"q": "green"}).json()["hits"]
    assert [(each["id"], each["place"]) for each in found] == [("b", 0), ("b", 1)]


def test_a_message_without_text_is_titled_by_what_it_has(http: httpx.Client) -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "tune", "arguments": '{"what":"xylophone"}'}}]
    parts = [{"type": "text", "text": "a xylophone"}, {"type": "text", "text": "of wood"}]
    messages = [{"role": "assistant", "content": None, "tool_calls": calls}, {"role": "user", "content": parts}]
    http.post("/sessions/s/messages", json={"messages": messages})
    titles = {each["title"] for each in http.get("/search", params={"q": "xylophone"}).json()["hits"]}
    assert titles == {json.dumps(calls, separators=(",", ":"), sort_keys=True), "a xylophone\nof wood"}


def test_anything_is_found_by_its_words_once(http: httpx.Client) -> None:
    http.post("/runs", json={"objective": "Count the xylophones", "run_id": "r"})
    http.post("/sessions/s/messages", json={"messages": [{"id": "m", "role": "user", "content": "a xylophone"}]})
    request = {**MCR, "memory_id": "mem", "content": "the xylophone is green"}
    http.post("/memories/propose", json={"requests": [request], "batch_id": "b"})
    http.post("/memories/batches/b/commit", json={"reviewer": "ana"})
    http.put("/files", json={"path": "/a.md", "text": "one xylophone"})
    found = http.get("/search", params={"q": "xylophone"}).json()
    assert {(each["kind"], each["id"]) for each in found["hits"]} == {
        ("run", "r"), ("message", "m"), ("memory", "mem"), ("file", "/a.md"),
    }  # fmt: skip
    assert found["degraded"] is None and next(each for each in found["hits"] if each["kind"] == "message")["session_id"]


@pytest.mark.parametrize("q", ["", "x" * 10_001])
def test_a_search_for_nothing_or_too_much_is_refused(http: httpx.Client, q: str) -> None:
    assert http.get("/search", params={"q": q}).status_code == 422


def test_signs_alone_find_nothing(http: httpx.Client) -> None:
    assert http.get("/search", params={"q": "!?"}).json()["hits"] == []
