"""Try an installed Strongroom from the outside: `python smoke.py [conformance]`, in a folder without its source.

The demo with its real kill -9, a store that is closed and opened again, the command line, and, if asked for, every
promise of the conformance suite on the stores that need no server.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.backends.sqlite import SqliteStore
from strongroom.store import Store
from strongroom.testing import StoreConformance, failures, guarantees


class Memory(StoreConformance):
    keeps_native = True

    def make_store(self) -> Store:
        return MemoryStore()


class Sqlite(StoreConformance):
    max_record_bytes = 65536

    def setup_method(self, method: object = None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        super().setup_method()

    def teardown_method(self, method: object = None) -> None:
        super().teardown_method()
        self.folder.cleanup()

    def make_store(self) -> Store:
        return SqliteStore(Path(self.folder.name, "agent.db"), max_record_bytes=self.max_record_bytes)


def command(*arguments: str) -> str:
    """Run the command line of this interpreter and return what it printed."""
    ran = subprocess.run(
        [sys.executable, "-m", "strongroom", *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return ran.stdout


def demo() -> None:
    facts = json.loads(command("demo", "--fast", "--json"))
    assert facts, "the demo saw nothing"


def store(path: str) -> None:
    """Write everything there is, and find it in another process."""
    with strongroom.open(path) as ctx:
        run = ctx.runs.create(objective="smoke", run_id="smoke")
        session = ctx.sessions.open("smoke")
        with ctx.turn() as turn:
            turn.append(session, {"role": "user", "content": "is there smoke?"})
            turn.update(run, status="BUSY")
        ctx.memories.add("smoke rises", user_id="u1")
        ctx.files.write("/notes/smoke.md", "grey")
        ctx.threads.append("smoke", {"text": "signal"}, from_id="a")
    shown = json.loads(command("--url", path, "runs", "show", "smoke", "--json"))
    assert shown["working_set"]["status"] == "BUSY", shown
    with strongroom.open(path) as ctx:
        assert ctx.memories.search("smoke", user_id="u1")[0].content == "smoke rises"
        assert ctx.runs.get("smoke").verify().ok
    command("--url", path, "check")


def conformance() -> None:
    for suite in (Memory, Sqlite):
        failed = failures(suite)
        assert not failed, {name: repr(error) for name, error in failed.items()}
        print(f"  {suite.__name__.lower()}: {len(guarantees())} promises kept")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="strongroom-smoke-") as folder:
        store(f"{folder}/agent.db")
    demo()
    if "conformance" in sys.argv[1:]:
        conformance()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    print(
        f"  Strongroom {strongroom.__version__} works on Python {version}, from {Path(strongroom.__file__).parent.name}"
    )


if __name__ == "__main__":
    main()
