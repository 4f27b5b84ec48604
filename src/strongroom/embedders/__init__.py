"""From texts to vectors: one verb over any function that can do it.

An embedder is a function from a list of texts to a list of vectors, plain or async, and a fingerprint that says which
one it is. Vectors with different fingerprints are never compared. What comes back is checked (count, dimension, finite
numbers) and scaled to length 1, so a dot product is a cosine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from strongroom.embedders import offload
from strongroom.embedders.health import Health
from strongroom.errors import InvalidInput, StrongroomError, Unavailable

if TYPE_CHECKING:  # numpy takes longer to import than everything else together, and most programs embed nothing
    import numpy as np
    from numpy.typing import NDArray

Embed = Callable[[list[str]], Any]


class Fingerprint(Struct, frozen=True):
    """Which embedder made a vector."""

    name: str
    revision: str
    dimension: int

    def __str__(self) -> str:
        return f"{self.name}@{self.revision or '-'} ({self.dimension} dimensions)"


class Embedder:
    """Any function that turns texts into vectors, with a name.

    `query` is a second function for questions, for models that treat those differently from what answers them. If
    `dimension` is not given, it is found out by embedding one word. Choose another `revision` whenever the same name
    would give other vectors.

    >>> ctx = strongroom.open("memory://")
    >>> def lengths(texts):  # a stand-in: a real one asks a model
    ...     return [[len(text), 1.0] for text in texts]
    >>> embedder = strongroom.Embedder(lengths, name="lengths")
    >>> memories = ctx.memories.using(embedder=embedder)
    >>> _ = memories.add("likes tea", user_id="ana")
    >>> memories.search("a question", user_id="ana", mode="vector")[0].content
    'likes tea'
    """

    def __init__(
        self,
        embed: Embed,
        *,
        name: str = "",
        revision: str = "",
        dimension: int | None = None,
        query: Embed | None = None,
        batch_size: int = 64,
    ) -> None:
        if not callable(embed):
            raise InvalidInput(f"an embedder is a function from texts to vectors, not a {type(embed).__name__}")
        found = name or _name(embed)
        if not found or not found.isprintable():
            raise InvalidInput("this embedder has no name of its own; give it one: Embedder(function, name='...')")
        if batch_size < 1:
            raise InvalidInput(f"batch_size must be 1 or more, not {batch_size}")
        self.name = found
        self.revision = revision
        self._dimension = dimension
        self._embed = embed
        self._query = query or embed
        self._batch_size = batch_size
        self.health = Health()

    async def fingerprint(self, *, threads: bool) -> Fingerprint:
        """Say which embedder this is, embedding one word if its dimension is not known yet."""
        if self._dimension is None:
            await self.embed(["dimension"], threads=threads)
        assert self._dimension is not None
        return Fingerprint(self.name, self.revision, self._dimension)

    async def embed(
        self, texts: Sequence[str], *, threads: bool, purpose: Literal["text", "query"] = "text"
    ) -> NDArray[np.float32]:
        """Return one vector of length 1 for each text, as the rows of a matrix."""
        import numpy as np

        function = self._query if purpose == "query" else self._embed
        parts = []
        for start in range(0, len(texts), self._batch_size):
            part = list(texts[start : start + self._batch_size])
            with self.health.noted():
                parts.append(self._checked(await self._call(function, part, threads), len(part)))
        return np.concatenate(parts) if parts else np.zeros((0, self._dimension or 0), np.float32)

    async def _call(self, function: Embed, texts: list[str], threads: bool) -> Any:
        try:
            if offload.is_async(function):
                if not threads:
                    raise offload.NeedsALoop(f"embedder {self.name!r}")
                return await function(texts)
            # Some models return a generator: the work is done by whoever walks it, so that happens here too.
            result = await offload.call(threads, lambda: _drained(function(texts)))
            if inspect.isawaitable(result):
                if not threads:
                    if inspect.iscoroutine(result):
                        result.close()
                    raise offload.NeedsALoop(f"embedder {self.name!r}")
                return await result
            return result
        except StrongroomError:
            raise
        except Exception as problem:
            raise Unavailable(
                f"embedder {self.name!r} failed: {type(problem).__name__}: {problem}", reason="embedder"
            ) from problem

    def _checked(self, result: Any, count: int) -> NDArray[np.float32]:
        import numpy as np

        try:
            with np.errstate(over="ignore"):  # what is too large for the type is told below
                matrix = np.asarray(result, dtype=np.float32)
        except (TypeError, ValueError, OverflowError) as problem:
            raise self._nonsense(f"returned something that is not numbers: {problem}") from None
        if matrix.ndim != 2 or matrix.shape[0] != count or matrix.shape[1] == 0:
            raise self._nonsense(f"must return {count} vectors for {count} texts, not an array of {matrix.shape}")
        if self._dimension is None:
            self._dimension = int(matrix.shape[1])
        if matrix.shape[1] != self._dimension:
            raise self._nonsense(f"has {self._dimension} dimensions but returned {matrix.shape[1]}")
        if not np.isfinite(matrix).all():
            raise self._nonsense("returned numbers that are not finite")
        return unit(matrix)

    def _nonsense(self, problem: str) -> Unavailable:
        """Say what is wrong with an answer: a failure of the embedder, not of whoever asks for vectors."""
        return Unavailable(f"embedder {self.name!r} {problem}", reason="embedder")


def unit(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale each row to length 1. A row of zeros stays one: it is near nothing."""
    import numpy as np

    scaled = matrix.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    lengths[lengths == 0] = 1.0
    scaled /= lengths
    return scaled.astype(np.float32)


def _name(function: Embed) -> str:
    qualified = getattr(function, "__qualname__", "")
    return "" if "<" in qualified or not qualified else f"{function.__module__}.{qualified}"


def _drained(result: Any) -> Any:
    import numpy as np

    return list(result) if isinstance(result, Iterable) and not isinstance(result, (np.ndarray, list)) else result
