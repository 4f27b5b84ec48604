"""Everything can be moved from any store to any other: resumable, verified, and with little memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import strongroom
from strongroom import copying
from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore
from strongroom.bridge import OnLoop
from strongroom.codec import encode
from strongroom.copying import copy, survey
from strongroom.errors import Conflict, InvalidInput, StoreError, Unavailable
from strongroom.opening import open_store
from strongroom.store import (
    EXPORT_BYTES,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    ExportItem,
    Get,
    Key,
    Put,
    Range,
    Scan,
    Truncate,
    Write,
    new_id,
)
from strongroom.unfinished import is_unfinished, refuse_unfinished, refuse_unfinished_async
from tests.conftest import STORES
from tests.servers.postgres import fresh_schema

SPACES = ("acme", "zeta{x}", "ünï")


def history(space: str) -> Iterator[tuple[Write, ...]]:
    """One of everything, in one space."""
    log, gone, dead = Key(space, "log", "long"), Key(space, "log", "gone"), Key(space, "doc", "dead")
    for n in range(12):
        entry = Entry("note", encode([space, n]), n, n, "from", "to", f"apple {n}", bytes([n]) * 32)
        yield Append(log, (entry, Entry("n", encode(n)))), Put(Key(space, "doc", f"d{11 - n}"), encode(n), {"n": "1"})
    yield Truncate(log, 5), Erase(log, 8, 10), Append(gone, (Entry("t", encode(1)),)), Put(dead, encode("secret"))
    yield Delete(gone), Delete(dead)


def fill(store: Any) -> None:
    for space in SPACES:
        for writes in history(space):
            store.commit(Commit(new_id(), (), writes))


def contents(store: Any) -> list[Any]:
    found: list[Any] = []
    for space in SPACES:
        scans = [Scan(space, "doc"), Scan(space, "doc", {"n": "1"}, reverse=True)]
        found += [page.documents for page in store.read(scans)]
        found += store.read([Range(Key(space, "log", "long")), Range(Key(space, "log", "gone"))])
        found += store.read([Get(Key(space, "doc", "dead"))])
    return found


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Open empty stores of any kind."""
    with ExitStack() as stack:

        def open_one(kind: str) -> Any:
            address = f"{tmp_path / new_id()}.db" if kind == "sqlite" else "memory://"
            if kind == "postgres":
                address = stack.enter_context(fresh_schema(request.getfixturevalue("postgres_url")))
            elif kind == "redis":
                given: str = request.getfixturevalue("redis_url")
                address = f"{given}{'&' if '?' in given else '?'}prefix=t{new_id()}"
            store = open_store(address)
            stack.callback(store.close)
            return store

        yield open_one


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "STEP", 7)


# ---- any to any -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", STORES)
@pytest.mark.parametrize("source", STORES)
def test_a_copy_holds_the_same(make: Callable[[str], Any], source: str, target: str) -> None:
    here, there = make(source), make(target)
    fill(here)
    copied = copy(here, there)
    assert copied == survey(here) == survey(there)
    assert contents(there) == contents(here)
    assert (copied.keys, copied.records) == (len(SPACES) * 15, len(SPACES) * 19)


@pytest.mark.parametrize("kind", STORES)
def test_an_empty_store_can_be_copied(make: Callable[[str], Any], kind: str) -> None:
    copied = copy(make(kind), make(kind))
    assert (copied.keys, copied.records) == (0, 0)


class Breaking:
    """A store that can be moved, until it breaks."""

    def __init__(self, store: Any, loads: int) -> None:
        self.store, self.left = store, loads

    def load(self, items: Sequence[ExportItem]) -> None:
        if not self.left:
            self.store.load(items[: len(items) // 2])  # half of it arrives
            raise StoreError("the connection broke", reason="io")
        self.left -= 1
        self.store.load(items)

    def unload(self, after: str | None, limit: int) -> Any:  # said here: what a store can do is asked of its class
        return self.store.unload(after, limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def begin(here: Any, there: Any, loads: int) -> int:
    """Copy until it breaks, and return how much arrived."""
    told = [0]
    with pytest.raises(StoreError, match="broke"):
        copy(here, Breaking(there, loads), progress=told.append)
    return told[-1]


@pytest.mark.parametrize("target", STORES)
@pytest.mark.parametrize("source", STORES)
def test_a_copy_that_broke_goes_on_where_it_was(make: Callable[[str], Any], source: str, target: str) -> None:
    here, there = make(source), make(target)
    fill(here)
    before = begin(here, there, loads=3)
    told: list[int] = []
    copied = copy(here, there, progress=told.append)
    assert copied == survey(here)
    assert contents(there) == contents(here)
    assert 0 < before < before + told[-1] <= copied.keys + copied.records  # what had arrived was not carried again


class Weighing:
    """A store that can be moved, and notes how many bytes come in a step."""

    def __init__(self, store: Any) -> None:
        self.store, self.steps = store, list[int]()

    def load(self, items: Sequence[ExportItem]) -> None:
        self.steps.append(sum(map(weight, items)))
        self.store.load(items)

    def unload(self, after: str | None, limit: int) -> Any:
        return self.store.unload(after, limit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def weight(item: ExportItem) -> int:
    records = sum(len(record.body or b"") + len(record.text or "") for record in item.records)
    return len(item.value or b"") + len(item.text or "") + records


@pytest.mark.parametrize("kind", STORES)
def test_no_step_of_a_copy_holds_more_than_a_bounded_number_of_bytes(make: Callable[[str], Any], kind: str) -> None:
    here, there = make(kind), Weighing(make(kind))
    large = encode("x" * (EXPORT_BYTES * 2 // 5))  # two of them fit
    for n in range(3):
        image = Append(Key("acme", "log", "images"), (Entry("image", large),))
        here.commit(Commit(new_id(), (), (Put(Key("acme", "doc", f"d{n}"), large), image)))
    assert copy(here, there) == survey(here)
    assert there.steps == [2 * len(large)] * 3


def test_progress_counts_records_and_documents(make: Callable[[str], Any]) -> None:
    here, there = make("memory"), make("memory")
    fill(here)
    told: list[int] = []
    copied = copy(here, there, progress=told.append)
    assert told == sorted(told)
    assert copied.records < told[-1] <= copied.keys + copied.records


# ---- never mixed ----------------------------------------------------------------------------------------------------


def everything(store: Any) -> list[Any]:
    found, after = [], None
    while True:
        exported = store.unload(after, 100)
        found += exported.items
        after = exported.next
        if after is None:
            return found


@pytest.mark.parametrize("kind", STORES)
def test_a_target_that_is_not_empty_is_refused_untouched(make: Callable[[str], Any], kind: str) -> None:
    here, there = make("memory"), make(kind)
    fill(here)
    there.commit(Commit(new_id(), (), (Put(Key("acme", "doc", "of somebody else"), encode(1)),)))
    before = everything(there)
    with pytest.raises(InvalidInput, match=r"not empty: it holds doc 'of somebody else' in space 'acme'.*nothing was"):
        copy(here, there)
    assert everything(there) == before


@pytest.mark.parametrize("kind", STORES)
def test_a_target_in_which_everything_was_deleted_is_not_empty(make: Callable[[str], Any], kind: str) -> None:
    here, there = make("memory"), make(kind)
    fill(here)
    gone = Key("acme", "doc", "d1")
    there.commit(Commit(new_id(), (), (Put(gone, encode(1)),)))
    there.commit(Commit(new_id(), (), (Delete(gone),)))
    with pytest.raises(InvalidInput, match="not empty"):
        copy(here, there)


def test_a_finished_copy_is_not_copied_onto_again(make: Callable[[str], Any]) -> None:
    here, there = make("memory"), make("memory")
    fill(here)
    copy(here, there)
    with pytest.raises(InvalidInput, match="not empty"):
        copy(here, there)


def test_a_copy_can_be_copied_and_no_note_travels_with_it(make: Callable[[str], Any]) -> None:
    first, second, third = make("sqlite"), make("memory"), make("sqlite")
    fill(first)
    assert copy(first, second) == copy(second, third)
    assert not is_unfinished(third)


@pytest.mark.parametrize("kind", STORES)
def test_a_target_that_was_emptied_by_nobody_but_a_copy_of_nothing_is_empty(
    make: Callable[[str], Any], kind: str
) -> None:
    here, there = make("memory"), make(kind)
    copy(make("memory"), there)
    fill(here)
    assert copy(here, there) == survey(here)


@pytest.mark.parametrize("kind", STORES)
def test_another_source_does_not_finish_a_copy(make: Callable[[str], Any], kind: str) -> None:
    here, other, there = make("memory"), make("memory"), make(kind)
    fill(here)
    fill(other)
    other.commit(Commit(new_id(), (), (Put(Key("zzz", "doc", "more"), encode(1)),)))
    begin(here, there, loads=2)
    before = everything(there)
    with pytest.raises(InvalidInput, match=r"a copy of something else.*nothing was copied"):
        copy(other, there)
    assert everything(there) == before
    assert copy(here, there) == survey(here)


def test_a_source_that_was_written_to_does_not_finish_its_copy(make: Callable[[str], Any]) -> None:
    here, there = make("sqlite"), make("memory")
    fill(here)
    begin(here, there, loads=2)
    here.commit(Commit(new_id(), (), (Put(Key("acme", "doc", "d1"), encode("new")),)))
    with pytest.raises(InvalidInput, match="written to since"):
        copy(here, there)


@pytest.mark.parametrize("kind", STORES)
def test_half_a_copy_is_not_opened_to_work_in_it(make: Callable[[str], Any], kind: str) -> None:
    here, there = make("memory"), make(kind)
    fill(here)
    begin(here, there, loads=2)
    with pytest.raises(Unavailable, match="`strongroom copy` from the same source again") as refused:
        refuse_unfinished(there)
    assert refused.value.reason == "unfinished"


@pytest.mark.parametrize("kind", STORES)
def test_half_a_copy_is_not_opened_by_async_code_either(
    make: Callable[[str], Any], kind: str, runner: asyncio.Runner
) -> None:
    here, there = make("memory"), make(kind)
    fill(here)
    begin(here, there, loads=2)
    with pytest.raises(Unavailable, match="has not come to its end"):
        runner.run(refuse_unfinished_async(OnLoop(there)))


def test_half_a_copy_in_a_file_is_opened_by_nobody_and_goes_on_untouched(tmp_path: Path) -> None:
    here, path = MemoryStore(), tmp_path / "target.db"
    fill(here)
    with SqliteStore(path) as there:
        begin(here, there, loads=2)
    ways: list[Callable[[], Any]] = [
        lambda: strongroom.open(path),
        lambda: strongroom.open(path, read_only=True),
        lambda: asyncio.run(_opened(path)),
    ]
    for way in ways:
        with pytest.raises(Unavailable) as refused:
            way()
        assert refused.value.reason == "unfinished"
    with SqliteStore(path) as there:
        copy(here, there)
    with strongroom.open(path) as ctx:
        assert ctx.space == "default"


async def _opened(path: Path) -> None:
    await strongroom.aopen(path)


@pytest.mark.parametrize("kind", STORES)
def test_half_a_copy_is_no_source(make: Callable[[str], Any], kind: str) -> None:
    here, there, third = make("memory"), make(kind), make("memory")
    fill(here)
    begin(here, there, loads=2)
    assert is_unfinished(there)
    with pytest.raises(InvalidInput, match="interrupted"):
        copy(there, third)
    assert everything(third) == []


def test_two_copies_into_one_target_do_not_both_go_on(make: Callable[[str], Any]) -> None:
    here, there = make("memory"), make("memory")
    fill(here)

    def meanwhile(moved: int) -> None:
        if moved < 10:
            copy(here, there)

    with pytest.raises(Conflict, match="somebody else copies"):
        copy(here, there, progress=meanwhile)


# ---- verified -------------------------------------------------------------------------------------------------------


def spoil(item: ExportItem, what: str) -> ExportItem:
    """Change one thing about a item, if it has it."""
    if what in ("alive", "version"):
        changed = {"alive": not item.alive, "version": item.version + (not item.records)}[what]
        return replace(item, **{what: changed})
    if item.stream and what in ("weight", "at", "sender", "type", "text", "commitment", "chain"):
        different: Any = {"weight": 77, "at": 77, "commitment": b"x" * 32, "chain": b"x" * 32}.get(what, "else")
        return replace(item, records=tuple(replace(record, **{what: different}) for record in item.records))
    if not item.stream and what in ("value", "tags"):
        return replace(item, **{what: {"value": encode("else"), "tags": {"n": "2"}}[what]})
    return item


class Spoiling(MemoryStore):
    """Puts something else in place than it is given."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def load(self, items: Sequence[ExportItem]) -> None:
        super().load([spoil(item, self.what) for item in items])


ASPECTS = ["alive", "version", "value", "tags", "weight", "at", "sender", "type", "text", "commitment", "chain"]


@pytest.mark.parametrize("what", ASPECTS)
def test_a_copy_that_differs_in_anything_is_refused(what: str) -> None:
    here = MemoryStore()
    fill(here)
    with pytest.raises(StoreError) as caught:
        copy(here, Spoiling(what))
    assert caught.value.reason == "differs"


def test_a_record_that_got_lost_is_noticed() -> None:
    class Losing(MemoryStore):
        def _load_stream(self, item: ExportItem) -> None:
            super()._load_stream(replace(item, records=item.records[:3]))

    here = MemoryStore()
    fill(here)
    with pytest.raises(StoreError, match="differs"):
        copy(here, Losing())


def test_a_source_that_was_written_to_meanwhile_is_noticed() -> None:
    here = MemoryStore()
    fill(here)
    late = Commit("late", (), (Put(Key("acme", "doc", "d11"), encode("late")),))

    def meanwhile(moved: int) -> None:
        if moved > 40:  # it has been carried
            here.commit(late)

    with pytest.raises(StoreError, match="written to meanwhile"):
        copy(here, MemoryStore(), progress=meanwhile)


def test_a_store_that_cannot_move_is_refused() -> None:
    class Stuck:
        """Has none of the verbs."""

    with pytest.raises(InvalidInput, match="nothing was copied"):
        copy(Stuck(), MemoryStore())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", STORES)
def test_a_fingerprint_does_not_depend_on_the_steps(
    make: Callable[[str], Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make(kind)
    fill(store)
    found = set()
    for step in (1, 2, 19, 1000):
        monkeypatch.setattr(copying, "STEP", step)
        found.add(survey(store))
    assert len(found) == 1


# ---- bounded --------------------------------------------------------------------------------------------------------


def peak_of_copying(here: Any, there: Any) -> int:
    tracemalloc.start()
    try:
        copy(here, there)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("target", [kind for kind in STORES if kind != "memory"])
def test_copying_takes_no_more_memory_for_a_longer_stream(
    make: Callable[[str], Any], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "STEP", 200)
    peaks = []
    for length in (1_000, 6_000):
        with SqliteStore(tmp_path / f"{length}.db", durability="relaxed") as here:
            entries = tuple(Entry("note", encode("x" * 300)) for _ in range(500))
            for _ in range(length // 500):
                here.commit(Commit(new_id(), (), (Append(Key("acme", "log", "long"), entries),)))
            peaks.append(peak_of_copying(here, make(target)))
    assert peaks[1] < 1.5 * peaks[0]
