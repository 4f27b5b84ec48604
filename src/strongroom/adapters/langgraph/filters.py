"""What a search of LangGraph's store means: filters on values, conditions on namespaces, nearness of vectors. Pure."""

from __future__ import annotations

import operator
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from langgraph.store.base import MatchCondition

from strongroom.store import Document

COMPARED: dict[str, Callable[[float, float], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def is_match(value: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Tell whether a value has what a filter asks for, key by key."""
    return all(_compare(under(value, key), wanted) for key, wanted in (filter or {}).items())


def under(value: Mapping[str, Any], name: str, otherwise: Any = None) -> Any:
    """Return what stands under a name, or under names with dots between them: LangGraph's SQLite stores take both."""
    if name in value:
        return value[name]
    first, _, rest = name.partition(".")
    inner = value.get(first) if rest else None
    return under(inner, rest, otherwise) if isinstance(inner, Mapping) else otherwise


def _compare(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and any(name.startswith("$") for name in wanted):
        return all(_operate(value, name, operand) for name, operand in wanted.items())
    return bool(value == wanted)


def _operate(value: Any, name: str, operand: Any) -> bool:
    if name == "$eq":
        return bool(value == operand)
    if name == "$ne":
        return bool(value != operand)
    if name not in COMPARED:
        raise ValueError(f"{name!r:.40} is no operator of a filter; there are $eq, $ne, {', '.join(COMPARED)}")
    try:
        return COMPARED[name](float(value), float(operand))
    except (TypeError, ValueError):
        return False


def fits_name(name: Sequence[str], condition: MatchCondition) -> bool:
    """Tell whether a namespace begins or ends as a condition says; * stands for any label."""
    path = condition.path
    if len(name) < len(path):
        return False
    part = name[: len(path)] if condition.match_type == "prefix" else name[len(name) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


def packed_vector(vector: Sequence[float]) -> str:
    return b64encode(np.asarray(vector, dtype=np.float32).tobytes()).decode()


def ranked(
    query: Sequence[float], documents: Sequence[Document], vectors: Sequence[Sequence[str]]
) -> list[tuple[Document, float | None]]:
    """Order documents by their nearest vector; those without one follow in the order that they have."""
    wanted = np.asarray(query, dtype=np.float32)
    scored = [
        (one, max(_cosine(wanted, np.frombuffer(b64decode(raw), dtype=np.float32)) for raw in several))
        for one, several in zip(documents, vectors, strict=True)
        if several
    ]
    rest = [(one, None) for one, several in zip(documents, vectors, strict=True) if not several]
    return [*sorted(scored, key=lambda pair: -pair[1]), *rest]


def _cosine(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / length if length else 0.0
