"""The runs of one server: a store at the root holds all of them, and a folder for each holds readable copies.

Run ids name folders, so an id that could lead out of the root names no run. Milestone tokens, one a run, are in the
store too, so that every worker knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from starlette.exceptions import HTTPException

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.codec import encode
from strongroom.compat import importing_aos
from strongroom.compat.aos_context import _locations
from strongroom.compat.aos_context._exports import export_ledger, export_working_set
from strongroom.compat.aos_context.environment import STORE
from strongroom.errors import NotFound
from strongroom.store import Commit, Delete, Get, Key, Put, Scan, ask, new_id

KIND = "milestone_token"


class Root:
    """Where things are. The path is asked for each time: who embeds the app may set it after importing it."""

    def __init__(self, path: Callable[[], Path]) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        return self._path()

    @property
    def location(self) -> _locations.Location:
        return _locations.Location(self._path().absolute() / STORE)

    @contextmanager
    def store(self, create: bool = True) -> Iterator[Context | None]:
        """Offer the store; None if it is not there and must not be made."""
        if not create and not self.location.made:
            yield None
            return
        with _locations.using(self.location) as ctx:
            yield ctx

    def folder(self, run_id: str) -> Path:
        if not _locations.SAFE_ID.fullmatch(run_id):
            raise HTTPException(404, f"there is no run {run_id!r:.80}")
        return self._path().absolute() / run_id

    def working_set(self, run_id: str) -> Path:
        return self.folder(run_id) / "state" / _locations.WORKING_SET

    def ledger(self, run_id: str) -> Path:
        return self.folder(run_id) / "ledger" / _locations.LEDGER

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
                if taken is None or taken.outcome == "refused":
                    raise HTTPException(404, f"there is no run {run_id!r}") from None
                run = ctx.runs.get(taken.run_id)  # a folder may be called otherwise than its run
            before = run.head().length
            try:
                yield run
            finally:
                if run.head().length != before:
                    export_ledger(run, self.ledger(run_id))


class Tokens(MutableMapping[str, tuple[str, float]]):
    """A run's token and when it ends (seconds since 1970), by run id. Looks like the dict it once was."""

    def __init__(self, using: Callable[[bool], AbstractContextManager[Context | None]]) -> None:
        self._using = using

    def __getitem__(self, run_id: str) -> tuple[str, float]:
        with self._using(False) as ctx:
            found = ask(ctx.store, Get(Key(ctx.space, KIND, run_id))) if ctx is not None else None
        if found is None:
            raise KeyError(run_id)
        told = found.value.load()
        return told["token"], told["ends"]

    def __setitem__(self, run_id: str, token: tuple[str, float]) -> None:
        value = encode({"token": token[0], "ends": float(token[1])})
        with self._using(True) as ctx:
            assert ctx is not None
            ctx.store.commit(Commit(new_id(), (), (Put(Key(ctx.space, KIND, run_id), value),)))

    def __delitem__(self, run_id: str) -> None:
        self[run_id]
        with self._using(True) as ctx:
            assert ctx is not None
            ctx.store.commit(Commit(new_id(), (), (Delete(Key(ctx.space, KIND, run_id)),)))

    def __iter__(self) -> Iterator[str]:
        after: str | None = None
        with self._using(False) as ctx:
            while ctx is not None:
                page = ask(ctx.store, Scan(ctx.space, KIND, {}, after))
                yield from [document.key.id for document in page.documents]
                after = page.next
                if after is None:
                    return

    def __len__(self) -> int:
        return sum(1 for _ in self)
