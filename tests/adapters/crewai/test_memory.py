"""CrewAI's own `Memory` object over our storage, on every store and through a server: answered as over its LanceDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crewai import Memory
from crewai.llms.base_llm import BaseLLM
from crewai.memory.storage.lancedb_storage import LanceDBStorage

import strongroom
from strongroom.adapters.crewai import StrongroomStorage

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the framework's own making

TEXTS = ["The deploy key is in the vault", "Ana reviews on Fridays", "Staging is rebuilt at night", "Ben is on leave"]


class Silent(BaseLLM):
    """A model that nobody has to ask: every field is given."""

    def call(self, *args: Any, **more: Any) -> str:
        raise AssertionError("no model is asked here")


def embed(texts: list[str]) -> list[list[float]]:
    """Return a direction of its own for each text that is known, so that no two are taken for one."""
    return [[1.0 if text == known else 0.01 for known in TEXTS] for text in texts]


def memory_over(storage: Any, **more: Any) -> Memory:
    return Memory(llm=Silent(model="silent"), storage=storage, embedder=embed, **more)


def story(storage: Any) -> list[Any]:
    """Do a bit of everything and return what was answered."""
    memory = memory_over(storage, root_scope="/crew")
    told: list[Any] = []
    given: Any = {"metadata": {"n": 1}, "importance": 0.5}
    first = memory.remember(TEXTS[0], scope="/ops", categories=["keys"], **given)
    assert first is not None
    memory.remember_many(TEXTS[1:], scope="/team", categories=["people"], source="ben", private=True, **given)
    for query in TEXTS:
        for source in (None, "ben"):
            [found] = memory.recall(query, depth="shallow", source=source, limit=4)[:1]
            told.append((found.record.content, found.record.scope))
    told.append([one.record.content for one in memory.recall(TEXTS[0], scope="/none", depth="shallow")])
    told += [memory.list_scopes(), memory.tree(), memory.list_categories(), memory.info("/team").record_count]
    memory.update(first.id, content=TEXTS[2], categories=["nights"])
    told.append([one.record.categories for one in memory.recall(TEXTS[2], scope="/ops", depth="shallow", limit=1)])
    told.append(memory.forget(categories=["people"], metadata_filter={"n": 1}))
    told.append(sorted(one.content for one in memory.list_records()))
    memory.reset()
    told.append(memory.list_records())
    memory.close()
    return told


def test_crewai_s_memory_answers_as_over_its_own_storage(every_context: strongroom.Context, tmp_path: Path) -> None:
    ours = story(StrongroomStorage(every_context))
    assert ours == story(LanceDBStorage(path=str(tmp_path / "lance"), vector_dim=len(TEXTS)))
    assert ours[:4] == [(TEXTS[0], "/crew/ops")] * 3 + [(TEXTS[1], "/crew/team")] and ours[-1] == []


def test_what_one_memory_remembered_another_one_recalls(address: str) -> None:
    for turn in range(2):
        memory = memory_over(StrongroomStorage(address))
        if turn == 0:
            memory.remember(TEXTS[1], scope="/team", categories=["people"], metadata={}, importance=0.9)
        else:
            [found] = memory.recall(TEXTS[1], depth="shallow")
            assert (found.record.content, found.record.importance) == (TEXTS[1], 0.9)
        memory.close()
