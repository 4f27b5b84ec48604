"""The same faults on encrypted files: kills, power cuts, and single bits."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import apsw

from strongroom.backends.sqlite import SqliteStore
from strongroom.backends.sqlite.encryption import SALT_BYTES, pragma
from strongroom.errors import Damaged, SchemaMismatch, StrongroomError
from strongroom.store import AnyQuestion, Get, Range
from tests.crash.processes import apart
from tests.crash.scale import CUTS, FLIPS, KILLS, SEED
from tests.faults.checks import SHARED, Checkpointing, document, step, stream
from tests.faults.kill9 import campaign, sweep
from tests.faults.power import Report, cut, record, spread

KEY = b"k" * 32
PAGE = 4096
ALL = 100_000  # flips: the long campaign takes every bit


class Encrypted(Checkpointing):
    key = KEY  # for those who look at the file themselves

    def __init__(self, path: Path) -> None:
        super().__init__(path, key=KEY)


class UnderAPassphrase(Checkpointing):
    key = "a passphrase"

    def __init__(self, path: Path) -> None:
        super().__init__(path, key=self.key)


def test_a_writer_killed_at_random_instants_loses_nothing_it_was_told(path: Path) -> None:
    kills = KILLS // 4
    report = apart(campaign, path, kills=kills, seed=SEED, make=Encrypted)
    assert report.kills == kills
    assert report.commits > kills // 4


def test_a_writer_killed_before_and_after_each_single_operation_loses_nothing(fast_folder: Path) -> None:
    report = apart(sweep, fast_folder, commits=2, make=Encrypted)
    assert report.kills > 50


def _several(folder: Path, cuts: int) -> Report:
    replay = record(folder, writers=2, make=Encrypted)
    return cut(replay, spread(replay, cuts, seed=SEED), seed=SEED, make=Encrypted)


def _creating(folder: Path) -> Report:
    replay = record(folder, writers=2, commits=1, make=UnderAPassphrase)
    return cut(replay, spread(replay, max(20, CUTS // 50), seed=SEED), seed=SEED, make=UnderAPassphrase)


def test_a_power_cut_while_processes_commit_and_checkpoint_loses_nothing(fast_folder: Path) -> None:
    _require_kept(apart(_several, fast_folder, max(50, CUTS // 10)))


def test_a_power_cut_while_it_is_made_leaves_something_that_opens(fast_folder: Path) -> None:
    _require_kept(apart(_creating, fast_folder))


def _require_kept(report: Report) -> None:
    assert report.cuts >= 20
    assert (report.lost, report.damaged) == (0, 0), report.example


def _is_sound(store: SqliteStore) -> bool:
    try:
        return store.check().ok
    except Damaged:
        return False


def _flip(folder: Path, flips: int) -> Counter[str]:
    path = folder / "agent.db"
    with Encrypted(path) as store:
        for number in range(1, 21):
            store.commit(step(0, number))
        questions: list[AnyQuestion] = [Get(document(0)), Range(stream(0)), Range(SHARED)]
        truth = store.read(questions)
        store.compact()
    good = path.read_bytes()
    seen: Counter[str] = Counter()
    for bit in random.Random(SEED).sample(range(len(good) * 8), min(flips, len(good) * 8)):
        for old in folder.iterdir():
            old.unlink(missing_ok=True)
        spoilt = bytearray(good)
        spoilt[bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        place = f"bit {bit % 8} of byte {bit // 8}"
        try:
            with Encrypted(path) as store:
                sound, wrong = _is_sound(store), False
                for question, right in zip(questions, truth, strict=True):
                    try:
                        assert store.read([question]) == [right], f"{place}: another answer"
                    except Damaged:
                        wrong = True
                assert not sound, f"{place}: check() finds nothing"
            seen["damaged" if wrong else "right, and seen by check()"] += 1
        except Damaged:
            seen["refused as damaged"] += 1
        except SchemaMismatch as error:
            assert error.reason in ("key", "plain", "foreign"), place
            assert bit // 8 < 4096, f"{place}: not the first page, {error}"
            seen["refused: the key does not open it, or it is damaged"] += 1
        except StrongroomError as error:
            raise AssertionError(f"{place}: {error!r}") from error
    return seen


# ---- every single bit -----------------------------------------------------------------------------------------------
# Above, a store is opened for each bit, which takes too long for all of them. Here SQLite alone reads every page: what
# it gives is what was written, or nothing, so that no store above it can ever see anything else.


def _pages(path: Path, key: str) -> list[bytes]:
    """Return every page as SQLite gives it: zeros stand for one that it refuses, and [] for a file."""
    con = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        con.pragma("key", key)
        whole = con.serialize("main") or b""
    except (apsw.NotADBError, apsw.CorruptError, apsw.IOError):
        whole = b""
    finally:
        con.close()
    return [whole[start : start + PAGE] for start in range(0, len(whole), PAGE)]


def _flip_pages(folder: Path, flips: int) -> Counter[str]:
    path = folder / "agent.db"
    with Encrypted(path) as store:
        for number in range(1, 21):
            store.commit(step(0, number))
        store.compact()
    good = path.read_bytes()
    key = pragma(KEY, good[:SALT_BYTES])
    con = apsw.Connection(str(path))
    con.pragma("key", key)
    con.pragma("journal_mode", "DELETE")  # so that a page comes from the file alone
    con.close()
    good, truth = path.read_bytes(), _pages(path, key)
    assert len(truth) == len(good) // PAGE and all(page.strip(b"\0") for page in truth)
    seen: Counter[str] = Counter()
    bits = range(len(good) * 8)
    with path.open("r+b", buffering=0) as file:
        for bit in bits if flips >= ALL else random.Random(SEED).sample(bits, flips):
            place = bit // 8
            os.pwrite(file.fileno(), bytes([good[place] ^ 1 << bit % 8]), place)
            found = _pages(path, key)
            os.pwrite(file.fileno(), good[place : place + 1], place)
            changed = [page for page, right in zip(found, truth, strict=bool(found)) if page != right]
            assert not any(page.strip(b"\0") for page in changed), f"bit {bit}: another page"
            seen["refused" if changed or not found else "as it was"] += 1
    return seen


def test_every_flipped_bit_leaves_each_page_as_it_was_written_or_refused(
    fast_folder: Path, record_property: Callable[[str, object], None]
) -> None:
    seen = apart(_flip_pages, fast_folder, FLIPS)
    for what, times in seen.items():
        record_property(what, times)
    assert seen["refused"] > 0.99 * seen.total()


def test_no_flipped_bit_of_an_encrypted_file_gives_a_wrong_answer(
    fast_folder: Path, record_property: Callable[[str, object], None]
) -> None:
    seen = apart(_flip, fast_folder, FLIPS // 2)
    for what, times in seen.items():
        record_property(what, times)
    assert seen["damaged"] > 0
