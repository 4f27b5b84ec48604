"""What do the stores on a server cost, beside what a bare driver does and beside PostgresSaver; and moving to one?"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import DURABLE, ValkeyServer

import strongroom
from benchmarks.measuring import SECONDS, Curve, Pair, Result, compare, figure, median, pick, rate, seconds
from benchmarks.processes import MissingPeerError, Program, peak_megabytes
from benchmarks.workload import messages
from strongroom.backends.postgres import PostgresStore
from strongroom.backends.redis import RedisStore
from strongroom.backends.redis.encoding import Attempt, encode_commit, with_attempt
from strongroom.backends.redis.layout import Layout
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.copying import copy
from strongroom.stemming import words
from strongroom.store import Append, Commit, Entry, Find, Key, new_id

TEXT = "x" * 290
BODY = encode({"v": TEXT})
STREAM = Key("bench", "stream", "one")
CLIENTS = 32
BATCH = 100
DAY_SECONDS = 24 * 3600


RECORDS = pick(200_000, 20_000)
LOGGED, OFF, WAL = "appendfsync always, on both sides", "none (log off), on both sides", "the server's WAL, fsync on"
CROWDS = pick((1, 4, 16, 32), (1, 32))


def measure() -> Iterator[Result | Curve]:
    with ValkeyServer() as in_memory, ValkeyServer(*DURABLE) as durable:
        yield redis_commit(in_memory)
        yield redis_append(durable, in_memory)
        yield redis_appends(durable)
    postgres = PostgresServer()
    try:
        yield postgres_commit(postgres)
        yield from postgres_clients(postgres)
        yield from postgres_turn(postgres)
        yield postgres_words(postgres)
        with tempfile.TemporaryDirectory() as folder:
            yield from moving(Path(folder), postgres.new_database(), RECORDS)
    finally:
        postgres.close()


def append(key: Key = STREAM, count: int = 1) -> Commit:
    return Commit(new_id(), (), (Append(key, tuple(Entry("note", BODY, weight=5) for _ in range(count))),))


# ---- Redis ----------------------------------------------------------------------------------------------------------


def redis_commit(server: ValkeyServer) -> Result:
    call = with_attempt(encode_commit(Layout("bench"), append(), 0), Attempt(new_id(), "0" * 17, 1, False))
    with RedisStore(server.address()) as store, server.client() as client:
        empty = client.script_load("return 1")
        payload = (len(call.keys), *call.keys, *call.arguments)
        pair = compare(lambda: store.commit(append()), lambda: client.evalsha(empty, *payload))
    note = "a record of 300 bytes; the same keys and arguments on both sides"
    return pair.row("servers", "Redis: a commit, against EVALSHA of an empty script", durability=OFF, note=note)


class ChatHistory:
    """A client that counts, pushes and renews a time limit in three round trips, as chat histories on Redis do."""

    def __init__(self, server: ValkeyServer) -> None:
        self._client = server.client()

    def append(self) -> None:
        self._client.llen("history")
        self._client.rpush("history", BODY)
        self._client.expire("history", DAY_SECONDS)

    def close(self) -> None:
        self._client.close()


def thread_duel(server: ValkeyServer) -> Pair:
    with strongroom.open(server.address()) as ctx, closing(ChatHistory(server)) as peer:
        return compare(lambda: ctx.threads.append("one", TEXT, from_id="a", to_id="b"), peer.append)


def redis_append(durable: ValkeyServer, in_memory: ValkeyServer) -> Result:
    pair, unlogged = thread_duel(durable), thread_duel(in_memory)
    note = f"a message to a thread ({unlogged.peer / unlogged.ours:.2f} with the log off on both sides)"
    return pair.row("servers", "Redis: append, against three round trips", durability=LOGGED, note=note)


def redis_appends(server: ValkeyServer) -> Result:
    with strongroom.open(server.address()) as ctx, closing(ChatHistory(server)) as peer:
        texts = [TEXT] * BATCH
        pair = compare(lambda: ctx.threads.append_many("one", texts, from_id="a"), lambda: seconds(peer.append, BATCH))
    name = f"Redis: append {BATCH}, against three round trips each"
    return pair.row("servers", name, durability=LOGGED, note=f"{BATCH} messages in one commit")


# ---- Postgres -------------------------------------------------------------------------------------------------------


class Bare:
    """A psycopg connection that makes the same inserts, statement by statement, in a transaction."""

    def __init__(self, url: str) -> None:
        self._con = psycopg.connect(url, autocommit=True, prepare_threshold=0)
        self._con.execute("CREATE TABLE head (space text, kind text, id text, n bigint, PRIMARY KEY (space, kind, id))")
        self._con.execute(
            "CREATE TABLE record (space text, ref bigint, index bigint, weight bigint, at bigint, type text, "
            "body bytea, PRIMARY KEY (space, ref, index))"
        )
        self._con.execute("CREATE TABLE receipt (space text, id text, at timestamptz, PRIMARY KEY (space, id))")
        self._con.execute("INSERT INTO head VALUES ('bench', 'stream', 'one', 0)")

    def commit(self) -> None:
        with self._con.transaction():
            head = "UPDATE head SET n = n + 1 WHERE space = %s AND kind = %s AND id = %s RETURNING n"
            row: Any = self._con.execute(head, ("bench", "stream", "one")).fetchone()
            self._con.execute(
                "INSERT INTO record VALUES (%s, 1, %s, 5, 0, 'note', %s)", ("bench", row[0], bytes(BODY)), binary=True
            )
            self._con.execute("INSERT INTO receipt VALUES (%s, %s, now())", ("bench", new_id()))

    def close(self) -> None:
        self._con.close()


def postgres_commit(server: PostgresServer) -> Result:
    bare = Bare(server.new_database())
    with PostgresStore(server.new_database()) as store:
        pair = compare(lambda: store.commit(append()), bare.commit)
    bare.close()
    note = "a record of 300 bytes: counted, checked and receipted on both sides"
    return pair.row("servers", "Postgres: a commit, against bare psycopg", durability=WAL, note=note)


def postgres_clients(server: PostgresServer) -> Iterator[Result | Curve]:
    async def clients(url: str, number: int, seconds: float) -> float:
        async with strongroom.aopen(url, max_connections=CLIENTS) as ctx:

            async def client(place: int, end: float) -> int:
                session, done = await ctx.sessions.open(str(place)), 0
                while time.perf_counter() < end:
                    await session.append({"role": "user", "content": TEXT})
                    done += 1
                return done

            # Connects, and lets each connection's backend compile and plan, which it does once.
            await asyncio.gather(*(client(place, time.perf_counter() + seconds / 2) for place in range(number)))
            start = time.perf_counter()
            done = await asyncio.gather(*(client(place, start + seconds) for place in range(number)))
            return sum(done) / (time.perf_counter() - start)

    url = server.new_database()
    rounds = [[asyncio.run(clients(url, number, SECONDS / 4)) for number in CROWDS] for _ in range(3)]
    rates = [median(list(found)) for found in zip(*rounds, strict=True)]
    told = {"ours": rate(rates[-1]), "peer": rate(rates[0])}
    ratios = [found[-1] / found[0] for found in rounds]
    yield figure(
        "servers",
        "Postgres: 32 tasks / one",
        ratios,
        durability=WAL,
        note="session.append, each its own session",
        **told,
    )
    yield Curve("clients", "tasks, Postgres", list(zip(map(float, CROWDS), rates, strict=True)))


def postgres_turn(server: PostgresServer, turns: int = 300) -> Iterator[Result]:
    ours, theirs = server.new_database(), server.new_database()
    try:
        with (
            Program("langgraph:postgres", peer=True, url=theirs, length=2 * turns) as peer,
            Program("ours:conversation", address=ours, length=2 * turns) as program,
        ):
            pair = compare(program.timed("turn"), peer.timed("turn"), timed=True)
    except MissingPeerError as missing:
        print(missing)
        return
    yield pair.row("servers", "Postgres: a turn after 300, against PostgresSaver", durability=WAL)


def postgres_words(server: PostgresServer, size: int = pick(20_000, 2_000)) -> Result:
    """The same texts, stemmed by us, in a table of their own with a GIN index, ranked by Postgres."""
    texts = [one["content"] for one in messages(0, size)]
    url = server.new_database()
    with PostgresStore(url) as store, psycopg.connect(server.new_database(), autocommit=True) as con:
        for start in range(0, size, 1000):
            entries = tuple(Entry("note", BODY, text=text) for text in texts[start : start + 1000])
            store.commit(Commit(new_id(), (), (Append(STREAM, entries),)))
        con.execute("CREATE TABLE t (id bigserial PRIMARY KEY, text text, words tsvector)")
        with con.cursor().copy("COPY t (text, words) FROM STDIN") as rows:
            for text in texts:
                rows.write_row((text, " ".join(sorted(set(words(text))))))
        con.execute("CREATE INDEX ON t USING gin (words)")
        con.execute("ANALYZE t")
        wanted = tuple(words("early summer 77"))
        sql = "SELECT id, text FROM t WHERE words @@ q ORDER BY ts_rank(words, q) DESC LIMIT 10"
        bare = f"WITH asked AS (SELECT %s::tsquery AS q) {sql.replace('FROM t', 'FROM t, asked')}"
        pair = compare(
            lambda: store.search(Find("bench", "stream", wanted, "one", limit=500)),
            lambda: con.execute(bare, (" | ".join(wanted),)).fetchall(),
        )
    note = f"{size:,} texts, three words; ours returns 500 candidates to rank, the peer ranks and returns 10"
    return pair.row("servers", "Postgres: words, p50 / bare GIN", durability="a read", note=note)


# ---- moving ---------------------------------------------------------------------------------------------------------


def moving(folder: Path, url: str, records: int) -> Iterator[Result]:
    """Copy a file to Postgres. A small copy first, so that only what grows with the content counts as memory."""
    sizes = [records // 20, records]
    took, peaks = [], []
    for place, size in enumerate(sizes):
        with SqliteStore(folder / f"{place}.db", durability="relaxed") as source:
            for _ in range(size // 1000):
                source.commit(append(count=1000))
            with PostgresStore(f"{url}?schema=copy{place}") as target:
                took.append(seconds(lambda source=source, target=target: copy(source, target), 1))
        peaks.append(peak_megabytes())
    grown = peaks[1] - peaks[0]
    note = f"{records:,} records from SQLite to Postgres, both then read again and compared"
    name = "copy to Postgres, megabytes more than a small one"
    yield figure(
        "servers", name, grown, ours=f"{peaks[1]:.0f} MB", peer=f"{peaks[0]:.0f} MB", durability=WAL, note=note
    )
    speed = [size / seconds for size, seconds in zip(sizes, took, strict=True)]
    told = {"ours": rate(speed[1]), "peer": rate(speed[0])}
    name = "copy to Postgres, large against small"
    yield figure("servers", name, speed[1] / speed[0], durability=WAL, note=note, **told)
