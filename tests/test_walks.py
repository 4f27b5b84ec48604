"""From the outside to the disk it is not far: the walks of docs/walks.md stay short."""

from __future__ import annotations

from docs.walking import append, files, patch


def test_a_patch_reaches_the_disk_in_25_calls_and_16_files() -> None:
    walk = patch()
    assert walk.steps[0][0] == "server/middleware.py" and "sqlite" in walk.steps[-1][0]
    assert len(walk.steps) <= 25 and files(walk.steps) <= 16, walk.steps


def test_a_message_reaches_the_disk_in_20_calls_and_12_files() -> None:
    walk = append()
    assert walk.steps[0][0] == "bridge/driving.py" and "sqlite" in walk.steps[-1][0]
    assert len(walk.steps) <= 20 and files(walk.steps) <= 12, walk.steps
