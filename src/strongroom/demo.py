"""`strongroom demo`: an agent's day, on a store in a temporary folder, with a real kill -9 in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

import strongroom
from strongroom.errors import Conflict

# What the worker does until it is killed: one update after another, each told to us once it is durable.
WORKER = """
import os, sys
import strongroom
with strongroom.open(sys.argv[1]) as ctx:
    run = ctx.runs.get(sys.argv[2])
    while True:
        ws = run.update_with(lambda ws: {"last_action_summary": f"page {ws.seq} fetched"})
        os.write(1, b"%d\\n" % ws.seq)
"""


class Stage:
    """Says a line, shows a piece of code, waits a moment, and keeps the facts for programs."""

    def __init__(self, pause: float, *, quiet: bool = False) -> None:
        self.console = Console(highlight=False, quiet=quiet)
        self.pause = pause
        self.facts: dict[str, Any] = {}

    def act(self, title: str, code: str = "") -> None:
        number, _, name = title.partition("  ")
        self.console.print(f"\n[bold black on cyan] {number} [/] [bold cyan]{name}[/]")
        if code:
            look = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(code)
            self.console.print(Text("    ") + look, end="", soft_wrap=True)
        time.sleep(self.pause)

    def see(self, text: str) -> None:
        self.console.print(f"    [green]->[/] {text}", soft_wrap=True)
        time.sleep(self.pause / 2)


def play(*, pause: float = 0.6, quiet: bool = False) -> dict[str, Any]:
    """Run the whole day, and return what was seen."""
    stage = Stage(pause, quiet=quiet)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strongroom-demo-") as folder:
        stage.console.print(Panel.fit("[bold]Strongroom[/]  everything an agent knows, in one crash-safe file"))
        path = Path(folder) / "agent.db"
        run_id = _morning(stage, path)
        _crash(stage, path, run_id)
        _afternoon(stage, path, run_id)
        _evening(stage, path, run_id, Path(folder) / "pack.zip")
    stage.facts["seconds"] = round(time.monotonic() - began, 1)
    stage.console.print("\n[bold]That was one file.[/] Now yours: [cyan]ctx = strongroom.open('agent.db')[/]\n")
    return stage.facts


def _morning(stage: Stage, path: Path) -> str:
    stage.act("1  Boot a run", 'run = ctx.runs.create(objective="Build a scraper", constraints=["be polite"])')
    with strongroom.open(path) as ctx:
        run = ctx.runs.create(
            objective="Build a scraper", acceptance_criteria=["saves JSON"], constraints=["be polite"]
        )
        stage.see(f"{run.id}, status {run.working_set.status}, seq {run.seq}; [dim]{ctx.durability.name}[/]")
        stage.act("2  Two workers, one state", 'run.update(expected_seq=0, status="BUSY")')
        run.update(expected_seq=0, status="BUSY", next_action="fetch page 1")
        stage.see("the first is accepted: seq 1")
        try:
            ctx.runs.get(run.id).update(expected_seq=0, status="PAUSED")
        except Conflict as conflict:
            stage.see(f"the second is [yellow]refused[/]: expected {conflict.expected}, actual {conflict.actual}")
        run.record("TOOL_CALL", {"tool_name": "fetch", "arguments": {"url": "https://example.com"}})
        return run.id


def _crash(stage: Stage, path: Path, run_id: str) -> None:
    stage.act("3  kill -9, in the middle of everything", "os.kill(worker.pid, signal.SIGKILL)")
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(path), run_id], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    told = b""
    until = time.monotonic() + 2 * stage.pause
    try:
        with stage.console.status("a worker begins") as status:
            # Let it work for a while, then kill it wherever it is.
            while told.count(b"\n") < 150 or time.monotonic() < until:
                told += os.read(worker.stdout.fileno(), 65536)
                status.update(f"a worker updates the run: {told.count(bytes([10])):,} acknowledged")
    finally:  # also if we are told to stop
        worker.send_signal(signal.SIGKILL)
        told += worker.stdout.read()
        worker.stdout.close()
        worker.wait()
    acknowledged = int(told.split()[-1])
    with strongroom.open(path) as ctx:
        run = ctx.runs.get(run_id)
        stage.see(f"the worker died having been told that update {acknowledged} is safe")
        found = run.verify()
        stage.see(f"after reopening: seq {run.seq}, {found.checked} events, chain [green]verified[/]")
        assert acknowledged <= run.seq <= acknowledged + 1 and found.ok, "an acknowledged update was lost"
        stage.see(f"{acknowledged:,} acknowledged, [bold green]0 lost[/]")
        more = run.seq - acknowledged
        stage.see(
            f"at most one was under way, not acknowledged: it may survive or not, never in part (here {more} did)"
        )
        stage.facts |= {"acknowledged": acknowledged, "found": run.seq, "events": found.checked, "verified": found.ok}


def _afternoon(stage: Stage, path: Path, run_id: str) -> None:
    with strongroom.open(path) as ctx:
        stage.act("4  Talk, under a token budget", "session.window(max_tokens=60)")
        session = ctx.sessions.open("support")
        session.append(
            [
                {"role": ("user", "assistant")[n % 2], "content": f"message number {n} of a long talk"}
                for n in range(500)
            ]
        )
        window = session.window(max_tokens=60)
        stage.see(
            f"500 messages stored; the window holds the newest {len(window.messages)}, {window.total_tokens} tokens"
        )
        stage.facts["window_tokens"] = window.total_tokens
        stage.act("5  Remember, but only after review", 'ctx.memories.propose([...], proposer="agent-7")')
        fact: strongroom.MemoryRequest = {
            "op": "add", "type": "fact", "scope": "global", "confidence": 0.9, "source_refs": [],
            "content": "example.com allows one request a second", "rationale": "its robots.txt says so",
        }  # fmt: skip
        batch = ctx.memories.propose([fact], proposer="agent-7", run_id=run_id)
        stage.see(f"proposed; a search finds {len(ctx.memories.search('request rate'))} of it")
        run = ctx.runs.get(run_id)
        episode = run.milestone("scraper works", memory_batch_id=batch.id, reviewer="ana")
        hits = ctx.memories.search("how many requests a second?")
        stage.see(f"milestone {episode.episode_id} and the memory in [bold]one[/] commit")
        stage.see(f"now found: {hits[0].memory.content!r}")


def _evening(stage: Stage, path: Path, run_id: str, pack: Path) -> None:
    stage.act("6  Travel in time", "run.diff(1, run.seq)")
    with strongroom.open(path) as ctx, strongroom.open("memory://") as elsewhere:
        run = ctx.runs.get(run_id)
        changed = ", ".join(change.field for change in run.diff(1, run.seq).changes)
        stage.see(f"between then and now: {changed}")
        stage.act("7  Pack it, and carry on somewhere else", 'run.export("pack.zip")')
        run.export(pack)
        restored = elsewhere.runs.restore(pack)
        stage.see(f"{pack.stat().st_size:,} bytes; restored into another kind of store at seq {restored.seq}")
        assert restored.verify().ok
        stage.facts |= {"pack_bytes": pack.stat().st_size, "restored_seq": restored.seq}
        stage.see("and its ledger still [green]verifies[/]")
