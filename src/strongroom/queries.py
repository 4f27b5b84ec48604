"""What a query asks for: words, perhaps a day, whose words, and whether it asks when. Pure.

The signs were fitted on English conversations and written down for other languages as far as a word is enough. They
order what was found, and a query that shows none of them is ranked without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from strongroom.dates import Day, day_named
from strongroom.errors import InvalidInput
from strongroom.stemming import words

# Characters, through every door: the longest question is far shorter, and each word is looked up.
LONGEST_QUERY = 10_000

_WORD = re.compile(r"[^\W_]+")
_SAYS_I = frozenset(("i", "my", "me", "mine", "myself"))
_SAYS_YOU = frozenset(("you", "your", "yours", "yourself"))
# How a request begins that is about something else: "do you remember what I said", "can you tell me where you were".
_REQUESTS = frozenset(("can", "could", "do", "will", "would", "please", "you"))
_REQUESTED = frozenset(("tell", "remind", "show", "give", "remember", "recall", "know"))
# What stands between two who are named in one breath.
_AND = frozenset(("s", "and", "or", "und", "oder", "et", "ou", "y", "e", "o", "и", "или", "و", "أو", "और", "या"))
# Some words ask anywhere, others only where a question begins: "what did you do when it rained" does not ask when.
_WHEN = frozenset(("wann", "cuándo", "متى", "कब"))
_WHEN_FIRST = frozenset(("when", "quand", "cuando", "когда"))
_HOW_LONG = frozenset((("how", "long"), ("wie", "lange"), ("cuánto", "tiempo"), ("как", "долго")))
_WHEN_INSIDE = re.compile("什么时候|什麼時候|何时|何時|哪天|多久|いつ")


class Asked(Struct, frozen=True):
    """What a query asks for."""

    query: str
    words: tuple[str, ...]
    tokens: tuple[str, ...]
    day: Day | None
    when: bool

    @classmethod
    def of(cls, query: str) -> Asked:
        folded = query.casefold()
        tokens = tuple(_WORD.findall(folded))
        return cls(query, tuple(dict.fromkeys(words(query))), tokens, day_named(query), _asks_when(folded, tokens))


def require_query(query: str) -> str:
    """Return a query, or refuse it: what nobody asks in words is not looked for."""
    if len(query) > LONGEST_QUERY:
        raise InvalidInput(f"a query is limited to {LONGEST_QUERY:,} characters, and this one has {len(query):,}")
    return query


def named(asked: Asked, names: Iterable[str], roles: Iterable[str]) -> list[str]:
    """Return the speakers a query names. In a chat without names, `I` is the user and `you` the assistant."""
    tokens, known = frozenset(asked.tokens), [name for name in names if name]
    if known:
        return [name for name in known if not tokens.isdisjoint(_WORD.findall(name.casefold()))]
    speaking = [role for role in roles if role]
    found = [role for role in speaking if role in tokens]
    if found:
        return found
    for token in asked.tokens[_begins(asked.tokens) :]:
        role = "user" if token in _SAYS_I else "assistant" if token in _SAYS_YOU else ""
        if role in speaking:
            return [role]
    return []


def _begins(tokens: Sequence[str]) -> int:
    """Return where a query begins after the words that only ask for an answer."""
    place = next((place for place, token in enumerate(tokens) if token not in _REQUESTS), 0)
    if tokens and tokens[place] in _REQUESTED:
        return place + 2 if tokens[place + 1 : place + 2] == ("me",) else place + 1
    return 0


def asked_about(asked: Asked, found: Sequence[str]) -> str:
    """Return whose words are asked for: of several who are named, the first, unless they are named in one breath."""
    if len(found) < 2:
        return found[0] if found else ""
    tokens = [(token, name) for name in found for token in _WORD.findall(name.casefold())]
    if len(dict(tokens)) < len(tokens):
        return ""  # two who share a name
    names, first, end = dict(tokens), "", 0
    for place, token in enumerate(asked.tokens):
        name = names.get(token, "")
        if name and first and name != first:
            return "" if _AND.issuperset(asked.tokens[end:place]) else first
        if name:
            first, end = name, place + 1
    return first


def wanted(asked: Asked, named: Iterable[str]) -> list[str]:
    """Return the words to look for: not the names of speakers, who are called by name everywhere."""
    names = {stem for name in named for stem in words(name)}
    return [word for word in asked.words if word not in names] or list(asked.words)


def without_names(asked: Asked, named: Iterable[str]) -> str:
    """Return the query without the speakers it names, for whoever compares meanings: a name has none."""
    names = {token for name in named for token in _WORD.findall(name.casefold())}
    kept = [token for token in asked.query.split() if names.isdisjoint(_WORD.findall(token.casefold())[:1])]
    return " ".join(kept) or asked.query


def _asks_when(folded: str, tokens: tuple[str, ...]) -> bool:
    begins = tokens[:2]
    return (
        not _WHEN_FIRST.isdisjoint(begins)
        or not _WHEN.isdisjoint(tokens)
        or begins in _HOW_LONG
        or _WHEN_INSIDE.search(folded) is not None
    )
