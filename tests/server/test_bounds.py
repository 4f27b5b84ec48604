"""However little is sent, what is answered is bounded in bytes; whoever wants more goes on, and gets all of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

import strongroom
from strongroom.client.store import HttpStore
from strongroom.codec import encode
from strongroom.protocol import wire
from strongroom.services.runs import usage
from strongroom.store import AnyQuestion, Append, Commit, Entry, Find, Get, Key, Put, Range, Scan, Tail, ask, new_id
from tests.server.conftest import client
from tests.server.serving import Served, served
from tests.services.memory_samples import mcr

MOST = 100_000
LARGE = 40_000  # two fit, three do not
COUNT = 9
SLACK = 5_000  # what stands around what is stored


@pytest.fixture(scope="module", params=["sqlite", "memory"])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("small")
    url = "memory://" if request.param == "memory" else str(folder / "agent.db")
    with served(url, snapshots=str(folder / "s"), max_answer_bytes=MOST) as started:
        with strongroom.connect(started.url) as ctx:
            session = ctx.sessions.open("s")
            run = ctx.runs.create(objective="x", run_id="r")
            for number in range(COUNT):
                text = f"word {number} " + "x" * LARGE
                session.append([{"role": "user", "content": text}])
                run.record("TOOL_RESULT", {"tool_name": "t", "ok": True, "result": text})
                ctx.threads.append("t", text, from_id="a")
                ctx.store.commit(Commit(new_id(), (), (Put(_note(number), encode("x" * LARGE)),)))
        yield started


@pytest.fixture
def http(small: Served) -> Iterator[httpx.Client]:
    with client(small.url) as made:
        yield made


def _note(number: int) -> Key:
    return Key("default", "note", f"n{number}")


def _read(http: httpx.Client, *questions: Any) -> bytes:
    answer = http.post("/store/read", content=wire.dump_questions(questions), headers={"Content-Type": wire.MEDIA})
    assert answer.status_code == 200
    return answer.content


def test_many_questions_for_one_document_are_answered_in_parts(small: Served, http: httpx.Client) -> None:
    questions = [Get(_note(0))] * 400
    assert len(_read(http, *questions)) < MOST + SLACK
    store = HttpStore(small.url)
    found = store.read(questions)
    assert len(found) == 400 and all(found[0] == each for each in found)
    store.close()


def test_the_parts_of_any_read_make_the_whole(small: Served, http: httpx.Client) -> None:
    log = Key("default", "log", "l")
    store = HttpStore(small.url)
    store.commit(Commit(new_id(), (), (Append(log, tuple(Entry("e", encode(f"{n}" * LARGE)) for n in range(7))),)))
    questions: list[AnyQuestion] = [
        Range(log),
        Get(_note(3)),
        Tail(log, 5),
        Scan("default", "note"),
        Get(_note(5)),
        Range(log, 2, 4),
    ]
    assert len(_read(http, *questions)) < MOST + SLACK
    whole, note, tail, page, other, part = (cast(Any, answer) for answer in store.read(questions))
    assert [len(each.body) for each in whole.records] == [LARGE + 2] * 7
    assert [each.index for each in tail.records] == [2, 3, 4, 5, 6] and len(part.records) == 2
    assert (note.key, other.key) == (_note(3), _note(5)) and len(page.documents) == COUNT and page.next is None
    store.close()


def test_a_thing_that_is_larger_than_any_answer_comes_alone(small: Served) -> None:
    store = HttpStore(small.url)
    huge = Key("default", "huge", "h")
    store.commit(Commit(new_id(), (), (Put(huge, encode("x" * 3 * MOST)),)))
    small_one, found = ask(store, Get(_note(0)), Get(huge))
    assert small_one is not None and found is not None and len(found.value) > 3 * MOST
    store.close()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/sessions/s/messages?limit=1000", "messages"),
        ("/sessions/s/messages?limit=1000&reverse=true", "messages"),
        ("/runs/r/events?limit=1000", "events"),
        ("/threads/t/slots?", "slots"),
    ],
)
def test_a_page_ends_early_and_the_next_one_goes_on(http: httpx.Client, path: str, name: str) -> None:
    found: list[Any] = []
    cursor = ""
    while True:
        answer = http.get(path + cursor)
        assert answer.status_code == 200 and len(answer.content) < MOST + SLACK
        page = answer.json()
        assert page[name]
        found += page[name]
        if page["next"] is None:
            break
        cursor = f"&after={page['next']}"
    places = [each.get("index", each.get("sequence_id")) for each in found]
    assert len(places) == len(set(places)) >= COUNT


def test_the_newest_are_as_many_as_fit(http: httpx.Client) -> None:
    page = http.get("/sessions/s/messages?k=1000").json()
    assert [each["index"] for each in page["messages"]] == [COUNT - 2, COUNT - 1][-len(page["messages"]) :]
    older = http.get(f"/sessions/s/messages?reverse=true&after={page['next']}").json()
    assert older["messages"][-1]["index"] == page["messages"][0]["index"] - 1


def test_hits_are_as_many_as_fit(small: Served, http: httpx.Client) -> None:
    answer = http.get("/sessions/search?q=word&k=1000")
    assert answer.json()["hits"] and len(answer.content) < 1.5 * MOST + SLACK  # matches, and those beside them
    find = Find("default", "message", ("word",))
    raw = http.post("/store/search", content=wire.dump(find), headers={"Content-Type": wire.MEDIA})
    assert 0 < len(raw.content) < 2 * MOST + SLACK  # a message's text is searchable, and stands there twice


def test_what_walks_through_everything_still_does(http: httpx.Client) -> None:
    assert http.get("/runs/r/verify").json()["ok"] is True
    assert http.get("/runs/r/pack").status_code == 200
    with http.stream("GET", "/runs/r/follow") as lines:
        assert next(line for line in lines.iter_lines() if line == f"id: {COUNT}")


def test_the_usage_of_a_run_with_large_events_is_summed_up(http: httpx.Client) -> None:
    answer = http.get("/runs/r/usage")
    assert answer.status_code == 200 and answer.json()["tool_results"] == COUNT


def test_large_events_are_recorded_past_the_end_of_a_block_of_sums(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "BLOCK", 4)
    run = "blocks"
    assert http.post("/runs", json={"objective": "o", "run_id": run}).status_code == 200
    event = {"type": "TOOL_RESULT", "payload": {"tool_name": "t", "ok": True, "result": "x" * LARGE}}
    assert [http.post(f"/runs/{run}/events", json=event).status_code for _ in range(9)] == [200] * 9
    assert http.get(f"/runs/{run}/usage").json()["tool_results"] == 9


def test_what_is_too_much_at_once_is_refused_by_its_size(http: httpx.Client) -> None:
    answer = http.get("/sessions/s/window?max_tokens=1000000")
    assert answer.status_code == 413 and answer.json()["details"]["limit"] == MOST


def test_a_person_is_erased_whose_memories_are_more_than_one_answer_holds(small: Served) -> None:
    with strongroom.connect(small.url) as ctx:
        for number in range(COUNT):
            sources = [f"https://example.com/{number}/{part}/" + "x" * (LARGE // 25) for part in range(25)]
            ctx.memories.add(f"Ana likes tea {number}", user_id="ana", source_refs=sources)
        told = ctx.erase(user_id="ana")
        assert (told.complete, len(told.memories)) == (True, COUNT)
        assert ctx.memories.list(user_id="ana") == []


def test_one_memory_is_erased_whose_lineage_is_more_than_one_answer_holds(small: Served) -> None:
    with strongroom.connect(small.url) as ctx:
        sources = ["https://example.com/" + "x" * (LARGE // 25) + str(part) for part in range(25)]
        cats = [ctx.memories.add(f"Bo owns {n} cats", user_id="bo", source_refs=sources).id for n in range(4)]

        def replaced(content: str, *ids: str) -> str:
            request = mcr(content, op="supersede", scope="user", user_id="bo", supersedes=ids)
            batch = ctx.memories.propose(request, proposer="agent-7")
            return ctx.memories.commit(batch.id, reviewer="ana").memory_ids[0]

        whole = replaced("Bo owns cats", replaced("few cats", *cats[:2]), replaced("many cats", *cats[2:]))
        assert len(ctx.memories.erase(memory_id=whole).memories) == 7
