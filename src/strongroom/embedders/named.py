"""An embedder by its name, as an operator writes it into an environment variable or a setting.

| name | embedder |
|---|---|
| `wordllama` | word vectors inside of a package |
| `fastembed:MODEL`, `sentence-transformers:MODEL` | a model on this machine |
| `https://host/v1#MODEL` | an OpenAI-compatible service, asked at `/embeddings`, with a key if it needs one |
| `module:object` | an `Embedder`, or a function from texts to vectors, of a module of yours |
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from strongroom.embedders import Embedder
from strongroom.embedders.fastembed import fastembed
from strongroom.embedders.http import http
from strongroom.embedders.sentence_transformers import sentence_transformers
from strongroom.embedders.wordllama import wordllama
from strongroom.errors import InvalidInput

HELP = "wordllama, fastembed:MODEL, sentence-transformers:MODEL, https://host/v1#MODEL or module:object"


def named(name: str, api_key: str | None = None) -> Embedder:
    """Return the embedder that a name stands for, or raise what says why it cannot be used."""
    if name == "wordllama":
        return wordllama()
    if name.startswith(("http://", "https://")):
        address, mark, model = name.partition("#")
        if not mark or not model:
            raise InvalidInput(f"an embedding service is named with its model, as in {address}#MODEL")
        return http(model, url=address, api_key=api_key)
    kind, mark, rest = name.partition(":")
    if not mark or not rest:
        raise InvalidInput(f"an embedder is {HELP}, not {name!r:.80}")
    if kind == "fastembed":
        return fastembed(rest)
    if kind == "sentence-transformers":
        return sentence_transformers(rest)
    try:
        found: Any = getattr(import_module(kind), rest)
    except (ImportError, AttributeError, ValueError) as problem:
        raise InvalidInput(f"an embedder is {HELP}; {name!r:.80} is none: {problem}") from None
    return found if isinstance(found, Embedder) else Embedder(found, name=name)
