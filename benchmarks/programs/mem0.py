"""mem0 without a model (`infer=False`), on Qdrant's local files. Vectors and history are two files, not in WAL mode."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.programs.notes import WIDTH, vector
from benchmarks.workload import message

os.environ["MEM0_TELEMETRY"] = "False"


class StandIn:
    """In the place of an embedding model."""

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def embed(self, text: str, memory_action: Any = None) -> list[float]:
        return vector(text)

    def embed_batch(self, texts: list[str], memory_action: Any = None) -> list[list[float]]:
        return [vector(text) for text in texts]


@contextmanager
def memories(folder: str, size: int) -> Iterator[dict[str, Callable[[], object]]]:
    from mem0 import Memory
    from mem0.utils.factory import EmbedderFactory

    EmbedderFactory.provider_to_class["langchain"] = f"{__name__}.{StandIn.__name__}"
    store = {"path": str(Path(folder) / "qdrant"), "embedding_model_dims": WIDTH, "on_disk": True}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": store},
            "embedder": {"provider": "langchain", "config": {"embedding_dims": WIDTH}},
            "llm": {"provider": "openai", "config": {"api_key": "never used"}},
            "history_db_path": str(Path(folder) / "history.db"),
        }
    )
    numbers = count()

    def add() -> None:
        memory.add(message(next(numbers))["content"], user_id="u", infer=False)

    for _ in range(size):
        add()
    yield {
        "add": add,
        "search": lambda: memory.search("swimming in the lake", top_k=10, filters={"user_id": "u"}, threshold=0.0),
    }
