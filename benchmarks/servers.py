"""The stores on a server beside what a bare driver does, and moving everything from a file to a server."""

from __future__ import annotations

import asyncio
import os
import resource
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
from benchmarks.measuring import Result, duel, micro, rate, seconds
from strongroom.backends.postgres import AsyncPostgresStore, PostgresStore
from strongroom.backends.redis import RedisStore
from strongroom.backends.redis.encoding import Attempt, encode_commit, with_attempt
from strongroom.backends.redis.layout import Layout
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.copying import copy
from strongroom.store import Append, Commit, Entry, Key, new_id

TEXT = "x" * 290
BODY = encode({"v": TEXT})
STREAM = Key("bench", "stream", "one")
CLIENTS = 32
BATCH = 100
DAY_SECONDS = 24 * 3600


def measure(records: int = int(os.environ.get("STRONGROOM_RECORDS", 1_000_000))) -> Iterator[Result]:
    with ValkeyServer() as in_memory, ValkeyServer(*DURABLE) as durable:
        yield redis_commit(in_memory)
        yield redis_append(durable, in_memory)
        yield redis_appends(durable)
    postgres = PostgresServer()
    try:
        yield postgres_commit(postgres)
        yield postgres_clients(postgres)
        with tempfile.TemporaryDirectory() as folder:
            yield from moving(Path(folder), postgres.new_database(), records)
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
        ours, theirs = duel(lambda: store.commit(append()), lambda: client.evalsha(empty, *payload), 1500)
    note = "a 300-byte record, beside EVALSHA of an empty script with the same keys and arguments; log off"
    return Result("Redis: one commit", theirs / ours, 0.6, ours=micro(ours), peer=micro(theirs), note=note)


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


def thread_duel(server: ValkeyServer) -> tuple[float, float]:
    with strongroom.open(server.address()) as ctx, closing(ChatHistory(server)) as peer:
        return duel(lambda: ctx.threads.append("one", TEXT, from_id="a", to_id="b"), peer.append, 300)


def redis_append(durable: ValkeyServer, in_memory: ValkeyServer) -> Result:
    ours, theirs = thread_duel(durable)
    fast, slow = thread_duel(in_memory)
    note = f"a message to a thread; appendfsync always on both sides ({slow / fast:.2f} with the log off)"
    return Result("Redis: append", theirs / ours, 1.8, ours=micro(ours), peer=micro(theirs), note=note)


def redis_appends(server: ValkeyServer) -> Result:
    with strongroom.open(server.address()) as ctx, closing(ChatHistory(server)) as peer:
        texts = [TEXT] * BATCH
        ours, theirs = duel(
            lambda: ctx.threads.append_many("one", texts, from_id="a"), lambda: seconds(peer.append, BATCH), 10
        )
    note = f"{BATCH} messages in one commit; appendfsync always on both sides"
    return Result(f"Redis: append {BATCH}", theirs / ours, 15, ours=micro(ours), peer=micro(theirs), note=note)


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
        ours, theirs = duel(lambda: store.commit(append()), bare.commit, 300)
    bare.close()
    note = "a 300-byte record: counted, checked and receipted on both sides, each commit synced to disk"
    return Result("Postgres: one commit", theirs / ours, 0.7, ours=micro(ours), peer=micro(theirs), note=note)


def postgres_clients(server: PostgresServer) -> Result:
    async def clients(url: str, number: int, each: int) -> float:
        async with await AsyncPostgresStore.open(url, max_connections=CLIENTS) as store:

            async def client(place: int, times: int) -> None:
                for _ in range(times):
                    await store.commit(append(Key("bench", "task", str(place))))

            # Connects, and lets each connection's backend compile and plan, which it does once.
            await asyncio.gather(*(client(place, 30) for place in range(number)))
            start = time.perf_counter()
            await asyncio.gather(*(client(place, each) for place in range(number)))
            return number * each / (time.perf_counter() - start)

    url = server.new_database()
    pairs = [(asyncio.run(clients(url, CLIENTS, 100)), asyncio.run(clients(url, 1, 300))) for _ in range(5)]
    many, one = sorted(pairs, key=lambda pair: pair[0] / pair[1])[len(pairs) // 2]
    note = "each client writes its own stream"
    return Result(f"Postgres: {CLIENTS} tasks against one", many / one, 2.0, ours=rate(many), peer=rate(one), note=note)


# ---- moving ---------------------------------------------------------------------------------------------------------


def moving(folder: Path, url: str, records: int) -> Iterator[Result]:
    """Copy a file to Postgres. A small copy first, so that only what grows with the content counts as memory."""
    sizes = [10_000, records]
    took, peaks = [], []
    for place, size in enumerate(sizes):
        with SqliteStore(folder / f"{place}.db", durability="relaxed") as source:
            for _ in range(size // 1000):
                source.commit(append(count=1000))
            with PostgresStore(f"{url}?schema=copy{place}") as target:
                took.append(seconds(lambda source=source, target=target: copy(source, target), 1))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    grown = peaks[1] - peaks[0]
    note = f"{records:,} records from SQLite to Postgres, both then read again and compared"
    yield Result("copy, megabytes more", grown, 64, at_most=True, ours=f"{peaks[1]:.0f} MB", note=note)
    speed = [size / seconds for size, seconds in zip(sizes, took, strict=True)]
    yield Result("copy, large against small", speed[1] / speed[0], 0.7, ours=rate(speed[1]), peer=rate(speed[0]))


if __name__ == "__main__":
    for result in measure():
        print(result)
