"""Embed with fastembed's ONNX models, on this machine (extra `fastembed`)."""

from __future__ import annotations

from typing import Any

from strongroom.embedders import Embedder
from strongroom.errors import Unavailable


def fastembed(
    model: str = "BAAI/bge-small-en-v1.5", *, revision: str = "", batch_size: int = 64, **options: Any
) -> Embedder:
    """Return an embedder for one of fastembed's models. Options go to its `TextEmbedding`."""
    try:
        from fastembed import TextEmbedding  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise Unavailable("fastembed is not installed; pip install 'strongroom[fastembed]'", reason="missing") from None
    loaded = TextEmbedding(model, **options)
    return Embedder(
        loaded.passage_embed,
        query=loaded.query_embed,
        name=f"fastembed:{model}",
        revision=revision,
        batch_size=batch_size,
    )
