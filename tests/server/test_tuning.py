"""The interpreter is set for serving while a server runs, and as before when none does."""

from __future__ import annotations

import gc
import subprocess
import sys
from contextlib import ExitStack

from strongroom.server.tuning import tuned

Settings = tuple[float, tuple[int, int, int], bool]


def settings() -> Settings:
    # Python 3.12 has some hundred frozen when it starts; serving freezes all that was imported, which is far more.
    return sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count() > 5_000


def serve_twice() -> None:
    """Two servers whose times overlap, in an interpreter of their own: there may be others in that of the tests."""
    before = settings()
    first, second = ExitStack(), ExitStack()
    first.enter_context(tuned())
    during = settings()
    assert all(one != other for one, other in zip(before, during, strict=True))
    second.enter_context(tuned())
    first.close()
    assert settings() == during
    second.close()
    assert settings() == before


def test_the_last_server_leaves_the_interpreter_as_the_first_found_it() -> None:
    subprocess.run([sys.executable, "-c", f"from {__name__} import serve_twice; serve_twice()"], check=True)
