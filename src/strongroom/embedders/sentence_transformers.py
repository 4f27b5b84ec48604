"""Embed with a sentence-transformers model, on this machine (extra `sentence-transformers`)."""

from __future__ import annotations

from typing import Any

from strongroom.embedders import Embedder
from strongroom.errors import Unavailable


def sentence_transformers(
    model: str = "all-MiniLM-L6-v2", *, revision: str = "", batch_size: int = 64, **options: Any
) -> Embedder:
    """Return an embedder for a model name or folder. Options go to its `SentenceTransformer`."""
    try:
        from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise Unavailable(
            "sentence-transformers is not installed; pip install 'strongroom[sentence-transformers]'", reason="missing"
        ) from None
    loaded = SentenceTransformer(model, revision=revision or None, **options)

    def embed(texts: list[str]) -> Any:
        return loaded.encode(texts, batch_size=batch_size, convert_to_numpy=True, show_progress_bar=False)

    return Embedder(embed, name=f"sentence-transformers:{model}", revision=revision, batch_size=batch_size)
