"""Checks and backups that a server makes when an operator tells it to. What came of the last ones is kept in the store,
in a space of its own, so every worker knows of it and a restart forgets nothing."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from shutil import disk_usage
from typing import Any, Literal

import apsw
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strongroom.checking import Checked, SpaceSize, check
from strongroom.codec import pack
from strongroom.errors import InvalidInput
from strongroom.opening import open_store
from strongroom.operations import Plan, step
from strongroom.scope import Scope
from strongroom.server.responses import Refusal
from strongroom.server.settings import Settings, file_of
from strongroom.store import AsyncStore, Document, Expect, Get, Key, Put

log = logging.getLogger("strongroom.server")

SPACE = "strongroom:upkeep"
KNOWN = Key(SPACE, "upkeep", "known")
MOST_PROBLEMS = 20
MOST_BACKUPS = 20
MOST_SPACES = 100
MOST_GROWING = 20  # spaces whose growth is kept
MOST_SIZES = 30  # checks

Work = Literal["check", "backup"]


class LastCheck(Struct, frozen=True):
    """What the last check of the whole store found. It has seen everything, so it has counted, too: `spaces` are the
    largest, as large as they were then, and `more_spaces` says how many there are besides."""

    at: datetime
    seconds: float
    ok: bool
    documents: int = 0
    records: int = 0
    runs: int = 0
    problems: tuple[str, ...] = ()
    pending: str | None = None
    spaces: tuple[SpaceSize, ...] = ()
    more_spaces: int = 0


class Backup(Struct, frozen=True):
    """A copy of the store in the server's folder of backups, read back and checked."""

    name: str
    at: datetime
    bytes: int
    ok: bool


class Size(Struct, frozen=True):
    """How many bytes the largest spaces held at a check."""

    at: datetime
    spaces: dict[str, int]


class Known(Struct, frozen=True):
    """`sizes` are those of the last checks, the oldest first."""

    check: LastCheck | None = None
    backups: tuple[Backup, ...] = ()
    sizes: tuple[Size, ...] = ()


class Failed(Struct, frozen=True):
    """What could not be made, and the kind of error. What it says names folders of the server, so the log has that."""

    work: Work
    at: datetime
    error: str


class Location(Struct, frozen=True):
    """Where a store is: on what, the name of its file without its folder, and how much room is left there."""

    kind: str
    file: str | None = None
    free_bytes: int | None = None


class Upkeep:
    """One at a time, in a thread, beside all requests."""

    def __init__(self, store: AsyncStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._task: asyncio.Task[None] | None = None
        self.running: Work | None = None
        self.failed: Failed | None = None

    async def known(self) -> Known:
        return _known(await Scope(self._store, SPACE).get(Get(KNOWN)))

    async def place(self) -> Location:
        return await asyncio.to_thread(_place, self._settings.url)

    def start(self, work: Work) -> None:
        """Begin, and return at once; `known` tells what came of it."""
        if self.running is not None:
            raise Refusal(409, "busy", f"a {self.running} is being made; nothing changed", headers={"Retry-After": "5"})
        if self._settings.url.startswith("memory:"):
            raise InvalidInput("this store is in memory: there is nothing to check or to copy; nothing changed")
        if work == "backup" and not _is_file(self._settings.url):
            raise InvalidInput(
                "only a SQLite store is one file: back this one up with its server's own tools, or copy it with "
                "`strongroom copy`; nothing changed"
            )
        self.running, self.failed = work, None
        self._task = asyncio.create_task(self._run(work), name=f"strongroom-{work}")

    async def close(self) -> None:
        """Wait for what was begun: a thread cannot be stopped half way."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, work: Work) -> None:
        try:
            made: LastCheck | Backup
            if work == "check":
                made = await asyncio.to_thread(_check, self._settings.url)
            else:
                made = await asyncio.to_thread(_backup, self._settings.url, Path(self._settings.backups))
            await self._keep(made)
        except Exception as problem:  # whoever began it reads why it came to nothing, whatever the reason is
            log.error("a %s could not be made: %s", work, type(problem).__name__)
            self.failed = Failed(work, datetime.now(UTC), type(problem).__name__)
        finally:
            self.running = None

    async def _keep(self, made: LastCheck | Backup) -> None:
        """Add to what is known, which another worker may have done meanwhile."""
        scope = Scope(self._store, SPACE)

        async def attempt() -> Plan[None]:
            found = await scope.get(Get(KNOWN))
            known = _known(found)
            more = with_check(known, made) if isinstance(made, LastCheck) else with_backup(known, made)
            return Plan((Expect(KNOWN, found.version if found else 0),), (Put(KNOWN, pack(more)),), lambda _: None)

        await step(scope, KNOWN, attempt)


def _known(found: Document | None) -> Known:
    return Known() if found is None else msgspec.json.decode(found.value, type=Known)


def with_backup(known: Known, made: Backup) -> Known:
    """Return what is known after one more backup."""
    return replace(known, backups=(made, *known.backups)[:MOST_BACKUPS])


def with_check(known: Known, made: LastCheck) -> Known:
    """Return what is known after one more check."""
    size = Size(made.at, {each.space: each.bytes for each in made.spaces[:MOST_GROWING]})
    return replace(known, check=made, sizes=(*known.sizes, size)[-MOST_SIZES:])


def _is_file(url: str) -> bool:
    scheme, mark, _ = url.partition("://")
    return not mark or scheme in ("sqlite", "file")


def _place(url: str) -> Location:
    if _is_file(url):
        path = file_of(url)
        return Location(
            f"SQLite {apsw.sqlite_lib_version()}", path.name, disk_usage(path.parent).free if path.exists() else None
        )
    scheme = url.partition("://")[0]
    return Location({"postgresql": "PostgreSQL", "postgres": "PostgreSQL", "memory": "memory"}.get(scheme, "Redis"))


def _check(url: str) -> LastCheck:
    start = datetime.now(UTC)
    with closing(_opened(url)) as store:
        found: Checked = check(store)
    return LastCheck(
        at=start,
        seconds=(datetime.now(UTC) - start).total_seconds(),
        ok=found.ok,
        documents=found.documents,
        records=found.records,
        runs=found.runs,
        problems=found.problems[:MOST_PROBLEMS],
        pending=found.pending,
        spaces=found.spaces[:MOST_SPACES],
        more_spaces=max(0, len(found.spaces) - MOST_SPACES),
    )


def _backup(url: str, folder: Path) -> Backup:
    start = datetime.now(UTC)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"strongroom-{start:%Y%m%d-%H%M%S-%f}.db"
    with closing(_opened(url)) as store:
        store.backup(target)
    with closing(_opened(str(target), read_only=True)) as copy:  # or it would not be known for a backup any more
        ok = check(copy).ok
    return Backup(target.name, start, target.stat().st_size, ok)


def _opened(url: str, **options: Any) -> Any:
    return open_store(url, **options)
