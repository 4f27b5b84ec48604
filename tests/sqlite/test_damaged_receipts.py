"""A damaged record takes its receipt along: whoever may be repeating that commit is refused, everybody else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

import strongroom
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.errors import Damaged
from strongroom.store import Append, Commit, Delete, Entry, Key, Put, Range, ReceiptOf, ask, new_id

LOG, OTHER, NOTE = Key("ana", "log", "one"), Key("ana", "log", "two"), Key("ana", "note", "n")
BODY = "UPDATE record SET body = x'5b5d' WHERE pos = (SELECT ref << 32 FROM head WHERE id = 'one') + {index}"
ID = (
    "UPDATE record SET receipt = cast(x'{id}' || substr(receipt, 17) AS BLOB) "
    "WHERE pos = (SELECT ref << 32 FROM head WHERE id = 'one') + {index}"
)
GREATER, LESS = "ff" * 16, "00" * 16
TEXT = BODY.replace("body = x'5b5d'", "text = cast(x'74ff' AS TEXT)")
DAMAGE = pytest.mark.parametrize(
    "damage",
    [BODY, ID.replace("{id}", GREATER), ID.replace("{id}", LESS), TEXT],
    ids=["body", "greater id", "smaller id", "text that is none"],
)


def append(key: Key = LOG, id: str | None = None) -> Commit:
    return Commit(id or new_id(), (), (Append(key, (Entry("Note", encode(1), text="boat"),)),), b"what was asked..")


def note() -> Commit:
    return Commit(new_id(), (), (Put(NOTE, encode(1)),))


def spoil(path: Path, statement: str) -> None:
    with apsw.Connection(str(path)) as con:
        con.execute(statement)
        assert con.changes() == 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@contextmanager
def closed_after(path: Path, count: int) -> Iterator[list[Commit]]:
    """Give commits whose receipts lie in the records of one stream alone."""
    with SqliteStore(path) as store:
        store.commit(append(OTHER))
        made = [append() for _ in range(count)]
        for commit in made:
            store.commit(commit)
    yield made


def length(store: SqliteStore, key: Key = LOG) -> int:
    return ask(store, Range(key, 0, 0)).length


@DAMAGE
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_damaged_record_stops_no_writes_to_other_things(path: Path, damage: str, index: int) -> None:
    with closed_after(path, 3) as made:
        spoil(path, damage.format(index=index))
        for _ in range(2):  # also once it is noted
            with SqliteStore(path) as store:
                assert store.commit(append(OTHER)).versions[0] > 1
                store.commit(note())
                store.commit(append(Key("bob", "log", "one")))
                for place, commit in enumerate(made):
                    if place != index:
                        assert store.commit(commit).repeated and ask(store, ReceiptOf("ana", commit.id)) is not None


@DAMAGE
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_repeat_of_the_commit_whose_receipt_is_lost_is_refused_and_not_applied(
    path: Path, damage: str, index: int
) -> None:
    with closed_after(path, 3) as made:
        spoil(path, damage.format(index=index))
        for _ in range(2):
            with SqliteStore(path) as store:
                for _ in range(2):
                    with pytest.raises(Damaged):
                        store.commit(made[index])
                    store.commit(append(OTHER))
                assert length(store) == 3


@DAMAGE
@pytest.mark.parametrize("index", [0, 1, 2])
def test_whoever_asks_for_a_receipt_that_is_lost_is_told_once_that_is_noted(
    path: Path, damage: str, index: int
) -> None:
    with closed_after(path, 3) as made:
        spoil(path, damage.format(index=index))
        with SqliteStore(path) as store:
            store.commit(append(OTHER))
            with pytest.raises(Damaged):
                ask(store, ReceiptOf("ana", made[index].id))


def test_whoever_asks_for_the_receipt_of_a_record_that_is_damaged_is_told_at_once(path: Path) -> None:
    with closed_after(path, 3) as made:
        spoil(path, BODY.format(index=2))
        with SqliteStore(path) as store, pytest.raises(Damaged):
            ask(store, ReceiptOf("ana", made[2].id))


@DAMAGE
def test_whoever_asks_for_a_receipt_that_was_never_made_is_not_refused_for_a_damaged_one(
    path: Path, damage: str
) -> None:
    with closed_after(path, 3):
        spoil(path, damage.format(index=2))
        with SqliteStore(path) as store:
            for _ in range(3):  # before anybody noted what is damaged: readers cannot
                assert ask(store, ReceiptOf("ana", new_id())) is None
            store.commit(append(OTHER))
            assert ask(store, ReceiptOf("ana", new_id())) is None


@DAMAGE
def test_clients_of_a_server_go_on_beside_a_damaged_conversation(path: Path, damage: str) -> None:
    with strongroom.open(path) as ctx:
        for name in ("one", "two"):
            ctx.sessions.open(name).append({"role": "user", "content": "hi"})
        ctx.sessions.get("one").append({"role": "user", "content": "there"})
    spoil(path, damage.replace("id = 'one'", "id = 'one' AND kind = 'message'").format(index=1))
    with strongroom.open(path) as ctx:
        for _ in range(3):  # a client's operations have ids of ours, and are looked for before they are made
            ctx.sessions.get("two").append({"role": "user", "content": "again"}, commit_id=f"~{new_id()}")
        assert len(ctx.sessions.get("two")) == 4


def test_the_stream_goes_on_behind_a_damaged_record(path: Path) -> None:
    with closed_after(path, 3) as made:
        spoil(path, BODY.format(index=1))
        with SqliteStore(path) as store:
            assert store.commit(append()).versions == (4,)
            assert store.commit(append(id="mine")).versions == (5,)
        with SqliteStore(path) as store, pytest.raises(Damaged):
            store.commit(made[1])


def test_damage_that_comes_under_a_live_store_stops_nobody_else_either(path: Path) -> None:
    with SqliteStore(path) as store, SqliteStore(path) as other:
        store.commit(append(OTHER))
        lost = append()
        store.commit(lost)
        spoil(path, BODY.format(index=0))
        store.commit(append(OTHER))
        other.commit(append(OTHER))
        store.commit(append(OTHER))
        with pytest.raises(Damaged):
            other.commit(lost)
        assert length(store, OTHER) == 4


def test_what_the_stream_was_when_it_is_deleted_is_still_refused(path: Path) -> None:
    with closed_after(path, 1) as made:
        spoil(path, BODY.format(index=0))
        with SqliteStore(path) as store:
            store.commit(Commit(new_id(), (), (Delete(LOG),)))
            assert store.commit(append()).versions == (2,)
            with pytest.raises(Damaged):
                store.commit(made[0])
            assert length(store) == 2


def test_where_a_stream_begins_to_carry_need_not_be_known(path: Path) -> None:
    with closed_after(path, 2) as made:
        spoil(path, "UPDATE carrier SET start = start + 1")
        with SqliteStore(path) as store:
            assert [store.commit(commit).versions for commit in made] == [(1,), (2,)]
            assert store.commit(append(OTHER)).versions == (2,)


def test_who_commits_just_when_it_is_found_that_receipts_are_lost_anywhere_is_refused_once(path: Path) -> None:
    with closed_after(path, 2):
        spoil(path, "UPDATE carrier SET start = start + 1")
    with SqliteStore(path) as store, pytest.raises(Damaged):
        store.commit(append(OTHER))
    with SqliteStore(path) as store:
        assert store.commit(append(OTHER)).versions == (2,)


def flip(path: Path, what: str) -> None:
    """Flip one bit of the row that holds the second of four commits, or of the place that says which stream carries."""
    raw = bytearray(path.read_bytes())
    at = raw.index(b'Note"two"')
    header = raw.rindex(b"\x0d\x00", 0, at)  # how long it is, and NULL for the rowid
    if what == "the place of the record":
        raw[header - 5] ^= 1
    elif what == "a receipt that is text":
        raw[at - 1] ^= 1
    elif what == "columns that moved":
        raw[header + 8] ^= 0x80
    else:
        with apsw.Connection(str(path)) as con:
            (page,) = con.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'carrier'").fetchone() or (0,)
        base = (int(page) - 1) * 4096
        raw[base + int.from_bytes(raw[base + 8 : base + 10], "big") + 1] ^= 2
    path.write_bytes(raw)


FLIPS = ["the place of the record", "a receipt that is text", "columns that moved", "the stream that carries"]


@pytest.mark.parametrize("what", FLIPS)
@pytest.mark.parametrize("reopened", [False, True])
def test_a_flipped_bit_makes_no_repeat_count_twice_and_stops_no_other_tenant(
    path: Path, what: str, reopened: bool
) -> None:
    made = [
        Commit(new_id(), (), (Append(LOG, (Entry("Note", encode(name), text=None),)),), b"what was asked..")
        for name in ("one", "two", "six", "ten")
    ]
    with SqliteStore(path) as store:
        for commit in made:
            store.commit(commit)
    flip(path, what)
    with SqliteStore(path) as store, pytest.raises(Damaged):
        store.commit(made[1])
    if reopened:
        with SqliteStore(path) as store, pytest.raises(Damaged):
            store.commit(made[1])
    with SqliteStore(path) as store:
        for _ in range(2):
            store.commit(append(Key("bob", "log", "one")))
        assert length(store, Key("bob", "log", "one")) == 2


@pytest.mark.parametrize("name", ["''", "cast(x'74ff' AS TEXT)"])
def test_receipts_of_nobody_knows_whom_are_refused_and_stop_nobody_else(path: Path, name: str) -> None:
    with closed_after(path, 2) as made:
        spoil(path, f"UPDATE head SET id = {name} WHERE id = 'one'")
        with SqliteStore(path) as store:
            assert store.commit(append(OTHER)).versions == (2,)
            with pytest.raises(Damaged):
                ask(store, ReceiptOf("ana", made[0].id))
            assert ask(store, ReceiptOf("ana", "chosen by a caller")) is None


def test_what_is_lost_is_forgotten_when_receipts_of_its_kind_are(path: Path) -> None:
    with closed_after(path, 2) as made:
        spoil(path, BODY.format(index=0))
        with SqliteStore(path) as store:
            store.commit(append(OTHER))
            with pytest.raises(Damaged):
                ask(store, ReceiptOf("ana", made[0].id))
        spoil(path, "DELETE FROM receipt WHERE space > char(0x10fffd)")
        with SqliteStore(path) as store:
            assert ask(store, ReceiptOf("ana", made[0].id)) is None


def test_a_check_tells_of_the_record_and_of_nothing_that_was_noted(path: Path) -> None:
    with closed_after(path, 2):
        spoil(path, BODY.format(index=0))
        with SqliteStore(path) as store:
            store.commit(append(OTHER))
            assert store.check().problems == ("log 'one' in 'ana': record 0 does not match its checksum",)


def test_an_agent_goes_on_beside_a_damaged_conversation(path: Path) -> None:
    with strongroom.open(path) as ctx:
        for name in ("one", "two"):
            ctx.sessions.open(name).append({"role": "user", "content": "hi"})
            ctx.sessions.get(name).append({"role": "user", "content": "there"})
    spoil(path, BODY.replace("id = 'one'", "id = 'one' AND kind = 'message'").format(index=1))
    with strongroom.open(path) as ctx:
        ctx.sessions.get("two").append({"role": "user", "content": "again"})
        ctx.memories.add("likes tea")
        with pytest.raises(Damaged):
            ctx.sessions.get("one").append({"role": "user", "content": "again"})


def test_a_commit_that_cannot_have_been_carried_is_not_refused(path: Path) -> None:
    with closed_after(path, 2) as made:
        spoil(path, BODY.format(index=0))
        with SqliteStore(path) as store:
            assert store.commit(replace(append(), id=made[0].id, keep=True)).versions == (3,)
