"""Which calls lead from the outside to the disk: `python -m docs.walking` prints what docs/walks.md shows.

A walk is the calls that are open when the store writes the last row: each hands on to the next. Where an event loop
lets a commit wait for others (`GroupCommit.submit`), the walk goes on with the call that writes them all. What a call
asks on its way (a key, a schema, a clock) is not part of it, and comes back before the next step; how many functions
that makes is told beside it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

import strongroom
from strongroom.server.app import create_app
from strongroom.server.keys import Keys
from strongroom.server.settings import Settings

SOURCE = f"{Path(strongroom.__file__).parent}/"
LAST = "Writer._append"
Step = tuple[str, str]  # a file and a function of it


class Walk:
    """The steps to the disk, and all functions that ran on the way."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.functions: set[Step] = set()
        self._stacks: set[tuple[Step, ...]] = set()
        self._handed_over: list[Step] = []

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not _is_ours(frame):
            return
        step = _step(frame)
        self.functions.add(step)
        self._stacks.add(tuple(_open(frame)))
        if step[1].endswith(".submit"):
            self._handed_over = _open(frame)
        if step[1] == LAST:
            here = _open(frame)
            outside = "server/" in here[0][0] or not self._handed_over
            self.steps = here if outside else [*self._handed_over, *here]

    @property
    def read(self) -> set[Step]:
        """The steps, and the functions that they call themselves: what somebody reads who follows the walk."""
        whole = range(len(self.steps) + 1)
        ways = {tuple(self.steps[start:stop]) for start in whole for stop in whole}
        return {*self.steps, *(stack[-1] for stack in self._stacks if stack[:-1] in ways)}


def files(steps: Iterable[Step]) -> int:
    return len({file for file, _ in steps})


@contextmanager
def watching() -> Iterator[Walk]:
    walk = Walk()
    sys.setprofile(walk.note)
    try:
        yield walk
    finally:
        sys.setprofile(None)


def patch() -> Walk:
    """Walk with a PATCH of a run that was updated before, by a writer's key."""
    return asyncio.run(_patch())


async def _patch() -> Walk:
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(url=f"{folder}/agent.db"))
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as http,
        ):
            key, _ = await Keys(app.state.store).create(space="default", role="writer")
            http.headers["Authorization"] = f"Bearer {key}"
            await http.post("/runs", json={"objective": "o", "run_id": "r"})
            for seq in range(3):
                with watching() as walk:
                    answer = await http.patch("/runs/r", json={"expected_seq": seq, "patch": {"next_action": f"{seq}"}})
                assert answer.status_code == 200, answer.text
            return walk


def append() -> Walk:
    """Walk with a blocking `session.append`, after some."""
    with tempfile.TemporaryDirectory() as folder, strongroom.open(f"{folder}/agent.db") as ctx:
        session = ctx.sessions.open("s")
        for number in range(3):
            with watching() as walk:
                session.append([{"role": "user", "content": f"hello {number}"}])
        return walk


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<")


def _step(frame: FrameType) -> Step:
    return frame.f_code.co_filename.removeprefix(SOURCE), frame.f_code.co_qualname


def _open(frame: FrameType | None) -> list[Step]:
    """Return the calls that are open, the outermost first."""
    steps: list[Step] = []
    while frame is not None:
        if _is_ours(frame):
            steps.append(_step(frame))
        frame = frame.f_back
    return steps[::-1]


if __name__ == "__main__":
    for name, walk in (("PATCH /runs/{id}", patch()), ("session.append", append())):
        print(f"{name}: {len(walk.steps)} calls in {files(walk.steps)} files; ", end="")
        print(f"with what those call {len(walk.read)} in {files(walk.read)}; ", end="")
        print(f"everything {len(walk.functions)} in {files(walk.functions)}")
        for file, function in walk.steps:
            print(f"  {file:<34} {function}")
