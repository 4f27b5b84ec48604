"""What is wanted: every goal of every figure, in one place. A figure without a goal cannot be made.

`at_least` is how many times faster or better than the peer; `at_most` how many times slower, or a plain amount.
"""

from __future__ import annotations

from msgspec import Struct


class Goal(Struct, frozen=True):
    value: float
    at_most: bool


def at_least(value: float) -> Goal:
    return Goal(value, False)


def at_most(value: float) -> Goal:
    return Goal(value, True)


FLAT = at_most(0.05)  # the exponent of a cost that does not grow

GOALS: dict[str, dict[str, Goal]] = {
    "startup": {
        "import strongroom / import sqlite3, json, asyncio": at_most(1.3),
        "strongroom --help / an empty program": at_most(3),
        "open a large file, milliseconds": at_most(50),
    },
    "commits": {
        "a record, against bare apsw": at_least(0.8),
        "session.append, against bare apsw": at_least(0.6),
        "Get / the bare SELECT": at_most(4),
        "Tail of 10 / the bare SELECT": at_most(4),
        "the blocking bridge / blocking code by hand": at_most(1.5),
        "a slot in process, against ContextBuffer": at_least(1),
        "the same through strongroom.compat": at_least(1),
        "append to an empty session, against ContextStore": at_least(5),
        "append at 1,000 messages, against ContextStore": at_least(20),
        "append at 10,000 messages, against ContextStore": at_least(100),
        "load the last 10 of 10,000, against ContextStore": at_least(50),
    },
    "clients": {
        "32 tasks / one": at_least(4),
        "32 threads / one": at_least(3),
        "32 tasks / one, each fsync 2 ms longer": at_least(20),
        "32 threads / one, each fsync 2 ms longer": at_least(15),
        "fsyncs a commit, 32 tasks": at_most(0.1),
        "fsyncs a commit, 32 threads": at_most(0.1),
        "8 processes / one": at_least(0.7),
    },
    "growth": {
        "append": FLAT,
        "load the last 10": FLAT,
        "window of 4,000 tokens": FLAT,
        "prompt of 4,000 tokens": FLAT,
        "update a run": FLAT,
        "record an event": FLAT,
        "search the memories of one owner": FLAT,
    },
    "neighbours": {
        "open a session among many": FLAT,
        "append among many sessions": FLAT,
        "window among many sessions": FLAT,
        "append among many spaces": FLAT,
    },
    "largest": {
        "open a session among many": FLAT,
        "append among many sessions": FLAT,
        "window among many sessions": FLAT,
        "append": FLAT,
        "load the last 10": FLAT,
        "window of 4,000 tokens": FLAT,
    },
    "sessions": {
        "a turn after 300, SQLiteSession, as many items": at_least(1),
        "a turn after 300, SQLiteSession, all items": at_least(1),
        "a turn after 300, SqliteSaver": at_least(1),
        "a turn after 300, ADK's SqliteSessionService": at_least(1),
        "a turn after 300, LlamaIndex's SQLAlchemyChatStore": at_least(1),
        "a turn after 10,000, SQLiteSession, as many items": at_least(1),
        "a turn after 10,000, SQLiteSession, all items": at_least(10),
        "a turn after 10,000, SqliteSaver": at_least(10),
        "a turn after 10,000, ADK's SqliteSessionService": at_least(10),
        "a turn after 10,000, LlamaIndex's SQLAlchemyChatStore": at_least(10),
    },
    "turns": {
        "a turn of five parts / one append": at_most(1.5),
        "five calls / a turn of five parts": at_least(2),
    },
    "runs": {
        "update, against the older file protocol": at_least(3),
        "record at 10,000 events, against the older file protocol": at_least(10),
        "10,000 updates, megabytes": at_most(10),
    },
    "http": {
        "PATCH, one client, against the older server": at_least(2.5),
        "PATCH, 4 clients, against the older server": at_least(3),
        "PATCH, 64 clients, against the older server": at_least(8),
        "GET, against a bare ASGI route": at_least(0.4),
        "64 clients / one": at_least(1.5),
        "64 clients / one, each fsync 2 ms longer": at_least(10),
        "64 clients, two workers / one": at_least(1.6),
        "64 clients, four workers / one": at_least(1.6),
    },
    "idle": {
        "a server with 1,000 followers and no news, % of a core": at_most(1),
        "a worker among 100,000 threads / among 10": at_most(1.5),
    },
    "servers": {
        "Redis: a commit, against EVALSHA of an empty script": at_least(0.6),
        "Redis: append, against three round trips": at_least(1.8),
        "Redis: append 100, against three round trips each": at_least(15),
        "Postgres: a commit, against bare psycopg": at_least(0.6),
        "Postgres: 32 tasks / one": at_least(2),
        "Postgres: a turn after 300, against PostgresSaver": at_least(1),
        "Postgres: words, p50 / bare GIN": at_most(4),
        "copy to Postgres, megabytes more than a small one": at_most(64),
        "copy to Postgres, large against small": at_least(0.7),
    },
    "search": {
        "first search after many appends, seconds of the longest call": at_most(1),
        "peak memory of that process, megabytes": at_most(200),
        "p50 / plain BM25 of the same engine": at_most(4),
        "p50 / bare FTS5 with bm25()": at_most(10),
        "memories by words, p50 / bare FTS5 with bm25()": at_most(10),
        "memories by vectors / numpy": at_most(1.3),
    },
    "memories": {
        "add, against mem0 on Qdrant local (infer=False)": at_least(1),
        "search, against mem0 on Qdrant local": at_least(1),
        "vectors, against ContextStore": at_least(10),
        "a batch of 100 / a record": at_most(15),
        "a batch of 100 / a batch of one": at_most(15),
    },
    "threads": {
        "follow in another process, milliseconds to wake": at_most(5),
        "CPU-bound messages, two processes / one": at_least(1.5),
        "a CPU-bound message, milliseconds of dispatch": at_most(20),
        "start two worker processes, seconds": at_most(10),
    },
    "disk": {
        "bytes on disk per byte of text": at_most(2),
        "bytes on disk per byte of text, searchable": at_most(2),
        "SQLiteSession's bytes / ours": at_least(1),
        "SqliteSaver's bytes after 300 turns / ours": at_least(10),
    },
    "adapters": {
        "LangGraph, SQLite: bytes on disk per byte of text at 10": at_least(0.5),
        "LangGraph, SQLite: bytes on disk per byte of text at 300": at_least(30),
        "LangGraph, SQLite: bytes on disk per byte of text, 300 steps of an agent's loop": at_least(30),
        "LangGraph, SQLite: a superstep at 10": at_least(1),
        "LangGraph, SQLite: a superstep at 300": at_least(1.5),
        "LangGraph, SQLite: a superstep at 10,000": at_least(10),
        "LangGraph, SQLite: get latest at 10": at_least(1),
        "LangGraph, SQLite: get latest at 300": at_least(1),
        "LangGraph, SQLite: get latest at 10,000": at_least(1),
        "LangGraph, SQLite: list 10 at 10": at_least(1),
        "LangGraph, SQLite: list 10 at 300": at_least(1),
        "LangGraph, SQLite: list 10 at 10,000": at_least(1),
        "LangGraph store, SQLite: newest 10 of 1,000": at_least(1),
        "LangGraph store, SQLite: newest 10 of 10,000": at_least(1),
        "LangGraph store, SQLite: an update": at_least(0.7),
        "LangGraph, Postgres: bytes on disk per byte of text at 300": at_least(1),
        "LangGraph, Postgres: a superstep at 300": at_least(1),
        "LangGraph, Postgres: a superstep at 10,000": at_least(10),
        "LangGraph, Postgres: get latest at 300": at_least(1),
        "LangGraph, Postgres: get latest at 10,000": at_least(1),
        "LangGraph, Postgres: list 10 at 300": at_least(1),
        "LangGraph, Postgres: list 10 at 10,000": at_least(1),
        "LangGraph store, Postgres: newest 10 of 1,000": at_least(1),
        "LangGraph store, Postgres: newest 10 of 10,000": at_least(1),
        "LangGraph store, Postgres: an update": at_least(0.7),
        "OpenAI Agents, SQLite: a turn at 10": at_least(1),
        "OpenAI Agents, SQLite: a turn at 300": at_least(1),
        "OpenAI Agents, SQLite: a turn at 10,000": at_least(1),
        "OpenAI Agents, SQLite: all items of 10": at_least(1),
        "OpenAI Agents, SQLite: all items of 300": at_least(1),
        "OpenAI Agents, SQLite: all items of 10,000": at_least(1),
        "ADK, SQLite: bytes on disk per byte of text at 10": at_least(0.5),
        "ADK, SQLite: bytes on disk per byte of text at 300": at_least(1),
        "ADK, SQLite: append an event at 10": at_least(4),
        "ADK, SQLite: append an event at 300": at_least(4),
        "ADK, SQLite: append an event at 10,000": at_least(4),
        "ADK, SQLite: get the newest 20 at 10": at_least(1),
        "ADK, SQLite: get the newest 20 at 300": at_least(1),
        "ADK, SQLite: get the newest 20 at 10,000": at_least(1),
    },
    "encryption": {
        "a durable commit, against plain": at_least(0.8),
        "Get, against plain": at_least(0.8),
        "Tail of 10, against plain": at_least(0.8),
        "a search, against plain": at_least(0.8),
        "opening with a passphrase, milliseconds": at_most(150),
        "opening with 32 bytes, milliseconds more than plain": at_most(5),
    },
    "recall": {
        "evidence recall@10, words alone": at_least(0.80),
        "evidence recall@10, words alone, as memories": at_least(0.80),
        "evidence recall@10, words and wordllama": at_least(0.825),
    },
    "comparing": {
        "session.append": at_least(0.95),
        "session.window": at_least(0.95),
        "session.search": at_least(0.95),
        "run.update": at_least(0.95),
        "run.record": at_least(0.95),
        "memories.propose + commit": at_least(0.95),
        "a slot in process": at_least(0.95),
        "a commit of the store": at_least(0.95),
    },
    "many": {
        "memories by words, p50 / bare FTS5": at_most(1.5),
        "memories by words, p95 / bare FTS5": at_most(5),
        "messages by words, p50 / bare FTS5": at_most(1.5),
        "messages by words, p95 / bare FTS5": at_most(5),
        "Postgres: memories by words, p50 / bare GIN": at_most(1.5),
        "Postgres: memories by words, p95 / bare GIN": at_most(5),
        "Postgres: messages by words, p50 / bare GIN": at_most(1.5),
        "Postgres: messages by words, p95 / bare GIN": at_most(5),
        "memories, build and index / bare FTS5": at_most(20),
        "messages, build and index / bare FTS5": at_most(5),
        "Postgres: memories, build and index / bare GIN": at_most(20),
        "Postgres: messages, build and index / bare GIN": at_most(5),
        "append at 10,000,000 / at 1,000": at_most(1.3),
        "window at 10,000,000 / at 1,000": at_most(1.3),
        "peak memory, megabytes": at_most(400),
    },
}


def goal(question: str, name: str) -> Goal:
    """Return the goal of a figure."""
    return GOALS[question][name]
