"""Two tenants in one file, and one bit of it flipped: neither ever sees or writes into what is the other's.

Their names differ in a single bit, so that one flip turns what an index says about the one into the other's. Whatever
answer a flip changes, `check()` sees the flip.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore, carried, rows, search, writes
from strongroom.backends.sqlite import store as sqlite_store
from strongroom.codec import encode
from strongroom.errors import StoreError, StrongroomError
from strongroom.store import AnyQuestion, Append, Commit, Entry, Find, Get, Key, Put, Range, ReceiptOf, Scan, Tail
from tests.crash.scale import FLIPS, SEED
from tests.faults.checks import Broken

TENANTS = ("a", "c")  # 0x61 and 0x63
SECRET = {"a": "alpenglow", "c": "cinnabar"}
ACKNOWLEDGED = {"a": "written-by-a", "c": "written-by-c"}
SMALL_PAGE = 512
ALL = FLIPS >= 100_000  # the long campaign
PARTS = 8 if ALL else 1  # about three minutes of work each, for as many processes as there are


def _documents(tenant: str) -> list[Key]:
    return [Key(tenant, "note", f"n{n}") for n in range(3)]


def _streams(tenant: str) -> list[Key]:
    return [Key(tenant, "chat", "s0"), Key(tenant, "chat", f"only-{tenant}")]


def _never_there(tenant: str) -> Key:
    """Return where this tenant has nothing and the other has a stream."""
    return Key(tenant, "chat", f"only-{_other(tenant)}")


def _all_streams(tenant: str) -> list[Key]:
    return [*_streams(tenant), _never_there(tenant)]


def _other(tenant: str) -> str:
    return TENANTS[1 - TENANTS.index(tenant)]


def _id(tenant: str, n: int) -> str:
    return f"{n + 1:016x}{TENANTS.index(tenant):016x}"


def _fill(path: Path) -> None:
    with SqliteStore(path) as store:
        for n in range(3):
            for tenant in TENANTS:
                value = encode({"n": n, "x": SECRET[tenant]})
                put = Put(_documents(tenant)[n], value, {"odd": str(n % 2)}, f"{SECRET[tenant]} apple{n}")
                store.commit(Commit(f"put-{n}", (), (put,)))
                for stream in _streams(tenant):
                    store.commit(Commit(f"{stream.id}-{n}", (), (_said(stream, SECRET[tenant], n),)))
        for tenant in TENANTS:
            for find in _finds(tenant):
                store.search(find)
        for n in range(3, 5):  # their receipts stay in the records, and their words out of the index
            for tenant in TENANTS:
                store.commit(Commit(_id(tenant, n), (), (_said(_streams(tenant)[0], SECRET[tenant], n),)))
    con = apsw.Connection(str(path))
    con.execute(f"PRAGMA journal_mode = DELETE; PRAGMA page_size = {SMALL_PAGE}; VACUUM").fetchall()
    con.close()


def _said(key: Key, secret: str, n: int) -> Append:
    return Append(
        key, (Entry("Note", encode({"n": n, "x": secret}), 1, n, text=f"{secret} pear", commitment=b"c" * 32),)
    )


def _questions(tenant: str) -> Iterator[AnyQuestion]:
    yield from (Get(key) for key in _documents(tenant))
    for key in _all_streams(tenant):
        yield from (Range(key), Tail(key, count=2), Tail(key, max_weight=2))
    yield from (Scan(tenant, "note"), Scan(tenant, "note", {"odd": "0"}), Scan(tenant, "note", reverse=True, limit=1))
    yield from (ReceiptOf(tenant, id) for id in ("put-1", "s0-2", _id(tenant, 4)))


def _finds(tenant: str) -> Iterator[Find]:
    yield from (Find(tenant, "note", ("apple1",)), Find(tenant, "chat", ("pear",), id=f"only-{tenant}"))


def _answers(store: SqliteStore, tenant: str) -> Iterator[Any]:
    questions = list(_questions(tenant))
    together = _told(store.look, questions)
    yield from together if isinstance(together, list) else (_told(store.look, [each]) for each in questions)
    for bounded in (Range(_streams(tenant)[0]), Tail(_streams(tenant)[0], max_weight=2), Scan(tenant, "note")):
        yield _told(store.look_within, [bounded], 1 << 20)
    for find in _finds(tenant):
        yield _told(store.search, find)


def _told(ask: Callable[..., Any], *about: Any) -> Any:
    try:
        return ask(*about)
    except StrongroomError as error:
        return error


def _try(path: Path, truth: dict[str, list[Any]], refs: dict[str, set[int]]) -> str:
    try:
        with SqliteStore(path) as store:
            sound = getattr(_told(store.check), "ok", False)
            wrong = False
            for tenant in TENANTS:
                wrong |= _differs(list(_answers(store, tenant)), truth[tenant], tenant)
            if wrong and sound:
                raise Broken("check() finds nothing wrong with a file that gives other answers")
            for tenant in TENANTS:
                said = [_said(stream, ACKNOWLEDGED[tenant], 9) for stream in _all_streams(tenant)]
                if isinstance(_told(store.commit, Commit("more", (), tuple(said))), StrongroomError):
                    for n, each in enumerate(said):
                        _told(store.commit, Commit(f"more-{n}", (), (each,)))
            for tenant in TENANTS:
                asked = [_told(store.look, [Range(stream)]) for stream in _all_streams(tenant)]
                _require_own([*asked, *(_told(store.search, find) for find in _finds(tenant))], tenant)
            store._committer.failed = StoreError("as damaged as it is")  # closing must not repair anything
    except StoreError:
        return "refused"
    _require_apart(path, refs)
    return "other answers, seen by check()" if wrong else "the same answers" if sound else "seen by check() only"


def _differs(answers: list[Any], truth: list[Any], tenant: str) -> bool:
    changed = [answer for answer, right in zip(answers, truth, strict=True) if answer != right]
    _require_own(changed, tenant)
    return bool(changed)


def _require_own(answers: list[Any], tenant: str) -> None:
    other = _other(tenant)
    for shown in map(repr, answers):
        if SECRET[other] in shown or ACKNOWLEDGED[other] in shown:
            raise Broken(f"{tenant!r} was shown what is {other!r}'s: {shown:.300}")


def _require_apart(path: Path, refs: dict[str, set[int]]) -> None:
    """Look past the store at the rows themselves: what one tenant was told is written is not in the other's stream."""
    con = apsw.Connection(str(path))
    try:
        found = con.execute("SELECT pos >> 32, body FROM record").fetchall()
    except (apsw.Error, UnicodeDecodeError):
        return
    finally:
        con.close(True)
    for ref, body in found:
        for tenant, other in (TENANTS, TENANTS[::-1]):
            if ref in refs[other] and isinstance(body, bytes) and ACKNOWLEDGED[tenant].encode() in body:
                raise Broken(f"what {tenant!r} wrote stands in a stream of {other!r}")


def _campaign(folder: Path, choose: Callable[[int], Iterable[int]]) -> Counter[str]:
    path = folder / "agent.db"
    _fill(path)
    with SqliteStore(path) as store:
        assert store.check().problems == ()
        good = path.read_bytes()
        truth = {tenant: list(_answers(store, tenant)) for tenant in TENANTS}
    assert not any(isinstance(answer, StoreError) for answers in truth.values() for answer in answers)
    con = apsw.Connection(str(path))
    refs = {
        tenant: {row[0] for row in con.execute("SELECT ref FROM head WHERE space = ?", (tenant,))} for tenant in TENANTS
    }
    con.close()
    seen: Counter[str] = Counter()
    for bit in choose(len(good) * 8):
        for old in folder.iterdir():
            old.unlink(missing_ok=True)
        spoilt = bytearray(good)
        spoilt[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        try:
            seen[_try(path, truth, refs)] += 1
        except Exception as problem:
            raise Broken(
                f"bit {bit % 8} of byte {bit // 8} (page {bit // 8 // SMALL_PAGE + 1}): {problem!r}"
            ) from problem
    return seen


def _bits_of(part: int) -> Callable[[int], Iterable[int]]:
    if ALL:
        return lambda bits: range(bits * part // PARTS, bits * (part + 1) // PARTS)
    return lambda bits: random.Random(SEED).sample(range(bits), max(50, FLIPS // 8))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "MOST_ROUNDS", 3)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_flipped_bit_shows_one_tenant_what_is_the_others(
    fast_folder: Path, part: int, record_property: Callable[[str, object], None]
) -> None:
    seen = _campaign(fast_folder, _bits_of(part))
    for what, times in seen.items():
        record_property(what, times)
    assert seen["the same answers"] > 0
    assert sum(seen.values()) > seen["the same answers"]


def test_the_campaign_catches_a_store_that_believes_its_indexes(
    fast_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (rows, writes, search, carried):
        monkeypatch.setattr(module, "require_sound", lambda key, head: None)
    with pytest.raises(Broken, match=r"was shown what|stands in a stream"):
        _campaign(fast_folder, lambda bits: _of_names(fast_folder))


def _of_names(folder: Path) -> Iterable[int]:
    """Return the bits of what follows a stream's name: in the index, the number of the row it leads to."""
    data = (folder / "agent.db").read_bytes()
    for tenant in TENANTS:
        for stream in _streams(tenant):
            name, at = f"{tenant}chat{stream.id}".encode(), -1
            while (at := data.find(name, at + 1)) >= 0:
                yield from range((at + len(name)) * 8, (at + len(name) + 1) * 8)
