"""A model by its name, as an operator writes it into an environment variable or a setting.

| name | model |
|---|---|
| `openai:MODEL`, `anthropic:MODEL` | at these companies, with the key of OPENAI_API_KEY or ANTHROPIC_API_KEY |
| `https://host/v1#MODEL` | an OpenAI-compatible service, asked at `/chat/completions`, with a key if it needs one |
| `anthropic+https://host/v1#MODEL` | a service that speaks Anthropic's protocol, asked at `/messages` |
| `module:object` | a function of a module of yours |
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from strongroom.errors import InvalidInput
from strongroom.models.chat import anthropic, openai

HELP = "openai:MODEL, anthropic:MODEL, https://host/v1#MODEL, anthropic+https://host/v1#MODEL or module:object"


def named(name: str, api_key: str | None = None) -> Callable[..., Any]:
    """Return the model that a name stands for, or raise what says why it cannot be used."""
    bare = name.removeprefix("anthropic+")
    make = openai if bare == name else anthropic
    if bare.startswith(("http://", "https://")):
        address, _, model = bare.partition("#")
        if not model:
            raise InvalidInput("a model service is named with its model, as in https://host/v1#MODEL")
        return make(model, url=address, api_key=api_key)
    kind, _, rest = name.partition(":")
    if not rest:
        raise InvalidInput(f"a model is {HELP}, not {name!r:.80}")
    if kind in ("openai", "anthropic"):
        return (openai if kind == "openai" else anthropic)(rest, api_key=api_key)
    try:
        found: Any = getattr(import_module(kind), rest)
    except (ImportError, AttributeError, ValueError) as problem:
        raise InvalidInput(f"a model is {HELP}; {name!r:.80} is none: {problem}") from None
    if not callable(found):
        raise InvalidInput(f"a model is a function from messages to an answer; {name!r:.80} is none")
    model_of_theirs: Callable[..., Any] = found
    return model_of_theirs
