"""A repeated commit gets its first answer, also while the receipt lies in the record it wrote."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore, committer, receipts
from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.store import (
    EXISTS,
    Answer,
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Durability,
    Entry,
    Erase,
    Expect,
    Find,
    Key,
    Put,
    Range,
    Receipt,
    ReceiptOf,
    Truncate,
    ask,
    ask_all,
    new_id,
)
from strongroom.testing.machine import store_machine
from tests.crash.processes import apart, forked

LOG, OTHER, NOTE = Key("ana", "log", "one"), Key("ana", "log", "two"), Key("ana", "note", "n")


DIGEST = b"what was asked.."


def append(key: Key = LOG, entries: int = 1, id: str | None = None, digest: bytes = DIGEST) -> Commit:
    append = Append(key, tuple(Entry("Note", encode(n), text="boat") for n in range(entries)))
    return Commit(id or new_id(), (), (append,), digest)


def again(receipt: Receipt) -> Receipt:
    return replace(receipt, repeated=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        store.commit(append())  # the first transaction does not know yet whether somebody else writes
        yield store


def filed(path: Path) -> set[str]:
    con = apsw.Connection(str(path))
    try:
        return {id for (id,) in con.execute("SELECT id FROM receipt")}
    finally:
        con.close()


def several() -> Commit:
    return Commit(new_id(), (), (Put(NOTE, encode(1)), *append(OTHER).writes, *append(LOG, 2).writes), DIGEST)


def plain() -> Commit:
    return append(digest=b"")


@pytest.mark.parametrize("make", [append, several, plain])
def test_a_commit_that_ends_with_an_append_leaves_its_receipt_there(
    store: SqliteStore, path: Path, make: Callable[[], Commit]
) -> None:
    commit = make()
    store.commit(commit)
    assert commit.id not in filed(path)


def test_messages_and_events_without_an_id_of_the_caller_carry_their_receipts(path: Path) -> None:
    with strongroom.open(path) as ctx:
        chat, run = ctx.sessions.open("chat"), ctx.runs.create(objective="x")
        before = filed(path)
        chat.append({"role": "user", "content": "hi"})
        chat.append([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
        run.record("TOOL_CALL", {"tool_name": "f", "arguments": {}})
        assert filed(path) == before
        chat.append({"role": "user", "content": "hi"}, commit_id="mine")
        assert len(filed(path)) > len(before)


AT_ONCE: dict[str, Callable[[], Commit]] = {
    "a document last": lambda: Commit(new_id(), (), (*append(LOG).writes, Put(NOTE, encode(1))), DIGEST),
    "nothing written": lambda: Commit(new_id(), (Expect(LOG, EXISTS),), (), DIGEST),
    "a word": lambda: append(id="a word"),
    "upper case": lambda: append(id="f" * 31 + "F"),
    "a blank": lambda: append(id=" " + "f" * 31),
    "not the newest": lambda: append(id="0" * 32),
    "an answer": lambda: replace(append(), answer=encode("told")),
    "an id that a caller chose": lambda: replace(append(), keep=True),
    "a digest of another length": lambda: append(digest=b"odd"),
    "several writes and no digest": lambda: replace(several(), digest=b""),
}


@pytest.mark.parametrize("make", AT_ONCE.values(), ids=AT_ONCE)
def test_any_other_receipt_is_filed_at_once(store: SqliteStore, path: Path, make: Callable[[], Commit]) -> None:
    commit = make()
    store.commit(commit)
    assert commit.id in filed(path)


def test_receipts_are_filed_now_and_then(store: SqliteStore, path: Path) -> None:
    commit = append()
    store.commit(commit)
    for _ in range(committer.SWEEP_EVERY):
        store.commit(append(OTHER))
    assert commit.id in filed(path)


# ---- whatever happens in between ------------------------------------------------------------------------------------


def _another_store(store: SqliteStore) -> None:
    with SqliteStore(store.path) as other:
        other.commit(append(OTHER))


def _a_refusal(store: SqliteStore) -> None:
    with pytest.raises(Exception, match="document"):
        store.commit(Commit("0" * 31 + "1", (), (Put(LOG, encode(1)),)))


BETWEEN: dict[str, Callable[[SqliteStore], object]] = {
    "nothing": lambda store: None,
    "another append": lambda store: store.commit(append()),
    "another stream": lambda store: store.commit(append(OTHER, 3)),
    "another store": _another_store,
    "a refusal after looking it up": _a_refusal,
    "truncated": lambda store: store.commit(Commit(new_id(), (), (Truncate(LOG, 100),))),
    "deleted": lambda store: store.commit(Commit(new_id(), (), (Delete(LOG),))),
    "erased": lambda store: store.commit(Commit(new_id(), (), (Erase(LOG, 0, 100),))),
    "searched": lambda store: store.search(Find("ana", "log", ("boat",))),
    "compacted": lambda store: store.compact(),
    "many": lambda store: [store.commit(append(OTHER)) for _ in range(2 * committer.SWEEP_EVERY)],
}


@pytest.mark.parametrize(
    "make", [append, lambda: append(entries=3), several, plain], ids=["one", "three", "several", "plain"]
)
@pytest.mark.parametrize("between", BETWEEN)
def test_a_repeat_gets_the_first_answer(store: SqliteStore, between: str, make: Callable[[], Commit]) -> None:
    commit = make()
    first = store.commit(commit)
    BETWEEN[between](store)
    length = ask(store, Range(LOG, 0, 0)).length
    assert ask(store, ReceiptOf("ana", commit.id)) == again(first)
    assert store.commit(commit) == again(first)
    with pytest.raises(InvalidInput, match="used before"):
        store.commit(replace(commit, digest=b"something else.."))
    assert ask(store, Range(LOG, 0, 0)).length == length


@pytest.mark.parametrize("between", BETWEEN)
def test_another_process_that_repeats_it_gets_the_first_answer(store: SqliteStore, between: str) -> None:
    commit = append()
    first = store.commit(commit)
    BETWEEN[between](store)
    with SqliteStore(store.path) as other:
        assert ask(other, ReceiptOf("ana", commit.id)) == again(first)
        assert other.commit(commit) == again(first)


def test_a_repeat_gets_the_first_answer_after_opening_again(path: Path) -> None:
    commits = [append() for _ in range(5)]
    with SqliteStore(path) as store:
        answers = [store.commit(commit) for commit in commits]
    with SqliteStore(path) as store:
        assert ask_all(store, [ReceiptOf("ana", commit.id) for commit in commits]) == [*map(again, answers)]
        assert [store.commit(commit) for commit in commits] == [*map(again, answers)]
        assert store.check().ok


def test_without_filing_a_repeat_would_be_applied_twice(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts.Receipts, "file", lambda self: None)
    commit = append()
    first = store.commit(commit)
    store.commit(append())
    assert store.commit(commit) != again(first)


# ---- two stores on one file are one store ---------------------------------------------------------------------------


class Pair:
    """Two stores on one file, used in turn, as two processes would."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, "agent.db")
        self.stores = [SqliteStore(path, durability="relaxed") for _ in range(2)]
        self.turn = 0

    @property
    def durability(self) -> Durability:
        return self.stores[0].durability

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return self.stores[0].read(questions)

    def commit(self, commit: Commit) -> Receipt:
        self.turn += 1
        return self.stores[self.turn % 7 // 5].commit(commit)  # long enough alone for receipts to stay in records

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self.folder.cleanup()


def test_two_stores_on_one_file_behave_as_one() -> None:
    machine = store_machine(MemoryStore, Pair)
    run_state_machine_as_test(machine, settings=settings(max_examples=20, stateful_step_count=40, deadline=None))


# ---- kill -9 --------------------------------------------------------------------------------------------------------


def _campaign(path: Path, kills: int) -> int:
    """Kill a writer again and again while it appends; return how many appends were repeated and found answered."""
    ids = [f"{number:032x}" for number in range(1, 100_000)]
    told = path.with_name("told")
    done = 0
    for _ in range(kills):
        told.write_bytes(b"")
        writer = forked(_append_from, path, ids, done, told)
        while not told.stat().st_size:  # it takes a while to open the store
            time.sleep(0.001)
        time.sleep(0.01)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        acknowledged = done + len(told.read_bytes())
        with SqliteStore(path) as store:
            length = ask(store, Range(LOG, 0, 0)).length
            assert acknowledged <= length <= acknowledged + 1
            for number in range(max(0, length - 30), length + 1):
                assert store.commit(append(id=ids[number])).versions == (number + 1,)
            done = ask(store, Range(LOG, 0, 0)).length
            assert done == length + 1
    return done


def _append_from(path: Path, ids: list[str], start: int, told: Path) -> None:
    with SqliteStore(path) as store, told.open("ab", buffering=0) as file:
        for id in ids[start:]:
            store.commit(append(id=id))
            file.write(b".")


def test_killed_at_any_moment_a_repeat_is_applied_once(path: Path) -> None:
    assert apart(_campaign, path, 15) > 45


def test_a_damaged_head_does_not_keep_the_receipts_that_its_records_carry_from_anybody(path: Path) -> None:
    with SqliteStore(path) as store:
        store.commit(append(OTHER))
        first = store.commit(commit := append())
    with apsw.Connection(str(path)) as con:
        assert con.execute("SELECT count(*) FROM carrier").fetchall() == [(1,)]
        con.execute("UPDATE head SET sum = sum + 1 WHERE id = 'one'")
    with SqliteStore(path) as store:
        assert store.commit(commit) == again(first)
        assert store.commit(append(OTHER)).versions == (2,)
