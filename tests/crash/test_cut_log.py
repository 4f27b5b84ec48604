"""A log that is cut or deleted from outside while stores have it open: nothing more is acknowledged, and nothing that
is not in the missing part is lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from strongroom.backends.sqlite import SqliteStore
from strongroom.backends.sqlite import log as module
from strongroom.errors import Damaged, SchemaMismatch
from tests.crash.processes import apart, ended_well, forked
from tests.faults.checks import Broken, check, check_file, glance, step

KEYS = [None, b"k" * 32]
STEPS = 20


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _to_nothing(path: Path) -> None:
    os.truncate(_log(path), 0)


def _to_its_header(path: Path) -> None:
    os.truncate(_log(path), 32)


def _held(path: Path) -> int:
    """Return where a log that was never begun anew ends: zeros follow, which nobody misses."""
    log = _log(path).read_bytes()
    frame = 24 + int.from_bytes(log[8:12])
    return max(at + frame for at in range(32, len(log), frame) if log[at + 8 : at + 16] == log[16:24])


def _in_its_middle(path: Path) -> None:
    os.truncate(_log(path), _held(path) // 2)


def _by_one_byte(path: Path) -> None:
    os.truncate(_log(path), _held(path) - 1)


CUTS = [_to_nothing, _to_its_header, _in_its_middle, _by_one_byte]


def _delete(path: Path) -> None:
    _log(path).unlink()


def _delete_with_index(path: Path) -> None:
    _delete(path)
    path.with_name(path.name + "-shm").unlink()


DELETIONS = [_delete, _delete_with_index]


def _filled(path: Path, key: bytes | None) -> SqliteStore:
    """Return a store whose file has half of the steps, and whose log has them all."""
    with SqliteStore(path, key=key) as store:
        for number in range(1, STEPS // 2 + 1):
            store.commit(step(0, number))
    store = SqliteStore(path, key=key)
    for number in range(STEPS // 2 + 1, STEPS + 1):
        store.commit(step(0, number))
    return store


def _with_another_process(path: Path, key: bytes | None, harm: Callable[[Path], None]) -> str:
    """Harm the log while a second process has it open, which closes it last; return what the next commit is told."""
    may_open, open_it = os.pipe()
    is_open, opened = os.pipe()

    def idle() -> None:
        os.close(open_it)
        assert os.read(may_open, 1)
        with SqliteStore(path, key=key) as store:
            assert glance(store, 1) == [STEPS]
            os.write(opened, b"!")
            assert os.read(may_open, 1) == b""  # the other one has closed its store

    child = forked(idle)
    store = _filled(path, key)
    os.write(open_it, b"!")
    assert os.read(is_open, 1)
    harm(path)
    with pytest.raises(Damaged) as damaged:
        store.commit(step(0, STEPS + 1))
    store.close()
    os.close(open_it)
    assert ended_well(child)
    return damaged.value.reason


def _require_whole(path: Path, key: bytes | None, least: int) -> None:
    with SqliteStore(path, key=key) as store:
        (found,) = glance(store, 1)
        assert least <= found <= STEPS
        check(store, [found], in_flight=0)
        assert store.check().ok
    check_file(path, key)


@pytest.mark.parametrize("key", KEYS, ids=["plain", "encrypted"])
@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_log_is_noticed_before_the_next_acknowledgement(
    path: Path, key: bytes | None, cut: Callable[[Path], None]
) -> None:
    with _filled(path, key) as store:
        cut(path)
        for number in (STEPS + 1, STEPS + 2):
            with pytest.raises(Damaged) as damaged:
                store.commit(step(0, number))
            assert damaged.value.reason == "cut"
    _require_whole(path, key, STEPS // 2)


@pytest.mark.parametrize("cut", CUTS)
def test_closing_a_store_whose_log_was_cut_leaves_a_file_that_opens(path: Path, cut: Callable[[Path], None]) -> None:
    store = _filled(path, None)
    cut(path)
    store.close()
    _require_whole(path, None, STEPS // 2)


@pytest.mark.parametrize("key", KEYS, ids=["plain", "encrypted"])
@pytest.mark.parametrize("cut", CUTS)
def test_another_process_that_closes_a_cut_log_last_leaves_a_file_that_opens(
    path: Path, key: bytes | None, cut: Callable[[Path], None]
) -> None:
    assert apart(_with_another_process, path, key, cut) == "cut"
    _require_whole(path, key, STEPS // 2)


@pytest.mark.parametrize("key", KEYS, ids=["plain", "encrypted"])
@pytest.mark.parametrize("delete", DELETIONS)
def test_what_a_deleted_log_held_is_there_when_the_file_is_opened_again(
    path: Path, key: bytes | None, delete: Callable[[Path], None]
) -> None:
    with _filled(path, key) as store:
        delete(path)
        with pytest.raises(Damaged, match="What it held is in the database"):
            store.commit(step(0, STEPS + 1))
    _require_whole(path, key, STEPS)


@pytest.mark.parametrize("delete", DELETIONS)
def test_nor_is_it_lost_if_another_process_had_it_open(path: Path, delete: Callable[[Path], None]) -> None:
    assert apart(_with_another_process, path, None, delete) == "replaced"
    _require_whole(path, None, STEPS)


def test_a_deleted_log_is_not_copied_over_what_somebody_has_begun_since(path: Path) -> None:
    with _filled(path, None) as store:
        _delete_with_index(path)
        apart(_commit_one, path)
        content = path.read_bytes()
        with pytest.raises(Damaged, match="restore a backup"):
            store.commit(step(0, STEPS + 1))
        assert path.read_bytes() == content
    check_file(path)


def _commit_one(path: Path) -> None:
    """Begin another log, and leave it there: whoever has the old one open keeps this one from being put away."""
    with SqliteStore(path) as store:
        store.commit(step(1, 1))


def test_nobody_misses_the_zeros_behind_what_a_log_holds(path: Path) -> None:
    with _filled(path, None) as store:
        assert _log(path).stat().st_size > _held(path)
        os.truncate(_log(path), _held(path))
        store.commit(step(0, STEPS + 1))
        check(store, [STEPS + 1], in_flight=0)
    check_file(path)


def test_without_looking_at_its_length_a_hole_would_be_copied_into_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.Log, "is_short", lambda *_: False)
    with _filled(path, None) as store:
        _in_its_middle(path)
        store.commit(step(0, STEPS + 1))
    with pytest.raises((Damaged, SchemaMismatch, Broken)):
        _require_whole(path, None, STEPS + 1)
