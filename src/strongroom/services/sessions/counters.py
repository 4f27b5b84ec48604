"""Who counts the tokens of a session: a tokenizer that is at hand, one that can be made again, or nobody here.

A session remembers its tokenizer by name. Reading needs no more than that, because counts are stored with the messages;
only what must count asks for the tokenizer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strongroom.errors import InvalidInput
from strongroom.tokens import Tokenizer, is_built_in, tokenizer

AnyTokenizer = str | Tokenizer | Callable[[str], Any]


class Absent:
    """The tokenizer of a session that is not at hand here: a name that can not count."""

    approximate = True

    def __init__(self, name: str) -> None:
        self.name = name

    def count(self, text: str) -> int:
        raise InvalidInput(
            f"this session counts with the tokenizer {self.name!r}, which is not at hand here; "
            "pass it to sessions.open(tokenizer=)"
        )


def remembered(which: AnyTokenizer) -> Tokenizer:
    """Return a tokenizer that a session can tell from others by its name."""
    found = tokenizer(which)
    if not found.name or found.name.startswith("<"):
        raise InvalidInput(
            f"a session remembers its tokenizer by name, and {found.name} does not tell this one from another; pass a "
            "function made with def, or strongroom.tokens.Custom(function, name=...); nothing changed"
        )
    return found


def required(one: Tokenizer) -> Tokenizer:
    """Return a tokenizer that can count, or raise."""
    if type(one) is Absent:
        one.count("")
    return one


def counter(name: str, known: Mapping[str, Tokenizer]) -> Tokenizer:
    """Return the tokenizer of that name: one of those known, one that can be made again, or one that is absent."""
    return known.get(name) or (tokenizer(name) if is_built_in(name) else Absent(name))
