"""What is stored in the benchmarks: the same for everybody, made from numbers alone. Peers import this too."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TALK = (
    "I really think we should take the kids out to that lake again before summer is over because last year they kept "
    "talking about how much fun swimming with their cousins was and my sister already asked when her family could come "
    "along what do you say about the second weekend of August if work lets me go early on Friday"
)
WORDS = TALK.split()
BUDGET = 4_000
TURN = (5, 7)  # the numbers of two messages that are together as long as others: a window holds as many after any turn
SYNCED = "WAL, synchronous=FULL"  # what most rows are measured with, on both sides
NOT_DURABLE = "none, on both sides"


def message(number: int) -> Any:
    """Return a turn of 5 to 44 words, 130 bytes on average, as people chat."""
    length = 5 + number * 7 % 40
    text = " ".join(WORDS[(number * 11 + place * (1 + number % 3)) % len(WORDS)] for place in range(length))
    return {"role": "user" if number % 2 else "assistant", "content": f"{text} {number}."}


def messages(start: int, stop: int) -> list[Any]:
    return [message(number) for number in range(start, stop)]


def prose(number: int) -> str:
    """Return 5 to 44 words of a vocabulary of 5,000, the nth of which is said as often as 1/n, as in a language."""
    rng = random.Random(number)
    return " ".join(VOCABULARY[int(len(VOCABULARY) ** rng.random()) - 1] for _ in range(rng.randint(5, 44)))


def questions(count: int, seed: int) -> list[str]:
    """Return questions of three words: one that many texts have, one that some have, one that few have."""
    rng = random.Random(seed)
    return [
        " ".join((VOCABULARY[rng.randrange(20, 100)], VOCABULARY[rng.randrange(100, 1_000)], rng.choice(VOCABULARY)))
        for _ in range(count)
    ]


def _vocabulary(size: int) -> list[str]:
    rng = random.Random(5)
    made: dict[str, None] = {}
    while len(made) < size:
        made["".join(rng.choice("bdfgklmnprstvw") + rng.choice("aou") for _ in range(rng.randint(2, 4)))] = None
    return list(made)


VOCABULARY = _vocabulary(5_000)


def per_byte(path: Path, history: Sequence[dict[str, Any]]) -> float:
    """Return how many bytes all files of a database have for each byte of text."""
    return on_disk(path) / text_bytes(history)


def on_disk(path: Path) -> int:
    return sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))


def text_bytes(history: Sequence[dict[str, Any]]) -> int:
    return sum(len(one["content"].encode()) for one in history)


def require_synced(journal: str, synchronous: int) -> None:
    """Make sure that a peer syncs each commit as we do: what it was not told to do it must do by default."""
    if (journal, synchronous) != ("wal", 2):
        raise AssertionError(f"not the same durability: {journal}, {synchronous}")
