"""Ctrl-C at every step of a commit: nobody else has to wait for it, and a repeat learns what became of it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from linecache import getline
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from strongroom.backends import sqlite
from strongroom.backends.sqlite import SqliteStore
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Key, Range, ask

OURS = str(Path(sqlite.__file__).parent)
LOG = Key("s", "log", "l")


class Interrupt:
    """Raises KeyboardInterrupt before the line of our own code that comes after so many others.

    Not before one of a `with`: it is passed again on the way out, where no signal is looked at before all is let go of.
    """

    def __init__(self, lines: int) -> None:
        self.left = lines

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if event == "line" and not getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def __enter__(self) -> Interrupt:
        sys.settrace(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


@pytest.fixture(autouse=True)
def nobody_elses_garbage() -> Iterator[None]:
    """What other tests left is not collected in between: Python passes over what is raised there."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def record(id: str) -> Commit:
    return Commit(id, (), (Append(LOG, (Entry("note", encode(id)),)),))


def test_an_interrupt_at_any_step_of_a_commit_holds_up_nobody_and_a_repeat_learns_its_outcome(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    step, written = 0, []
    with SqliteStore(path) as store, SqliteStore(path, timeout_seconds=0.3) as other:
        for first in ("a", "b"):
            store.commit(record(first))
            other.commit(record(f"other-{first}"))
            written += [first, f"other-{first}"]
        interrupted = True
        while interrupted:
            step += 1
            try:
                with Interrupt(step) as interrupt:
                    store.commit(record(f"c{step}"))
                interrupted = interrupt.left <= 0
            except KeyboardInterrupt:
                pass
            other.commit(record(f"o{step}"))
            store.commit(record(f"c{step}"))
        found = ask(store, Range(LOG))
        said = [record.body.load() for record in found.records if record.body is not None]
        assert step > 50
        assert sorted(said) == sorted([*written, *(f"{who}{n}" for n in range(1, step + 1) for who in "oc")])


def test_an_interrupt_at_any_step_of_a_read_leaves_the_next_one_a_snapshot_of_its_own(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "agent.db") as store:
        step, interrupted = 0, True
        while interrupted:
            step += 1
            store.commit(record(f"c{step}"))
            try:
                with Interrupt(step) as interrupt:
                    store.read([Range(LOG, 0, 0), Range(LOG, 0, 0)])
                interrupted = interrupt.left <= 0
            except KeyboardInterrupt:
                pass
            one, other = ask(store, Range(LOG, 0, 0), Range(LOG, 0, 0))
            assert one.length == other.length == step
        assert step > 20


def test_an_interrupt_at_any_step_of_closing_closes_nothing_of_somebody_else(tmp_path: Path) -> None:
    """What is opened next has the numbers that were just given back."""
    path, step, interrupted = tmp_path / "agent.db", 0, True
    while interrupted:
        step += 1
        store = SqliteStore(path)
        store.commit(record(f"c{step}"))
        try:
            with Interrupt(step) as interrupt:
                store.close()
            interrupted = interrupt.left <= 0
        except KeyboardInterrupt:
            pass
        others = [os.open(tmp_path, os.O_RDONLY) for _ in range(20)]
        store.close()
        del store
        gc.collect()
        for other in others:
            os.close(other)
    assert step > 20
