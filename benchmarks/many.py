"""What becomes of a million memories and ten million messages in one space? Takes long, so `make bench-many` alone.

Sizes shrink by STRONGROOM_MEMORIES and STRONGROOM_MESSAGES; STRONGROOM_MANY names the parts to run, such as
"sqlite-memories postgres-messages" (all four without it).

In the same run the bare engine gets the same texts and, in turn with ours, the same questions, with OR between words,
and returns as many places with their texts: an FTS5 table beside the file, in the order of its bm25() (as FTS5 makes it
by default: with less kept, bm25() takes four times as long), and a table with a GIN index beside Postgres, in the order
of ts_rank(). Both sides have the page cache that the driver gives; ours commits more often, which counts where things
are built. The bare engine scores every text that has one of the words; ours looks at the newest 10,000 places of each,
and ranks the best of them in its own way. What memory the bare engine takes to sort, hundreds of megabytes of what FTS5
finds, does not count as ours.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw
import psycopg
from tests.servers.postgres import PostgresServer

import strongroom
from benchmarks.measuring import SEED, Result, compare, figure, micro, pick
from benchmarks.processes import Peak
from benchmarks.search import fact
from benchmarks.workload import BUDGET, SYNCED, message, prose, questions
from strongroom.stemming import words

MEMORIES = int(os.environ.get("STRONGROOM_MEMORIES", pick(1_000_000, 4_000)))
MESSAGES = int(os.environ.get("STRONGROOM_MESSAGES", pick(10_000_000, 20_000)))
QUESTIONS = pick(200, 20)
STEP = 5_000
SMALL = 1_000
WAL = "the server's WAL, fsync on"
RELAXED = "WAL, synchronous=NORMAL, on both sides"
MEMORY = Peak()
T = TypeVar("T")


class Bare(Protocol):
    """An engine with nothing of ours around it."""

    name: str

    def insert(self, texts: list[str]) -> None: ...

    def ask(self, question: str) -> None: ...


class FTS5:
    name = "bare FTS5"

    def __init__(self, path: Path) -> None:
        self._con = apsw.Connection(str(path))
        self._con.execute("PRAGMA journal_mode = WAL").fetchall()
        self._con.execute("PRAGMA synchronous = NORMAL")
        self._con.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter')")

    def insert(self, texts: list[str]) -> None:
        with self._con:
            self._con.executemany("INSERT INTO t VALUES (?)", [(text,) for text in texts])

    def ask(self, question: str) -> None:
        wanted = " OR ".join(f'"{word}"' for word in question.split())
        self._con.execute("SELECT rowid, text FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10", (wanted,)).fetchall()


class GIN:
    name = "bare GIN"
    _SQL = """WITH asked AS (SELECT %s::tsquery AS q)
        SELECT id, text FROM t, asked WHERE words @@ q ORDER BY ts_rank(words, q) DESC LIMIT 10"""

    def __init__(self, url: str) -> None:
        self._con = psycopg.connect(url, autocommit=True)
        self._con.execute("CREATE TABLE t (id bigserial PRIMARY KEY, text text, words tsvector)")
        self._con.execute("CREATE INDEX ON t USING gin (words)")

    def insert(self, texts: list[str]) -> None:
        with self._con.cursor().copy("COPY t (text, words) FROM STDIN") as rows:
            for text in texts:
                rows.write_row((text, " ".join(sorted(set(words(text))))))

    def ask(self, question: str) -> None:
        self._con.execute(self._SQL, (" | ".join(words(question)),)).fetchall()


def measure() -> Iterator[Result]:
    for part in wanted(os.environ.get("STRONGROOM_MANY", "")):
        yield from PARTS[part]()
    peak = MEMORY.megabytes()
    yield figure("many", "peak memory, megabytes", peak, ours=f"{peak:.0f} MB", durability="all of the above")


def wanted(named: str) -> list[str]:
    """Return the parts to run, or raise: a name that is misspelt must not look like a part that was run."""
    if unknown := set(named.split()) - set(PARTS):
        raise ValueError(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return [part for part in PARTS if part in named.split() or not named.split()]


def sqlite_memories() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from many_memories("", folder / "memories.db", FTS5(folder / "bare-memories.db"), RELAXED)


def sqlite_messages() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from many_messages("", folder / "messages.db", FTS5(folder / "bare-messages.db"), RELAXED)
        yield from later(folder / "messages.db")


def postgres_memories() -> Iterator[Result]:
    with closing(PostgresServer()) as server:
        yield from many_memories("Postgres: ", server.new_database(), GIN(server.new_database()), WAL)


def postgres_messages() -> Iterator[Result]:
    with closing(PostgresServer()) as server:
        yield from many_messages("Postgres: ", server.new_database(), GIN(server.new_database()), WAL)


PARTS: dict[str, Callable[[], Iterator[Result]]] = {
    "sqlite-memories": sqlite_memories,
    "sqlite-messages": sqlite_messages,
    "postgres-memories": postgres_memories,
    "postgres-messages": postgres_messages,
}


def many_memories(where: str, address: Path | str, bare: Bare, durability: str) -> Iterator[Result]:
    with opened(address) as ctx:

        def write(texts: list[str]) -> None:
            for first in range(0, len(texts), 200):
                requests = [fact(text) for text in texts[first : first + 200]]
                ctx.memories.commit(ctx.memories.propose(requests, proposer="a").id, reviewer="b")

        def find(question: str) -> list[str]:
            return [hit.content for hit in ctx.memories.search(question, 10, mode="lexical")]

        texts = (f"{prose(number)} {number}" for number in range(MEMORIES))
        yield from built(f"{where}memories", bare, texts, MEMORIES, write, find, durability)


def many_messages(where: str, address: Path | str, bare: Bare, durability: str) -> Iterator[Result]:
    with opened(address) as ctx:
        small, large = ctx.sessions.open("small"), ctx.sessions.open("large")
        # The same newest messages, so the same window.
        small.append([{"role": "user", "content": prose(n)} for n in range(MESSAGES - SMALL, MESSAGES)])

        def write(texts: list[str]) -> None:
            large.append([{"role": "user", "content": text} for text in texts])

        def find(question: str) -> list[str]:
            return [str(hit.message.content) for hit in large.search(question, k=10)]

        texts = (prose(number) for number in range(MESSAGES))
        yield from built(f"{where}messages", bare, texts, MESSAGES, write, find, durability)


def later(path: Path) -> Iterator[Result]:
    """Ask whether a history of millions makes the next message or the next prompt slower."""
    with strongroom.open(path) as ctx:
        small, large = ctx.sessions.open("small"), ctx.sessions.open("large")
        note = f"{MESSAGES:,} messages and {SMALL:,}"
        pair = compare(lambda: large.append([message(1)]), lambda: small.append([message(1)]))
        yield pair.row("many", "append at 10,000,000 / at 1,000", durability=SYNCED, note=note)
        pair = compare(lambda: large.window(max_tokens=BUDGET), lambda: small.window(max_tokens=BUDGET))
        yield pair.row("many", "window at 10,000,000 / at 1,000", durability="a read", note=note)


def opened(address: Path | str) -> Any:
    return strongroom.open(address, durability="relaxed") if isinstance(address, Path) else strongroom.open(address)


def built(
    what: str,
    bare: Bare,
    texts: Iterator[str],
    size: int,
    write: Callable[[list[str]], None],
    find: Callable[[str], list[str]],
    durability: str,
) -> Iterator[Result]:
    """Fill both with the same texts in turn, then ask both the same questions in turn."""
    ours = theirs = 0.0
    done = 0
    while done < size:
        some = [next(texts) for _ in range(min(STEP, size - done))]
        begun = time.perf_counter()
        write(some)
        ours += time.perf_counter() - begun
        theirs += by_peer(bare.insert, some)
        done += len(some)
    begun = time.perf_counter()
    find("lake")  # takes into the index what is not there yet
    ours += time.perf_counter() - begun
    note = f"{size:,} {what.rpartition(' ')[2]}"
    values = {"ours": f"{ours:.0f} s", "peer": f"{theirs:.0f} s", "durability": durability, "note": note}
    yield figure("many", f"{what}, build and index / {bare.name}", ours / theirs, **values)
    write(["the quokka is found at once"])
    assert "the quokka is found at once" in find("quokka")
    mine, others = [], []
    for question in questions(QUESTIONS, SEED):
        begun = time.perf_counter()
        find(question)
        mine.append(time.perf_counter() - begun)
        others.append(by_peer(bare.ask, question))
    for told, place in (("p50", len(mine) // 2), ("p95", len(mine) * 95 // 100)):
        one, other = sorted(mine)[place], sorted(others)[place]
        values = {"ours": micro(one), "peer": micro(other), "durability": "a read", "note": note}
        yield figure("many", f"{what} by words, {told} / {bare.name}", one / other, **values)


def by_peer(work: Callable[[T], None], about: T) -> float:
    """Return how long a peer takes; what memory it takes meanwhile is not ours."""
    with MEMORY.of_a_peer():
        begun = time.perf_counter()
        work(about)
        return time.perf_counter() - begun
