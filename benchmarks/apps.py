"""The applications that `benchmarks.http` measures: `python -m benchmarks.apps NAME PORT WORKERS`, in their processes.

FOLDER, in the environment, is where an application keeps its files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.faults.disk import Disk

from benchmarks.runs import FileRun
from strongroom.server.app import create_app
from strongroom.server.running import OPTIONS
from strongroom.server.settings import Settings

SLOW_SECONDS = 0.002
STATE = "state.json"  # what a run looks like, for those who have no store


def ours() -> Any:
    """Strongroom on a file, as `strongroom serve` has it; without the limits on one caller."""
    return create_app(Settings(url=str(_folder() / "agent.db"), requests_per_second=1e9, max_streams=10_000))


def slow() -> Any:
    """The same on a disk whose every fsync takes two milliseconds longer."""
    disk = Disk(_folder() / "agent.db", writes=False).__enter__()
    disk.fsync_seconds = SLOW_SECONDS
    return ours()


class Patch(BaseModel):
    patch: dict[str, Any]
    expected_seq: int


class Patched(BaseModel):
    ok: bool
    ws: dict[str, Any] | None = None
    error: str | None = None


def files() -> Any:
    """The server that Strongroom replaces, re-enacted: its endpoint is a coroutine that replaces a file; no ledger."""
    app = FastAPI()
    state = msgspec.json.decode((_folder() / STATE).read_bytes())
    runs: dict[str, FileRun] = {}

    @app.patch("/runs/{run_id}")
    async def update(run_id: str, asked: Patch) -> Patched:
        if run_id not in runs:
            runs[run_id] = FileRun(_folder() / run_id, state)
        return Patched(ok=True, ws=runs[run_id].apply_patch(asked.expected_seq, **asked.patch))

    return app


def bare() -> Any:
    """A route that returns the bytes of a run, and does nothing else."""
    body = (_folder() / STATE).read_bytes()

    async def get(request: Request) -> Response:
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/runs/{run_id}", get)])


def _folder() -> Path:
    return Path(os.environ["FOLDER"])


def main(name: str, port: int, workers: int) -> None:
    """Serve an application: ours as `strongroom serve` does, the others without a log of requests."""
    options = OPTIONS if name in ("ours", "slow") else {"access_log": False}
    # Connections are kept while the other rival is measured.
    options = {**options, "log_level": "warning", "timeout_keep_alive": 600, "workers": workers}
    uvicorn.run(f"benchmarks.apps:{name}", factory=True, port=port, **options)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
