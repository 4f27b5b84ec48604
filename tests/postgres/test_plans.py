"""How much a call reads: no more in a large store than in a small one, whatever the planner believes about the tables.

A session plans each statement of ours once and keeps the plan, as a rule while the tables are nearly empty; nobody
tells it that they have grown until they are analysed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from strongroom.backends.postgres import PostgresStore, commits, reads, search
from strongroom.backends.postgres.address import Address, parse
from strongroom.codec import encode
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    ReceiptOf,
    Scan,
    Tail,
    Write,
    new_id,
)

FEW, MANY = 50, 10_000
ENOUGH = 6  # calls after which a session has a plan for good
TIMES = 2  # as many blocks at most: indexes are one page deep in the small store, and two or three in the large one
LOG = Key("acme", "log", "s")

Call = tuple[str, tuple[Any, ...]]


class Session:
    """One connection, which keeps the plans that it made first."""

    def __init__(self, con: psycopg.Connection[Any], address: Address) -> None:
        self._con, self._address = con, address
        self._written, self._replaced = 0, 0

    def grow(self, count: int) -> None:
        """Write until there are so many items, records and receipts."""
        while self._written < count:
            numbers = range(self._written, min(self._written + 500, count))
            entries = tuple(Entry("said", encode({}), weight=1, text="lorem") for _ in numbers)
            done = self._con.execute(*self._call(*(item(n, f"{n}") for n in numbers), Append(LOG, entries))).fetchone()
            assert done is not None and done[0] == commits.DONE
            self._written = numbers.stop

    def more_receipts(self, count: int) -> None:
        """Leave the receipts of so many commits."""
        self._con.execute("SET strongroom.space = acme")
        self._con.execute(
            self._address.sql(
                "INSERT INTO :schema.receipt SELECT 'acme', 'r' || n, now() + interval '1 day', '{1}', '' "
                "FROM generate_series(1, %s) AS n ON CONFLICT DO NOTHING"
            ),
            (count,),
        )

    def analyze(self) -> None:
        for table in ("head", "tag", "record", "word", "receipt"):
            self._con.execute(self._address.sql(f"ANALYZE :schema.{table}"))

    def looked_at(self) -> dict[str, int]:
        """Return for each kind of call how many blocks it looks at: the least of a few, since some plan anew."""
        return {name: min(self._blocks(*call(self)) for _ in range(ENOUGH)) for name, call in CALLS.items()}

    def replace(self) -> Call:
        """Put a new document in the place of an old one, as LangGraph's store is updated."""
        number, self._replaced = self._replaced, self._replaced + 1
        old = Key("acme", "item", f"{number}")
        return self._call(Delete(old), item(number, f"{number} again"), expects=(Expect(old, 1),))

    def append(self) -> Call:
        return self._call(Append(LOG, (Entry("said", encode({}), text="ipsum"),)))

    def erase(self) -> Call:
        return self._call(Erase(LOG, 3, 4))

    def ask(self, *questions: Any, max_bytes: int = -1) -> Call:
        return self._address.sql(reads.CALL), reads.arguments(questions, max_bytes)

    def places(self) -> Call:
        return self._address.sql(search.PLACES), ("acme", "item", [20, 21], [-1, -1], -1)

    def _call(self, *writes: Write, expects: tuple[Expect, ...] = ()) -> Call:
        arguments = commits.arguments(Commit(new_id(), expects, writes), 5, 60)
        return self._address.sql(commits.CALL), (*arguments, commits.new_call(), 1)

    def _blocks(self, sql: str, arguments: tuple[Any, ...]) -> int:
        told = self._con.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", arguments).fetchone()
        assert told is not None
        plan = told[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def item(number: int, id: str) -> Put:
    tags = {"1": "u", "2": f"{number % 20}", "=place": f"{number}"}
    return Put(Key("acme", "item", id), encode({"n": number}), tags, "lorem")


CALLS: dict[str, Callable[[Session], Call]] = {
    "a document": lambda session: session.ask(Get(Key("acme", "item", "40"))),
    "the newest ten": lambda session: session.ask(Scan("acme", "item", limit=10, reverse=True)),
    "the newest ten with a tag": lambda session: session.ask(Scan("acme", "item", {"1": "u"}, limit=10, reverse=True)),
    "the first two with two tags": lambda session: session.ask(Scan("acme", "item", {"1": "u", "2": "3"}, limit=2)),
    "who has a claim": lambda session: session.ask(Scan("acme", "item", {"=place": "41"}, limit=1)),
    "as many of the newest as fit": lambda session: session.ask(
        Scan("acme", "item", {"1": "u"}, limit=10, reverse=True), max_bytes=10_000
    ),
    "the last ten records": lambda session: session.ask(Tail(LOG, 10)),
    "records up to a weight": lambda session: session.ask(Tail(LOG, None, 10)),
    "a record": lambda session: session.ask(Range(LOG, 5, 6)),
    "a receipt": lambda session: session.ask(ReceiptOf("acme", "r3")),
    "what stands where": Session.places,
    "replacing a document": Session.replace,
    "appending": Session.append,
    "erasing": Session.erase,
}


@pytest.fixture(params=["never", "empty", "small"])
def session(request: pytest.FixtureRequest, postgres: str) -> Iterator[Session]:
    """A session that has made its plans for a small store, which was analysed then or never."""
    PostgresStore(postgres).close()
    address = parse(postgres)
    with psycopg.connect(address.conninfo, autocommit=True) as con:
        session = Session(con, address)
        if request.param == "empty":
            session.analyze()
        session.grow(FEW)
        session.more_receipts(FEW)
        if request.param == "small":
            session.analyze()
        yield session


def test_a_call_looks_at_no_more_of_a_large_store(session: Session) -> None:
    small = session.looked_at()
    session.grow(MANY)
    session.more_receipts(MANY)
    large = session.looked_at()
    assert {name: (small[name], large[name]) for name in CALLS if large[name] > TIMES * small[name] + 10} == {}
