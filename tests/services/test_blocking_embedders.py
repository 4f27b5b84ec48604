"""Blocking calls that embed need no event loop, whichever service they reach an embedder through."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.embedders import Embedder
from tests.hashed import hashed

SAID: Any = {"role": "user", "content": "Which tea do I like?"}


def model(messages: list[dict[str, str]]) -> dict[str, Any]:
    assert threading.current_thread() is threading.main_thread()
    return {"memories": [], "changes": []}


def exported(ctx: Any, folder: Path) -> None:
    ctx.export(folder / "all.zip")
    with strongroom.open("memory://", embedder=watched()) as other:
        other.restore(folder / "all.zip")
        assert other.memories.search("tea", user_id="u1", mode="vector")


CALLS: dict[str, Callable[[Any, Path], object]] = {
    "prompt of a session": lambda ctx, _: ctx.prompt(session="s", max_tokens=500),
    "prompt of a run": lambda ctx, _: ctx.prompt(run="r", query="tea", user_id="u1", max_tokens=500),
    "brief": lambda ctx, _: ctx.runs.get("r").brief(max_tokens=500, user_id="u1"),
    "person erasure": lambda ctx, _: ctx.erase(user_id="u1"),
    "memory search": lambda ctx, _: ctx.memories.search("tea", user_id="u1", mode="vector"),
    "memory erasure": lambda ctx, _: ctx.memories.erase(user_id="u1"),
    "memory index": lambda ctx, _: ctx.memories.index(),
    "memory health": lambda ctx, _: ctx.memories.health(),
    "other embedder": lambda ctx, _: ctx.memories.reembed(watched("other")),
    "learning": lambda ctx, _: ctx.memories.learn("s", model=model),
    "consolidation": lambda ctx, _: ctx.memories.consolidate(model=model, user_id="u1"),
    "session search": lambda ctx, _: ctx.sessions.get("s").search("tea", mode="vector"),
    "search of all sessions": lambda ctx, _: ctx.sessions.search("tea", mode="vector"),
    "session vectors": lambda ctx, _: ctx.sessions.get("s").wait(),
    "session backlog": lambda ctx, _: ctx.sessions.get("s").backlog(),
    "a long append": lambda ctx, _: ctx.sessions.get("s").append([SAID] * 200),
    "export and restore": exported,
}


def watched(name: str = "hashed") -> Embedder:
    def embed(texts: list[str]) -> Any:
        assert threading.current_thread() is threading.main_thread()
        return hashed(texts)

    return Embedder(embed, name=name)


@pytest.fixture
def ctx(address: str) -> Any:
    with strongroom.open(address, embedder=watched()) as opened:
        opened.memories.add("likes green tea", user_id="u1")
        opened.memories.add("drinks green tea", user_id="u1")
        opened.sessions.open("s", user_id="u1").append(SAID)
        opened.runs.create(run_id="r", objective="Buy tea", user_id="u1")
        yield opened


@pytest.mark.parametrize("name", CALLS)
def test_it_embeds_where_it_is_called(ctx: Any, name: str, tmp_path: Path) -> None:
    CALLS[name](ctx, tmp_path)


@pytest.mark.parametrize("name", CALLS)
async def test_it_embeds_where_it_is_called_inside_of_a_running_loop(name: str, tmp_path: Path) -> None:
    with strongroom.open("memory://", embedder=watched()) as ctx:
        ctx.sessions.open("s", user_id="u1").append(SAID)
        ctx.memories.add("likes green tea", user_id="u1")
        ctx.runs.create(run_id="r", objective="Buy tea", user_id="u1")
        CALLS[name](ctx, tmp_path)
