"""What a search reads and finds, whatever the planner believes about the table, and however often it was asked before.

A rare word is found by the index, a frequent one by walking back from the newest text. The store decides which by the
newest thousand texts, so these tests ask for at most 500 places in a store of some thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from strongroom.backends.postgres import PostgresStore, commits
from strongroom.backends.postgres.address import Address, parse
from strongroom.backends.postgres.search import FIND, question
from strongroom.backends.postgres.tokens import scope_tokens, word_tokens
from strongroom.codec import encode
from strongroom.stemming import words
from strongroom.store import Append, Commit, Entry, Find, Key, Put, Write, new_id

MANY = 5_000
MOST = 500
LOOKED_AT = 1_000  # the newest texts, by which is decided
OLD = 12


class Asker:
    """One connection, which keeps the plans that it made first."""

    def __init__(self, con: psycopg.Connection[Any], address: Address) -> None:
        self._con, self._address = con, address

    def write(self, *writes: Write) -> None:
        arguments = commits.arguments(Commit(new_id(), (), writes), 5, 60)
        self._con.execute(self._address.sql(commits.CALL), (*arguments, commits.new_call(), 1))

    def analyze(self) -> None:
        self._con.execute(self._address.sql("VACUUM (ANALYZE) :schema.word"))

    def find(self, find: Find) -> list[tuple[int, int, int]]:
        asked = (*question(find)[:-1], MOST)
        return self._con.execute(self._address.sql(FIND), asked).fetchall()

    def held(self, find: Find) -> list[tuple[int, int]]:
        """Return the newest places of the first word, as a walk over the whole table tells them."""
        tokens = word_tokens(find.space, find.kind, find.words[:1])
        tokens += scope_tokens(find.space, find.kind, find.id, find.tags)
        return self._con.execute(
            self._address.sql(
                "SELECT ref, index FROM :schema.word WHERE tokens @> %s::bigint[] ORDER BY 1 DESC, 2 DESC LIMIT %s"
            ),
            (tokens, MOST),
        ).fetchall()

    def reads(self, find: Find) -> int:
        """Return how many rows of words a search fetches, once it has been asked as often as makes a plan last."""
        for _ in range(6):
            self.find(find)
        with self._con.transaction():
            before = fetched(self._con)
            self.find(find)
            return fetched(self._con) - before


@pytest.fixture(params=["never", "empty", "small", "large"])
def asker(request: pytest.FixtureRequest, postgres: str) -> Iterator[Asker]:
    """A long session and many documents of the same texts, in tables last analysed at that size."""
    PostgresStore(postgres).close()
    address = parse(postgres)
    with psycopg.connect(address.conninfo, autocommit=True) as con:
        asker = Asker(con, address)
        if request.param == "empty":
            asker.analyze()
        write(asker, range(20))
        asker.find(SESSION)
        if request.param == "small":
            asker.analyze()
        write(asker, range(20, MANY))
        if request.param == "large":
            asker.analyze()
        yield asker


def write(asker: Asker, numbers: range) -> None:
    entries = tuple(Entry("user", encode({}), text=text(number)) for number in numbers)
    documents = (Put(Key("acme", "note", f"{n}"), encode({}), owner(n), text(n)) for n in numbers)
    asker.write(Append(Key("acme", "message", "s"), entries), *documents)


def text(number: int) -> str:
    """Say what the number is: every second text says "often", three say "rarely"; "lately" is hardly said of old."""
    said = ["often"] if number % 2 else ["seldom"] if number % 100 == 0 else []
    said += ["rarely"] if number in (7, 2_007, 4_007) else []
    said += ["lately"] if number >= MANY - 300 or number < OLD else []
    return " ".join(("it", "was", "said", *said, f"word{number % 40}"))


def owner(number: int) -> dict[str, str]:
    return {"owner": f"u{number % 50}", "all": "yes"}


SESSION = Find("acme", "message", words("often"), "s")
DOCUMENTS = Find("acme", "note", words("often"))
ONE_OWNER = Find("acme", "note", words("often"), tags={"owner": "u7"})
EVERYBODY = Find("acme", "note", words("often"), tags={"all": "yes"})
SCOPES = {"session": SESSION, "documents": DOCUMENTS, "one owner": ONE_OWNER, "everybody": EVERYBODY}
WORDS = ("often", "seldom", "rarely", "lately", "never", "word7")


def asking(find: Find, word: str) -> Find:
    return Find(find.space, find.kind, tuple(words(word)), find.id, find.tags)


@pytest.mark.parametrize("word", WORDS)
def test_the_newest_places_are_found_in_their_order(asker: Asker, word: str) -> None:
    for find in SCOPES.values():
        (_, total, _), *rows = asker.find(asking(find, word))
        assert [(ref, index) for _, ref, index in rows] == asker.held(asking(find, word))
        assert total == (MANY // 50 if find is ONE_OWNER else MOST)


@pytest.mark.parametrize("find", [SESSION, DOCUMENTS], ids=["session", "documents"])
def test_a_rare_word_is_found_by_the_index(asker: Asker, find: Find) -> None:
    assert asker.reads(asking(find, "rarely")) <= MOST + LOOKED_AT + 3


@pytest.mark.parametrize("find", [SESSION, DOCUMENTS], ids=["session", "documents"])
def test_a_frequent_word_is_found_by_walking_back_until_there_are_enough(asker: Asker, find: Find) -> None:
    assert asker.reads(asking(find, "often")) <= MOST + LOOKED_AT + 2 * MOST


@pytest.mark.parametrize("find", [SESSION, DOCUMENTS], ids=["session", "documents"])
def test_what_is_said_only_lately_is_walked_for_no_longer_than_seemed_right(asker: Asker, find: Find) -> None:
    walked = 2 * MOST * LOOKED_AT // 300
    assert asker.reads(asking(find, "lately")) <= MOST + LOOKED_AT + walked + 300 + OLD


def test_one_of_many_owners_is_found_by_the_index(asker: Asker) -> None:
    assert asker.reads(asking(ONE_OWNER, "often")) <= MOST + LOOKED_AT + 2 * MANY // 50


def test_a_short_session_is_walked_through(asker: Asker) -> None:
    asker.write(
        Append(Key("acme", "message", "short"), tuple(Entry("user", encode({}), text="often") for _ in range(9)))
    )
    assert asker.reads(Find("acme", "message", words("often"), "short")) <= 2 * 9


def test_the_tenth_search_for_a_rare_word_reads_no_more_than_the_first(
    postgres: str, connect: Callable[..., Any]
) -> None:
    key = Key("acme", "message", "s")
    texts = ["a quokka", *(" ".join(f"word{n % 40 + place}" for place in range(30)) for n in range(MANY))]
    entries = tuple(Entry("user", encode({}), text=text) for text in texts)
    connect(postgres).commit(Commit(new_id(), (), (Append(key, entries),)))
    address = parse(postgres)
    find = Find("acme", "message", ("quokka",), "s")
    asked = question(find)
    with psycopg.connect(address.conninfo, autocommit=True) as con:
        con.execute(address.sql("VACUUM (ANALYZE) :schema.word"))
        for _ in range(10):
            assert [row[0] for row in con.execute(address.sql(FIND), asked).fetchall()] == [0, 1]
        with con.transaction():
            before = fetched(con)
            con.execute(address.sql(FIND), asked).fetchall()
            assert fetched(con) - before < 100


def fetched(con: psycopg.Connection[Any]) -> int:
    """Return how many rows of words this transaction has read."""
    row = con.execute(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables "
        "WHERE relname = 'word' ORDER BY 1 DESC LIMIT 1"
    ).fetchone()
    assert row is not None
    return int(row[0])
