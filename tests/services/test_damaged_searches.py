"""Searches of a damaged store: whatever row is damaged, the others are found, and what cannot be read is named."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.backends.sqlite.store import SqliteStore
from strongroom.codec import pack
from strongroom.errors import Damaged
from strongroom.retrieval import MOST_UNREAD, unreadable
from strongroom.scope import Scope, Unread
from strongroom.services.memories.keys import revocation_key
from strongroom.services.memories.values import Revoked
from strongroom.store import Commit, Find, Found, Put, new_id
from tests.server.serving import served

NOW = datetime.now(UTC)
SEARCHES: dict[str, Callable[[strongroom.Context], Any]] = {
    "memories": lambda ctx: ctx.memories.search("tea", 10),
    "memories of a day": lambda ctx: ctx.memories.search(f"tea in {NOW:%B %Y}", 10),
    "sessions": lambda ctx: ctx.sessions.search("tea", k=10),
    "files": lambda ctx: ctx.files.search("tea", k=10),
}
KINDS = "('session', 'message', 'memory', 'file', 'file_text')"
HEADS = f"SELECT kind, id, 'UPDATE head SET sum = sum + 1 WHERE ref = ' || ref FROM head WHERE kind IN {KINDS}"
RECORDS = f"""
SELECT kind, id, 'UPDATE record SET sum = sum + 1 WHERE pos = ' || pos
FROM head JOIN record ON ref = pos >> 32 WHERE kind IN {KINDS}"""
NO_TEXT = "cast(cast(text AS BLOB) || x''20ff'' AS TEXT)"  # what one flipped bit makes of a letter
HEAD_TEXTS = f"""
SELECT kind, id, 'UPDATE head SET text = {NO_TEXT} WHERE ref = ' || ref
FROM head WHERE kind IN {KINDS} AND text NOT NULL"""
RECORD_TEXTS = f"""
SELECT kind, id, 'UPDATE record SET text = {NO_TEXT} WHERE pos = ' || pos
FROM head JOIN record ON ref = pos >> 32 WHERE kind IN {KINDS}"""
ROWS = pytest.mark.parametrize(
    "rows", [HEADS, RECORDS, HEAD_TEXTS, RECORD_TEXTS], ids=["head", "record", "text of a head", "text of a record"]
)
STREAM = "SELECT ref FROM head WHERE kind = 'message' AND id = 's1'"


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0 + text.count("a"), 1.0 + text.count("t"), 1.0] for text in texts]


def filled(path: Path, *, searched: bool) -> Path:
    with strongroom.open(path) as ctx:
        for n in range(3):
            ctx.sessions.open(f"s{n}").append([{"role": "user", "content": f"tea {n} {m}"} for m in range(3)])
            ctx.memories.add(f"likes tea {n}", source_refs=["message:s#1"])
            ctx.files.write(f"/f{n}", f"tea {n}")
        if searched:
            for ask in SEARCHES.values():
                ask(ctx)
    return path


@pytest.fixture(scope="module", params=[True, False], ids=["indexed", "not indexed yet"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("whole") / "agent.db", searched=request.param)


def spoil(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        assert file.execute(statement).rowcount
        file.commit()


def spoilt(path: Path, rows: str) -> Iterator[tuple[str, str, Path]]:
    """Give a copy of the file for each row, in which that one is damaged."""
    with closing(sqlite3.connect(path)) as file:
        found = file.execute(rows).fetchall()
    assert found
    for kind, id, statement in found:
        copy = Path(shutil.copy(path, path.with_name("spoilt.db")))
        spoil(copy, statement)
        yield kind, id, copy


@ROWS
def test_whatever_row_is_damaged_every_search_finds_the_others_and_names_it(whole: Path, rows: str) -> None:
    sound = Path(shutil.copy(whole, whole.with_name("sound.db")))
    with strongroom.open(sound) as ctx:
        before = {name: len(ask(ctx)) for name, ask in SEARCHES.items()}
    assert min(before.values()) >= 3
    for kind, id, path in spoilt(whole, rows):
        with strongroom.open(path) as ctx:
            for name, ask in SEARCHES.items():
                found = ask(ctx)
                most = 3 if kind in ("session", "message") and rows is HEADS else 1  # a session has three messages
                assert before[name] - most <= len(found) <= before[name], (name, kind, id)
                if len(found) < before[name]:
                    assert {one.partition("[")[0] for one in found.damaged} == {id}, (name, kind, id)
                    assert f"{len(found.damaged)} cannot be read: {found.damaged[0]}" in found.degraded
                else:
                    assert found.damaged == () and found.degraded is None, (name, kind, id)


@ROWS
def test_a_store_without_an_index_finds_the_others_too(whole: Path, rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sessions.search", "memories.candidates", "files.search"):
        monkeypatch.setattr(f"strongroom.services.{module}.can_search", lambda store: False)
    for kind, id, path in spoilt(whole, rows):
        with strongroom.open(path) as ctx:
            for name, ask in SEARCHES.items():
                found = ask(ctx)
                assert len(found) >= (6 if name == "sessions" else 2), (name, kind, id)
                assert len(found) >= (9 if name == "sessions" else 3) or found.damaged, (name, kind, id)


@ROWS
def test_searches_by_meaning_find_the_others_too(whole: Path, rows: str) -> None:
    for kind, id, path in spoilt(whole, rows):
        with strongroom.open(path, embedder=embed) as ctx:
            for ask, least in ((ctx.memories.search, 2), (ctx.sessions.search, 6)):
                for mode in ("hybrid", "vector"):
                    found = ask("tea", k=10, mode=mode)
                    assert len(found) >= least - (mode == "vector" and kind == "message"), (ask, mode, kind, id)
                    assert len(found) == least * 3 // 2 or found.degraded, (ask, mode, kind, id)
                    assert ask("tea", k=10, mode=mode).damaged == found.damaged  # also once the index went on


def test_the_messages_of_a_session_are_found_beside_one_that_is_damaged(tmp_path: Path) -> None:
    path = filled(tmp_path / "agent.db", searched=True)
    spoil(path, f"UPDATE record SET sum = sum + 1 WHERE (pos & 0xffffffff) = 1 AND pos >> 32 = ({STREAM})")
    with strongroom.open(path) as ctx:
        session = ctx.sessions.get("s1")
        found = session.search("tea", k=10)
        assert [hit.message.index for hit in found] == [2, 0] and found.damaged == ("s1[1]",)
        assert found.degraded == "1 cannot be read: s1[1]"
        with pytest.raises(Damaged):
            session.load(k=3)


def test_a_session_that_is_damaged_itself_is_not_searched_as_if_it_were_not(tmp_path: Path) -> None:
    for kind in ("session", "message"):
        path = filled(tmp_path / f"{kind}.db", searched=True)
        with strongroom.open(path) as ctx:
            session = ctx.sessions.get("s1")
            spoil(path, f"UPDATE head SET sum = sum + 1 WHERE kind = '{kind}' AND id = 's1'")
            with pytest.raises(Damaged):
                session.search("tea")


def test_what_is_damaged_is_still_refused_to_whoever_reads_it(tmp_path: Path) -> None:
    path = filled(tmp_path / "agent.db", searched=True)
    spoil(path, "UPDATE head SET sum = sum + 1 WHERE kind IN ('memory', 'file')")
    with strongroom.open(path) as ctx:
        found = ctx.memories.search("tea", 10)
        assert found == [] and len(found.damaged) == 3
        with pytest.raises(Damaged):
            ctx.memories.get(found.damaged[0])
        files = ctx.files.search("tea")
        assert files == [] and sorted(files.damaged) == ["/f0", "/f1", "/f2"]
        with pytest.raises(Damaged):
            ctx.files.read("/f0")


def test_a_prompt_and_a_brief_say_what_they_had_to_leave_out(tmp_path: Path) -> None:
    path = filled(tmp_path / "agent.db", searched=True)
    with strongroom.open(path) as ctx:
        bad = ctx.memories.search("tea")[0].memory.id
        ctx.runs.create(objective="make tea", run_id="r")
        ctx.sessions.get("s1").append([{"role": "user", "content": "hm " * 50} for _ in range(20)])
    spoil(path, f"UPDATE head SET sum = sum + 1 WHERE id = '{bad}'")
    spoil(path, f"UPDATE record SET sum = sum + 1 WHERE (pos & 0xffffffff) = 1 AND pos >> 32 = ({STREAM})")
    with strongroom.open(path) as ctx:
        receipt = ctx.prompt(session=ctx.sessions.get("s1"), max_tokens=300, query="tea").receipt
        told = {(out.part, out.ids) for out in receipt.left_out if out.reason == "damaged"}
        assert told == {("memories", (bad,)), ("earlier", ("s1[1]",))}
        assert receipt.degraded == f"1 cannot be read: {bad}; 1 cannot be read: s1[1]"
        left_out = ctx.runs.get("r").brief(max_tokens=1000).receipt.left_out
        assert [(one.id, one.reason) for one in left_out] == [(bad, "damaged")]


def test_a_revocation_that_cannot_be_read_stops_a_search(tmp_path: Path) -> None:
    path = filled(tmp_path / "agent.db", searched=True)
    with strongroom.open(path) as ctx:
        key, value = (
            revocation_key("default", "message:s#1"),
            Revoked(source_ref="message:s#1", by="x", reason="", at=NOW, done=False),
        )
        ctx.store.commit(Commit(new_id(), (), (Put(key, pack(value), {"status": "open"}),)))
        assert ctx.memories.search("tea") == []
    spoil(path, "UPDATE head SET sum = sum + 1 WHERE kind = 'memory_revocation'")
    with strongroom.open(path) as ctx, pytest.raises(Damaged):
        ctx.memories.search("tea")


def test_every_door_finds_the_others_and_says_the_same(tmp_path: Path) -> None:
    path = filled(tmp_path / "agent.db", searched=True)
    spoil(path, "UPDATE head SET sum = sum + 1 WHERE ref IN (SELECT min(ref) FROM head WHERE kind = 'memory')")
    spoil(path, "UPDATE head SET sum = sum + 1 WHERE kind = 'file_text' AND id = '/f1'")
    spoil(path, f"UPDATE record SET sum = sum + 1 WHERE (pos & 0xffffffff) = 1 AND pos >> 32 = ({STREAM})")

    def told(ctx: strongroom.Context) -> dict[str, Any]:
        return {name: (len(found := ask(ctx)), found.damaged, found.degraded) for name, ask in SEARCHES.items()}

    async def awaited() -> tuple[str, str, str]:
        async with strongroom.aopen(path) as ctx:
            memories, files = await ctx.memories.search("tea", 10), await ctx.files.search("tea", k=10)
            return str(memories.degraded), str((await ctx.sessions.search("tea", k=10)).degraded), str(files.degraded)

    with strongroom.open(path) as ctx:
        embedded = told(ctx)
    memories, messages, files = said = asyncio.run(awaited())
    assert [embedded[name][2] for name in ("memories", "sessions", "files")] == [*said]
    assert (messages, files) == ("1 cannot be read: s1[1]", "1 cannot be read: /f1")
    with served(str(path)) as server, httpx.Client(base_url=server.url) as http:
        with strongroom.connect(server.url) as ctx:
            assert told(ctx) == embedded
        for address, degraded in (("memories", memories), ("sessions", messages), ("files", files)):
            answer = http.get(f"/{address}/search", params={"q": "tea", "k": 10}).json()
            assert (len(answer["hits"]), answer["degraded"]) == (embedded[address][0], degraded)
        everything = http.get("/search", params={"q": "tea"}).json()
        assert everything["degraded"] == f"memories: {memories}; messages: {messages}; files: {files}"
        assert http.get("/memories").json()["degraded"] == memories
        assert http.get("/memories/search", params={"q": "tea"}).status_code == 200


@pytest.fixture(scope="module")
def mostly_damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which the newest 505 messages and 120 files that hold a word are damaged, and 3 of each are not."""
    path = tmp_path_factory.mktemp("mostly") / "agent.db"
    with strongroom.open(path) as ctx:
        for name, many in (("old", 3), ("new", 505)):
            ctx.sessions.open(name).append([{"role": "user", "content": "tea"}] * many)
        for n in range(123):
            ctx.files.write(f"/f{n:03}", "tea")
    new = "SELECT ref FROM head WHERE kind = 'message' AND id = 'new'"
    spoil(path, f"UPDATE record SET sum = sum + 1 WHERE pos >> 32 = ({new})")
    spoil(path, "UPDATE head SET sum = sum + 1 WHERE kind = 'file_text' AND id >= '/f003'")
    return path


@pytest.mark.parametrize("kind", ["sessions", "files"])
def test_what_is_sound_is_found_behind_any_number_of_hits_that_are_damaged(mostly_damaged: Path, kind: str) -> None:
    with strongroom.open(mostly_damaged) as ctx:
        assert len(SEARCHES[kind](ctx)) == 3


@pytest.mark.parametrize("kind", ["sessions", "files"])
def test_the_index_is_not_asked_for_each_hit_that_is_damaged(
    mostly_damaged: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Find] = []
    search = SqliteStore.search

    def counted(store: SqliteStore, find: Find) -> Found:
        asked.append(find)
        return search(store, find)

    monkeypatch.setattr(SqliteStore, "search", counted)
    with strongroom.open(mostly_damaged) as ctx:
        SEARCHES[kind](ctx)
    assert len(asked) == 2


def test_a_search_names_all_that_is_damaged_and_tells_the_first_of_it_in_words(mostly_damaged: Path) -> None:
    with strongroom.open(mostly_damaged) as ctx:
        found = ctx.sessions.search("tea", k=10)
        assert set(found.damaged) == {f"new[{n}]" for n in range(505)}
        assert found.degraded == f"505 cannot be read: {', '.join(found.damaged[:5])} and 500 more"


def test_the_ids_of_what_is_damaged_are_bounded_and_that_there_may_be_more_is_said() -> None:
    bad = Unread()
    for n in range(MOST_UNREAD + 5):
        bad.tell(Damaged("bad", id=str(n)))
    assert (len(bad), unreadable(bad)) == (MOST_UNREAD, "1000 or more cannot be read: 0, 1, 2, 3, 4 and others")


def test_pieces_of_a_search_fit_together_where_something_is_gone_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path) as ctx:
        ctx.sessions.open("s").append([{"role": "user", "content": f"tea {n}"} for n in range(9)])
        ctx.sessions.search("tea")
    spoil(path, "DELETE FROM record WHERE (pos & 0xffffffff) IN (3, 6)")
    spoil(path, "UPDATE record SET sum = sum + 1 WHERE (pos & 0xffffffff) IN (2, 7)")

    async def pieces() -> list[list[int]]:
        find = Find("default", "message", ("tea",), "s", max_bytes=2 * len("tea n"))
        async with strongroom.aopen(path) as ctx:
            found = [each async for each in Scope(ctx.store).finds(find, bad.tell)]
        return [[one.record.index for one in each.matches if one.record] for each in found]

    bad = Unread()
    found = asyncio.run(pieces())
    assert ([index for piece in found for index in piece], [*bad]) == ([8, 5, 4, 1, 0], ["s[7]", "s[2]"])
    assert len(found) > 1
