"""Which tokenizer a name stands for, and how one is made of any callable.

| name | counts |
|---|---|
| `default`, `estimate` | by the shape of the text; needs nothing, approximate |
| `o200k_base`, `cl100k_base` | exactly, offline, with the extra `tokens`; refused without it |
| a model's name | exactly if its encoding is one of those two and can be had, otherwise by the estimate |

`default` is the estimate even where the extra is installed: the same program gives the same counts everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from strongroom.errors import InvalidInput
from strongroom.tokens.estimate import Estimate

ENCODINGS = ("o200k_base", "cl100k_base")

# Longest prefix first, so that gpt-4o is not taken for gpt-4.
_MODELS = (
    ("text-embedding-", "cl100k_base"),
    ("gpt-3.5-turbo", "cl100k_base"),
    ("gpt-35-turbo", "cl100k_base"),
    ("chatgpt-4o", "o200k_base"),
    ("gpt-4.1", "o200k_base"),
    ("gpt-4.5", "o200k_base"),
    ("gpt-oss", "o200k_base"),
    ("gpt-4o", "o200k_base"),
    ("gpt-5", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
)


@runtime_checkable
class Tokenizer(Protocol):
    """Counts the tokens of a text. `approximate` says whether the count is an estimate.

    >>> from strongroom.tokens import Custom
    >>> words: strongroom.Tokenizer = Custom(lambda text: len(text.split()), name="words")
    >>> chat = strongroom.open("memory://").sessions.open("support-7", tokenizer=words)
    >>> [message.tokens for message in chat.append({"role": "user", "content": "My order is late."})]
    [8]
    """

    @property
    def name(self) -> str:
        """What receipts call it, and what a session remembers of it."""
        ...

    @property
    def approximate(self) -> bool:
        """Whether its counts are estimates."""
        ...

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""
        ...


class Encoding:
    """Exact counts of one encoding, from the vocabulary inside the `splintr` package."""

    approximate = False

    def __init__(self, name: str, vocabulary: Any) -> None:
        self.name = name
        # encode() would read "<|endoftext|>" in a user's text as a control token; here it is text like any other.
        self.encode: Callable[[str], list[int]] = vocabulary.encode_ordinary

    def count(self, text: str) -> int:
        return len(self.encode(text))


class Custom:
    """A tokenizer made of a callable: what it returns is a count, or something with a length (a list of ids)."""

    def __init__(self, function: Callable[[str], Any], *, name: str = "", approximate: bool = False) -> None:
        self.name = name or _name_of(function)
        self.approximate = approximate
        self._function = function

    def count(self, text: str) -> int:
        result = self._function(text)
        counted = result if type(result) is int else len(result)
        if counted < 0:
            raise InvalidInput(f"tokenizer {self.name!r} counted {counted} tokens; a count must be 0 or more")
        return counted


def _name_of(function: Callable[[str], Any]) -> str:
    """Return a function's name; in angle brackets if it does not tell this function from others."""
    name = getattr(function, "__name__", None)
    if name is None:
        return f"<{type(function).__name__}>"
    # Two lambdas are called alike, and so is one method of two objects.
    owner = getattr(function, "__self__", None)
    return str(name) if owner is None or isinstance(owner, (ModuleType, type)) else f"<{name}>"


def tokenizer(which: str | Tokenizer | Callable[[str], Any]) -> Tokenizer:
    """Return the tokenizer of that name, or made of that callable; a tokenizer is returned as it is."""
    if isinstance(which, str):
        return _named(which)
    if isinstance(which, Tokenizer):
        return which
    if callable(which):
        return Custom(which)
    raise InvalidInput(f"a tokenizer must be a name or a callable, not a {type(which).__name__}")


def is_built_in(name: str) -> bool:
    """Tell whether a stored tokenizer name is one that `tokenizer` can make again."""
    return name in (*ENCODINGS, Estimate.name)


@cache
def _named(name: str) -> Tokenizer:
    if name in ENCODINGS:
        found = _encoding(name)
        if found is None:
            raise InvalidInput(
                f"{name} needs the extra 'tokens' (pip install 'strongroom[tokens]'); "
                "tokenizer='estimate' needs nothing"
            )
        return found
    model = name.rsplit("/", 1)[-1].removeprefix("ft:").lower()
    encoding = next((encoding for prefix, encoding in _MODELS if model.startswith(prefix)), None)
    return (encoding and _encoding(encoding)) or _estimate


@cache
def _encoding(name: str) -> Tokenizer | None:
    try:
        import splintr
    except ImportError:
        return None
    return Encoding(name, splintr.Tokenizer.from_pretrained(name))


_estimate = Estimate()


# ---- the tokenizer that a session remembers by name -----------------------------------------------------------------
# Reading needs no more than the name, because counts are stored with the messages; only what must count asks for the
# tokenizer itself.

AnyTokenizer = str | Tokenizer | Callable[[str], Any]


class Absent:
    """The tokenizer of a session that is not at hand here: a name that cannot count."""

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
