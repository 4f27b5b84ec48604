"""Signatures as a document writes them, `store.search(query, k=5)`, and as they are."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

Parameters = list[tuple[str, Any]]
REQUIRED = object()

# The variables that a document calls methods on.
VARIABLES = {"builder": "ContextBuilder", "store": "SessionStore"}


def documented_calls(text: str) -> Iterator[tuple[str, Parameters]]:
    """Yield each call of a text: what is called, and its parameters with their defaults."""
    for node in ast.parse(re.sub(r"\) -> \w+", ")", text)).body:
        assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        call = node.value
        required: Parameters = [(ast.unparse(argument), REQUIRED) for argument in call.args]
        yield (
            ast.unparse(call.func),
            required + [(str(word.arg), ast.literal_eval(word.value)) for word in call.keywords],
        )


def parameters(module: ModuleType, name: str) -> Parameters:
    """Return the parameters that a name of a module takes, those aside that a caller need not know of."""
    owner, _, method = name.partition(".")
    found = getattr(module, VARIABLES.get(owner, owner))
    signature = inspect.signature(getattr(found, method) if method else found)
    return [
        (parameter.name, REQUIRED if parameter.default is parameter.empty else parameter.default)
        for parameter in signature.parameters.values()
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
