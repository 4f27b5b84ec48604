"""mem0 itself, without a model: an embedder that stands in for one, and a vector store of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mem0 import Memory
from mem0.utils.factory import EmbedderFactory

WIDTH = 4


class StandIn:
    """In the place of an embedding model."""

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def embed(self, text: str, memory_action: Any = None) -> list[float]:
        return [float(len(text)), 1.0, 0.0, 0.5]

    def embed_batch(self, texts: list[str], memory_action: Any = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def own_memory(provider: str, config: dict[str, Any], history: Path) -> Any:
    """Return mem0's own `Memory` over a vector store."""
    EmbedderFactory.provider_to_class["langchain"] = f"{__name__}.{StandIn.__name__}"
    return Memory.from_config(
        {
            "vector_store": {"provider": provider, "config": {**config, "embedding_model_dims": WIDTH}},
            "embedder": {"provider": "langchain", "config": {"embedding_dims": WIDTH}},
            "llm": {"provider": "openai", "config": {"api_key": "never used"}},
            "history_db_path": str(history),
        }
    )


def qdrant(folder: Path) -> Any:
    """Return mem0's own `Memory` over Qdrant's local files, which is what it makes unless told otherwise."""
    return own_memory("qdrant", {"path": str(folder / "qdrant"), "on_disk": True}, folder / "history.db")
