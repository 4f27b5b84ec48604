"""Those who follow are woken by what concerns them, whoever wrote it, and by nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from strongroom.backends.sqlite import ReadOnlyStore, SqliteStore, watch
from strongroom.backends.sqlite.watch import Version, Watch
from strongroom.bridge import Threaded
from strongroom.bridge.stores import _ring
from strongroom.codec import encode
from strongroom.errors import Closed, Unavailable
from strongroom.store import Answer, AnyQuestion, Append, Commit, Entry, Key, Range, new_id

LOG, OTHER = Key("ana", "log", "one"), Key("ana", "log", "two")


def append(key: Key = LOG) -> Commit:
    return Commit(new_id(), (), (Append(key, (Entry("Note", encode(1)),)),))


async def test_a_commit_makes_nobody_read_who_waits_for_something_else(tmp_path: Path) -> None:
    class Counting(SqliteStore):
        def look(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
            if threading.current_thread() is here:
                looks.extend(one for one in questions if isinstance(one, Range) and one.key == OTHER)
            return super().look(questions)

    here, looks = threading.current_thread(), list[Range]()
    store = Threaded(Counting(tmp_path / "agent.db"))
    waiting = [asyncio.create_task(store.wait(OTHER, 0, 600)) for _ in range(20)]
    await asyncio.sleep(0)  # each has looked once, and waits
    for _ in range(20):
        await store.commit(append())
        await asyncio.sleep(0.002)  # for whoever would be woken; without it nothing is proved, and nothing fails
    assert len(looks) == 20
    async with asyncio.timeout(60):
        await store.commit(append(OTHER))
        await asyncio.gather(*waiting)
    await store.close()


@pytest.mark.parametrize("idle_seconds", [0.0, 5.0])
@pytest.mark.parametrize("read_only", [False, True])
async def test_the_commits_of_another_store_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool, idle_seconds: float
) -> None:
    monkeypatch.setattr(watch, "IDLE_SECONDS", idle_seconds)  # 0: a thread for each that waits, or the end of the last
    with SqliteStore(tmp_path / "agent.db") as writer:
        writer.commit(append())
        store = Threaded((ReadOnlyStore if read_only else SqliteStore)(tmp_path / "agent.db"))
        async with asyncio.timeout(60):
            for length in range(1, 11):
                waiting = asyncio.create_task(store.wait(LOG, length, 600))
                await asyncio.sleep(0)
                await asyncio.to_thread(writer.commit, append())
                await waiting
        await store.close()


def test_who_cannot_be_told_how_long_a_stream_is_looks_for_himself() -> None:
    woken = threading.Event()

    @contextmanager
    def versions() -> Iterator[Version]:
        yield lambda: 1

    def lengths(keys: Sequence[Key]) -> list[int]:
        raise Unavailable("away", reason="io")

    watching = Watch(versions, lengths)
    with watching.waiting(LOG, 0, woken.set):
        assert woken.wait(60)
    watching.stop()


def test_the_thread_looks_half_as_often_once_all_is_quiet() -> None:
    watching = Watch(_no_versions, lambda keys: [], 0.002)
    assert watching._pause_after(400) == 0.002
    assert watching._pause_after(600) == 0.004


@contextmanager
def _no_versions() -> Iterator[Version]:
    yield lambda: 1


def test_closing_ends_the_waiting(tmp_path: Path) -> None:
    def wait() -> None:
        with suppress(Closed):  # if it looks at that very moment
            store.wait(LOG, 0, 600)

    with closing(SqliteStore(tmp_path / "agent.db")) as store:
        waiting = threading.Thread(target=wait)
        waiting.start()
        while not store._watch._waiting:
            pass
    waiting.join(60)
    assert not waiting.is_alive()


async def test_a_loop_that_is_closed_harms_nobody_else(tmp_path: Path) -> None:
    closed = asyncio.new_event_loop()
    closed.close()
    with SqliteStore(tmp_path / "agent.db") as blocking:
        store = Threaded(blocking)
        with blocking.watching(LOG, 0, lambda: _ring(closed, asyncio.Event())):
            waiting = asyncio.create_task(store.wait(LOG, 0, 600))
            await asyncio.sleep(0)
            async with asyncio.timeout(60):
                await store.commit(append())
                await waiting
