"""Embed with wordllama's table of word vectors, which comes inside its package: no download, no network runtime.

A text becomes the mean of the vectors of its words. (Extra `wordllama`.)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from strongroom.embedders import Embedder
from strongroom.errors import Unavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def wordllama() -> Embedder:
    """Return an embedder over wordllama's own table of 32,000 word vectors."""
    try:
        import wordllama as package  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise Unavailable("wordllama is not installed; pip install 'strongroom[wordllama]'", reason="missing") from None
    # Its own default looks for the files where the package does not put them, and then for the network.
    loaded = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    return Embedder(_Table(loaded).embed, name="wordllama", revision="3", batch_size=256)


class _Table:
    def __init__(self, loaded: Any) -> None:
        import numpy as np

        self.vectors: NDArray[np.float32] = np.asarray(loaded.embedding, np.float32)
        self.tokenizer = loaded.tokenizer
        self.tokenizer.no_padding()

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        import numpy as np

        rows = np.zeros((len(texts), self.vectors.shape[1]), np.float32)
        for row, found in zip(rows, self.tokenizer.encode_batch(texts, add_special_tokens=False), strict=True):
            if found.ids:
                row[:] = self.vectors[found.ids].mean(0)
        return rows
