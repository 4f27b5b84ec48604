"""How well the turns of a conversation answer a query, by their words alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from strongroom.retrieval import bm25, share
from strongroom.stemming import words


def plain_text(message: Mapping[str, Any]) -> str:
    """Return the words of a message: its content, or the text parts of it, one below the other."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(text for _, text in text_parts(content))


def text_parts(content: Any) -> list[tuple[int, str]]:
    """Return the text parts of a content list with their places in it."""
    parts = content if isinstance(content, (list, tuple)) else ()
    return [
        (place, part["text"])
        for place, part in enumerate(parts)
        if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    ]


def rank(query: str, messages: Mapping[int, Mapping[str, Any]], k: int) -> list[int]:
    """Return the positions of the `k` messages that answer a query best, best first."""
    wanted = words(query)
    turns = {position: words(plain_text(message)) for position, message in messages.items()}
    counts = Counter(word for turn in turns.values() for word in set(turn))
    own = dict(zip(turns, bm25(wanted, list(turns.values()), len(turns), counts), strict=True))
    scores = share({place: score for place, score in own.items() if score > 0})
    return sorted((place for place in scores if place in messages), key=lambda place: (-scores[place], -place))[:k]
