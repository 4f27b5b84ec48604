"""The runs of one server: a store at the root holds all of them, and a folder for each holds readable copies.

Run ids name folders, so an id that could lead out of the root names no run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.exceptions import HTTPException

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.compat import importing_aos
from strongroom.compat.aos_context import _places
from strongroom.compat.aos_context._exports import export_ledger, export_working_set
from strongroom.errors import NotFound

SAFE_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


class Root:
    """Where things are. The path is asked for each time: who embeds the app may set it after importing it."""

    def __init__(self, path: Callable[[], Path]) -> None:
        self._path = path

    @property
    def place(self) -> _places.Place:
        return _places.Place(self._path().absolute() / _places.STORE)

    @contextmanager
    def store(self, create: bool = True) -> Iterator[Context | None]:
        """Offer the store; None if it is not there and must not be made."""
        if not create and not self.place.made:
            yield None
            return
        with _places.using(self.place) as ctx:
            yield ctx

    def folder(self, run_id: str) -> Path:
        if not SAFE_ID.fullmatch(run_id):
            raise HTTPException(404, f"there is no run {run_id!r:.80}")
        return self._path().absolute() / run_id

    def working_set(self, run_id: str) -> Path:
        return self.folder(run_id) / "state" / _places.WORKING_SET

    def ledger(self, run_id: str) -> Path:
        return self.folder(run_id) / "ledger" / _places.LEDGER

    def copy(self, run: Run) -> None:
        """Write a run's readable copies."""
        export_working_set(run, self.working_set(run.id))
        export_ledger(run, self.ledger(run.id))

    @contextmanager
    def run(self, run_id: str) -> Iterator[Run]:
        """Offer a run, taking a folder in that was there before the store; bring its ledger's copy up to date after."""
        folder, old = self.folder(run_id), self.working_set(run_id).exists()
        with self.store(create=old) as ctx:
            if ctx is None:
                raise HTTPException(404, f"there is no run {run_id!r}")
            try:
                run = ctx.runs.get(run_id)
            except NotFound:
                taken = importing_aos.import_run(folder, ctx) if old else None
                if taken is None or taken.run_id != run_id or taken.outcome == "refused":
                    raise HTTPException(404, f"there is no run {run_id!r}") from None
                run = ctx.runs.get(run_id)
            before = run.head().length
            try:
                yield run
            finally:
                if run.head().length != before:
                    export_ledger(run, self.ledger(run_id))
