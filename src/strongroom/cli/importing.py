"""`strongroom import`: bring in what other systems keep in files and databases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from strongroom.adapters.importing_openai_agents import import_sessions
from strongroom.adapters.mem0.importing import import_memories
from strongroom.blocking import Context
from strongroom.cli.output import as_json, brief, facts, say, wants_json, working, write
from strongroom.cli.root import address, cli, context, is_there
from strongroom.compat.importing_aos import import_runs
from strongroom.compat.importing_contextstore import import_contextstore
from strongroom.errors import InvalidInput

PATH = click.argument("path", type=click.Path(exists=True))
SOURCE = click.argument("source")
WORDS = {"skipped": "there already", "pending": "waiting for review"}
DRY = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


@cli.group("import")
def imports() -> None:
    """Bring in what other systems keep in files and databases."""


@imports.command("aos")
@PATH
@DRY
def from_aos(path: str, dry_run: bool) -> None:
    """Bring in a run folder of AoS Context, or all in a folder."""
    with _target(dry_run) as ctx, working("importing"):
        # With nothing to compare with, any address will do: a dry run opens none.
        report = import_runs(path, address() if ctx is None else ctx, dry_run=dry_run)
    if wants_json():
        as_json({"runs": report.runs, "ok": report.ok, "dry_run": report.dry_run})
    else:
        write(str(report))
        _ending(dry_run)
    if not report.ok:
        raise click.exceptions.Exit(1)


@imports.command("contextstore")
@PATH
@DRY
def from_contextstore(path: str, dry_run: bool) -> None:
    """Bring in the sessions of a ContextStore file."""
    with _target(dry_run) as ctx, working("importing"):
        report = import_contextstore(path, ctx, dry_run=dry_run)
    damaged = [f"{one.session_id}: {brief(one.reason)}" for one in report.damaged]
    counts = {"sessions": report.sessions, "messages": report.messages}
    _tell(report, dry_run, **counts, damaged=damaged, skipped=report.skipped)


@imports.command("langgraph")
@SOURCE
@DRY
def from_langgraph(source: str, dry_run: bool) -> None:
    """Bring in the checkpoints of LangGraph.

    SOURCE is a file of SqliteSaver, or the address of a database of PostgresSaver: postgresql://...
    """
    bring = _of("LangGraph", "langgraph").import_checkpoints
    with _target(dry_run) as ctx, working("importing"):
        told = bring(source, None if dry_run else ctx)
    _tell(told, dry_run, threads=told.threads, checkpoints=told.checkpoints, writes=told.writes, skipped=told.skipped)


@imports.command("adk")
@SOURCE
@DRY
def from_adk(source: str, dry_run: bool) -> None:
    """Bring in the sessions of Google's ADK.

    SOURCE is a file of SqliteSessionService, or the address of a database of DatabaseSessionService:
    sqlite:///... or postgresql://...
    """
    bring = _of("google-adk", "adk").import_sessions
    with _target(dry_run) as ctx, working("importing"):
        told = bring(source, None if dry_run else ctx)
    counts = {"sessions": told.sessions, "events": told.events, "states": told.states}
    _tell(told, dry_run, **counts, skipped=told.skipped, damaged=told.damaged)


@imports.command("mem0")
@SOURCE
@click.option("--collection", default="mem0", show_default=True, help="The collection, or table, to read.")
@DRY
def from_mem0(source: str, collection: str, dry_run: bool) -> None:
    """Bring in the memories of mem0.

    SOURCE is the folder of its local Qdrant store, or the address of a database of its pgvector store: postgresql://...
    """
    with _target(dry_run) as ctx, working("importing"):
        told = import_memories(source, None if dry_run else ctx, collection=collection)
    refused = [brief(one) for one in told.refused]
    _tell(told, dry_run, memories=told.memories, skipped=told.skipped, pending=told.pending, refused=refused)


@imports.command("openai-agents")
@PATH
@DRY
def from_openai_agents(path: str, dry_run: bool) -> None:
    """Bring in the conversations of an OpenAI Agents SQLite file."""
    with _target(dry_run) as ctx, working("importing"):
        told = import_sessions(path, None if dry_run else ctx)
    _tell(told, dry_run, sessions=told.sessions, items=told.items, skipped=told.skipped, damaged=told.damaged)


def _of(framework: str, extra: str) -> Any:
    """Return the importing module of an adapter whose framework may not be installed."""
    try:
        return import_module(f"strongroom.adapters.{extra}.importing")
    except ImportError:
        needed = f"this needs {framework}: pip install 'strongroom[{extra}]'; nothing changed"
        raise InvalidInput(needed) from None


def _tell(told: Any, dry_run: bool, **found: int | Sequence[str]) -> None:
    """Say what was brought in: all of it to a program, what counts to a person."""
    if wants_json():
        as_json(told)
        return
    facts({WORDS.get(name, name): f"{what:,}" if isinstance(what, int) else what for name, what in found.items()})
    _ending(dry_run)


@contextmanager
def _target(dry_run: bool) -> Iterator[Context | None]:
    """Open the store to write to. A dry run compares with it if it is there, and makes none."""
    if dry_run and not is_there(address()):
        yield None
        return
    with context(create=True) as ctx:
        yield ctx


def _ending(dry_run: bool) -> None:
    if dry_run:
        say("[yellow]a dry run: nothing was written[/]")
