"""Waiting for a stream to grow."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from strongroom.backends.postgres import AsyncPostgresStore, reads, watch
from strongroom.backends.postgres.address import parse
from strongroom.codec import encode
from strongroom.errors import Closed
from strongroom.store import Append, Commit, Entry, Key, new_id

LOG = Key("acme", "log", "a")


def append(key: Key = LOG) -> Commit:
    return Commit(new_id(), (), (Append(key, (Entry("note", encode(1)),)),))


def test_a_commit_elsewhere_wakes_the_waiter(
    connect: Callable[..., Any], postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strongroom.backends.postgres.core.POLL_SECONDS", 300.0)
    here, there = connect(postgres), connect(postgres)
    looked = threading.Event()
    answers = reads.answers

    def answered(*args: Any) -> list[Any]:
        looked.set()
        return answers(*args)

    monkeypatch.setattr(reads, "answers", answered)
    waiter = threading.Thread(target=here.wait, args=(LOG, 0, 300.0), daemon=True)
    waiter.start()
    assert looked.wait(60)  # it has found nothing, and will not look again unless it is told to
    while waiter.is_alive():  # the first notifications may come before it listens
        there.commit(append())
        waiter.join(0.05)


def test_without_a_waiter_nobody_is_notified(connect: Callable[..., Any], postgres: str) -> None:
    store = connect(postgres)
    with psycopg.connect(parse(postgres).conninfo, autocommit=True) as con:
        con.execute("LISTEN strongroom")
        store.commit(append())
        con.execute("NOTIFY strongroom, 'end'")
        assert [notification.payload for notification in con.notifies(stop_after=1)] == ["end"]


def test_a_notification_does_not_tell_the_name_of_a_key(connect: Callable[..., Any], postgres: str) -> None:
    store = connect(postgres)
    parsed = parse(postgres)
    with psycopg.connect(parsed.conninfo, autocommit=True) as con:
        con.execute("LISTEN strongroom")
        con.execute(f"SELECT {parsed.schema}.watch('acme', 'log', 'a', 60)")
        store.commit(append())
        (heard,) = con.notifies(stop_after=1)
    assert heard.payload == watch.channel(parsed.schema, LOG)
    assert "acme" not in heard.payload


def test_what_is_there_already_is_not_waited_for(connect: Callable[..., Any], postgres: str) -> None:
    store = connect(postgres)
    store.commit(append())
    store.wait(LOG, 0, 3600.0)


def test_waiting_ends_when_the_time_is_up(connect: Callable[..., Any], postgres: str) -> None:
    connect(postgres).wait(LOG, 0, 0.01)


async def test_whoever_waits_at_a_closed_store_is_refused_and_leaves_nobody_listening(postgres: str) -> None:
    store = await AsyncPostgresStore.open(postgres)
    await store.close()
    with pytest.raises(Closed):
        await store.wait(LOG, 0, 300.0)
    assert "strongroom-listen" not in {task.get_name() for task in asyncio.all_tasks()}
