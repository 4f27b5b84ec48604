"""The table of repeats holds every public operation that writes: whoever adds one must add a row, or say it reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from strongroom.blocking import Context
from strongroom.blocking.files import Files
from strongroom.blocking.memories import Memories
from strongroom.blocking.registry import Registry
from strongroom.blocking.runs import Run, Runs
from strongroom.blocking.sessions import Session, Sessions
from strongroom.blocking.threads import Threads
from strongroom.bridge import run
from strongroom.context import AsyncContext
from strongroom.dispatch import AsyncDispatcher, Dispatcher
from strongroom.errors import StrongroomError
from strongroom.services.files.files import AsyncFiles
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.threads.registry import AsyncRegistry
from strongroom.services.threads.threads import AsyncThreads
from tests.repeats.table import ROWS
from tests.services.test_wrong_arguments import World

CLASSES: dict[str, tuple[type, ...]] = {
    "runs": (AsyncRuns, Runs),
    "run": (AsyncRun, Run),
    "sessions": (AsyncSessions, Sessions),
    "session": (AsyncSession, Session),
    "memories": (AsyncMemories, Memories),
    "threads": (AsyncThreads, Threads),
    "registry": (AsyncRegistry, Registry),
    "files": (AsyncFiles, Files),
    "dispatcher": (AsyncDispatcher, Dispatcher),
    "context": (AsyncContext, Context),
}
# What only looks, hands out another handle, or says what somebody else might write. What some of these store is derived
# from what is there already, and made again if it is lost: vectors, summaries.
READS = {
    "runs": {"anchor_milestones", "get", "list", "register_event"},
    "run": {
        "anchor", "artifact", "at", "brief", "diff", "episodes", "events", "follow", "head", "refresh", "replay",
        "usage", "verify",
    },
    "sessions": {"get", "list", "search", "using"},
    "session": {"backlog", "get", "info", "load", "page", "search", "wait", "window"},
    "memories": {
        "at", "batch", "batch_writes", "get", "health", "history", "index", "list", "pack_items", "pending",
        "revocation", "search", "unpack_writes", "using", "would_revoke",
    },
    "threads": {"entry", "follow", "get", "limited", "list", "plan", "register", "slots", "stats", "thread"},
    "registry": {"lookup", "prune"},
    "files": {"at", "history", "limited", "list", "read", "search"},
    # A worker's commits are its own, and nobody could repeat them: see `dispatch.delivery`.
    "context": {"close", "export", "prompt"},
    "dispatcher": {"bind", "close", "dead_letters", "drain", "handler", "run", "stop"},
}  # fmt: skip
WRITES = {part: {row.name.partition(".")[2] for row in ROWS if row.name.startswith(f"{part}.")} for part in CLASSES}


def methods(cls: type) -> set[str]:
    return {name for name, value in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def test_every_row_is_about_an_operation_of_a_service() -> None:
    assert {row.name.partition(".")[0] for row in ROWS} == CLASSES.keys()


@pytest.mark.parametrize("part", CLASSES)
def test_every_public_method_is_in_the_table_or_only_reads(part: str) -> None:
    assert WRITES[part] & READS[part] == set()
    for cls in CLASSES[part][:1]:
        assert methods(cls) == WRITES[part] | READS[part]
    for twin in CLASSES[part][1:]:
        assert methods(twin) <= WRITES[part] | READS[part]
        assert methods(twin) >= WRITES[part]


@pytest.mark.parametrize("part", CLASSES)
def test_every_operation_of_the_table_takes_a_commit_id_and_nothing_else_does(part: str) -> None:
    for cls in CLASSES[part]:
        takers = {name for name in methods(cls) if "commit_id" in inspect.signature(getattr(cls, name)).parameters}
        assert takers == WRITES[part], cls


def reading() -> Iterator[Any]:
    for part, names in READS.items():
        for name in sorted(names - {"using"}):
            yield pytest.param(part, name, id=f"{part}.{name}")


@pytest.mark.parametrize(("part", "name"), list(reading()))
def test_what_is_said_to_read_writes_nothing(
    part: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a file that is asked for is made there
    world = World()
    method: Callable[..., Any] = getattr(world.part(part), name, None) or getattr(world.part(part)._async, name)
    world.ctx.store.commit = unwritten  # type: ignore[method-assign]
    parameters = inspect.signature(method).parameters.values()
    given = {each.name: world.usual(each.name) for each in parameters if each.default is each.empty}
    for rest in ("filters", "options"):
        given.pop(rest, None)
    with suppress(StrongroomError):  # it may have been asked for something that is not there
        answer = method(**given, **({"idle_seconds": 0.0} if name == "follow" else {}))
        if inspect.iscoroutine(answer):
            run(answer)
        elif inspect.isgenerator(answer):
            list(answer)


def unwritten(commit: Any) -> Any:
    raise AssertionError(f"it wrote {commit}")
