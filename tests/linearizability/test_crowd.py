"""The crowd itself: a fault that lasts always ends, in whatever order the clients come to their calls."""

from __future__ import annotations

from functools import partial

from strongroom.backends.memory import MemoryStore
from strongroom.testing import Recorder, race
from tests.linearizability.crowd import HASTY, Crowd, Fault, Scene


class NeverCrashes:
    def crash(self) -> None:
        raise AssertionError("nobody asked for a crash")

    start = crash


def test_a_lasting_fault_that_comes_after_the_hasty_one_has_left_keeps_nobody_waiting() -> None:
    store = MemoryStore()
    scene = Scene(NeverCrashes(), 9, lambda client, port: store)
    faults: dict[int, Fault] = {}
    crowd = Crowd(scene.stores, faults, scene.heal)
    recorder = Recorder(crowd)
    race(partial(scene.client, crowd, recorder, "space", HASTY, 0))
    faults.update(dict.fromkeys(range(1000), scene.strike("pause", scene.proxies[HASTY].stall, lasts=True)))
    race(partial(scene.client, crowd, recorder, "space", 1, 0))  # raises if it does not end
    assert not scene.struck
    scene.close()
