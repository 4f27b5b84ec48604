"""Erasing a person from a damaged store: whatever row is damaged, all else goes, and what stays is told."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.bridge import Inline
from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.scope import Scope
from strongroom.store import Commit, Key, Put, Scan, Store, ask, new_id
from tests.hashed import hashing
from tests.services.test_person_erasure import CANARY, fill

# What may still hold something of her where a row of a kind is damaged: the thing itself, and what goes with it or not
# at all. Where it is in no list, nothing does.
OF_RUN = {"run", "ledger", "episodes", "artifact", "artifact-use"}
STAYS = {
    "session": {"session"},
    "memory": {"memory", "embedding"},
    "memory_batch": {"memory_batch"},
    "memory_log": {"memory", "embedding"},
    "memory_revocation": {"memory_revocation"},
    "memory_decided": {"memory_batch"},
    "memory_staged": {"memory_batch"},
}
LEFT = f"""
SELECT kind, id FROM head WHERE instr(value, '{CANARY}') OR instr(tags, '{CANARY}') OR instr(text, '{CANARY}') UNION
SELECT kind, id FROM head JOIN record ON ref = pos >> 32
WHERE instr(body, '{CANARY}') OR instr(record.text, '{CANARY}') OR instr(sender, '{CANARY}')"""
VECTORS = "SELECT count(*) FROM head WHERE kind IN ('embedding', 'session_vector') AND alive"
HEADS = "SELECT kind, id, 'UPDATE head SET sum = sum + 1 WHERE ref = ' || ref FROM head"
NEWEST = """
SELECT kind, id, 'UPDATE record SET sum = sum + 1 WHERE pos = ' || max(pos)
FROM head JOIN record ON ref = pos >> 32 GROUP BY ref"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "agent.db"
    with strongroom.open(path, embedder=hashing()) as ctx:
        fill(ctx)
        for id in ("s0", "s1", "theirs"):
            ctx.sessions.get(id).search("tea")
        ctx.memories.search("tea", user_id="u2")
        ctx.memories.index()
    return path


def damaged(whole: Path, rows: str) -> Iterator[tuple[Path, str, str]]:
    """Give a copy of a store for each of some rows, with that row damaged; and what it is of."""
    for kind, id, spoil in asked(whole, rows):
        path = whole.with_name("spoilt.db")
        shutil.copy(whole, path)
        with closing(sqlite3.connect(path)) as file:
            assert file.execute(spoil).rowcount == 1
            file.commit()
        yield path, kind, id


def asked(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute(sql).fetchall()


@pytest.mark.parametrize("rows", [HEADS, NEWEST], ids=["head", "newest record"])
def test_whatever_row_is_damaged_the_rest_is_erased_and_what_stays_is_told(whole: Path, rows: str) -> None:
    for path, kind, id in damaged(whole, rows):
        stays = OF_RUN if kind in OF_RUN else STAYS.get(kind, set())
        with strongroom.open(path) as ctx:
            told = ctx.erase(user_id="u1")
            left = asked(path, LEFT)
            assert {one for one, _ in left} <= stays, (kind, id, told.pending)
            if left:
                assert id in (told.pending or ""), (kind, id, told.pending)
            if not stays:
                assert told.complete, (kind, id, told.pending)
                assert asked(path, VECTORS) == [(2,)], (kind, id)  # those of somebody else


@pytest.mark.parametrize("rows", [HEADS, NEWEST], ids=["head", "newest record"])
def test_nothing_of_others_is_lost_with_what_is_damaged(whole: Path, rows: str) -> None:
    for path, kind, id in damaged(whole, rows):
        with strongroom.open(path) as ctx:
            ctx.erase(user_id="u1")
        theirs = "SELECT count(*) FROM head WHERE id = 'theirs' AND alive"
        assert asked(path, theirs) == asked(whole, theirs), (kind, id)


@pytest.mark.parametrize("name", ["used", "embedder"])
def test_vectors_go_where_it_is_not_known_any_more_who_made_them(store: Store, name: str) -> None:
    with strongroom.Context(AsyncContext(Scope(Inline(store)), embedder=hashing())) as ctx:
        ctx.memories.add("likes tea", user_id="u1")
        ctx.memories.add("likes coffee", user_id="u2")
        ctx.memories.index()
        store.commit(Commit(new_id(), (), (Put(Key(ctx.space, "memory_index", name), encode("not one")),)))
        told = ctx.erase(user_id="u1")
        assert len(told.memories) == 1
        assert len(ask(store, Scan(ctx.space, "embedding")).documents) == 1


def test_a_session_with_damaged_messages_is_erased_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path) as ctx:
        ctx.sessions.open("s").append({"role": "user", "content": CANARY})
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE head SET sum = sum + 1 WHERE kind = 'message'")
        file.commit()
    with strongroom.open(path) as ctx:
        ctx.sessions.get("s").erase(all=True)
        assert asked(path, LEFT) == []
        assert not ctx.sessions.list()
