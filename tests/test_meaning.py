"""What is searched by meaning with, as callers name it: in `open`, in `strongroom.yaml`, in the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import config
from strongroom.embedders import Embedder
from strongroom.errors import InvalidInput
from tests.hashed import hashed

NAME = "tests.hashed:hashed"
FILE = f"""
backend:
  url: agent.db
meaning:
  embedder: {NAME}
  qdrant_url: ":memory:"
  qdrant_collection: mine
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("embedder", [NAME, hashed, Embedder(hashed, name=NAME)], ids=["name", "function", "embedder"])
def test_a_store_is_opened_with_an_embedder(embedder: Any) -> None:
    with strongroom.open("agent.db", embedder=embedder) as ctx:
        ctx.memories.add("likes tea", user_id="u1")
        found = ctx.memories.search("likes tea", mode="vector", user_id="u1")
        assert [hit.content for hit in found] == ["likes tea"]
        assert ctx.memories.health().index == "local"


async def test_a_store_is_opened_with_an_index_in_qdrant() -> None:
    options: dict[str, Any] = {"embedder": NAME, "qdrant_url": ":memory:", "qdrant_collection": "mine"}
    async with strongroom.aopen("agent.db", **options) as ctx:
        await ctx.memories.add("likes tea", user_id="u1")
        await ctx.memories.index()
        health = await ctx.memories.health()
        assert (health.embedder, health.index, health.waiting) == (NAME, "qdrant", 0)


def test_async_code_beside_blocking_code_searches_with_the_same() -> None:
    with strongroom.open("memory://", embedder=NAME, qdrant_url=":memory:") as ctx:
        assert ctx.awaitable.embedder is ctx._async.embedder
        assert ctx.awaitable.index is ctx._async.index is not None


def test_sessions_are_searched_by_meaning_too() -> None:
    with strongroom.open("memory://", embedder=NAME) as ctx:
        session = ctx.sessions.open("s")
        session.append({"role": "user", "content": "likes tea"})
        session.wait()
        assert len(session.search("likes tea", mode="vector")) == 1


WRONG: list[dict[str, Any]] = [
    {"embedder": "nonsense"},
    {"embedder": "no_such_module:thing"},
    {"qdrant_url": ":memory:"},
    {"embedder_key": "secret"},
    {"embedder": NAME, "qdrant_collection": "mine"},
    {"embedder": 7},
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_what_stands_for_nothing_is_refused_and_no_store_is_made(folder: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        strongroom.open("agent.db", **wrong)
    assert list(folder.iterdir()) == []


def test_a_service_that_is_away_keeps_nobody_from_writing() -> None:
    away = "http://127.0.0.1:9/v1#tiny"
    with strongroom.open("agent.db", embedder=away, embedder_key="k", qdrant_url="http://127.0.0.1:9") as ctx:
        assert ctx.memories.add("likes tea", user_id="u1").status == "active"
        found = ctx.memories.search("tea", user_id="u1")
        assert [hit.content for hit in found] == ["likes tea"]
        assert found.degraded is not None
        health = ctx.memories.health()
        assert health.embedder_failing is not None and health.waiting > 0


def test_the_file_names_what_is_searched_with() -> None:
    Path("strongroom.yaml").write_text(FILE)
    with config.load(environ={}).open() as ctx:
        health = ctx.memories.health()
        assert (health.embedder, health.index) == (NAME, "qdrant")


def test_the_environment_wins_over_the_file_and_arguments_win_over_both() -> None:
    Path("strongroom.yaml").write_text(FILE)
    environ = {"STRONGROOM_EMBEDDER": "wordllama", "QDRANT_COLLECTION": "theirs"}
    found = config.load(environ=environ, meaning={"qdrant_collection": "given"}).meaning
    assert (found.embedder, found.qdrant_url, found.qdrant_collection) == ("wordllama", ":memory:", "given")


def test_somebody_elses_qdrant_is_left_alone() -> None:
    assert config.load(environ={"QDRANT_URL": "http://q:6333"}).meaning == config.Searching()


def test_an_index_without_an_embedder_is_refused() -> None:
    with pytest.raises(InvalidInput, match="embedder"):
        config.load(environ={}, meaning={"qdrant_url": ":memory:"})


def test_a_misspelt_setting_is_named() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'embedder'"):
        config.load(environ={}, meaning={"embeder": NAME})
