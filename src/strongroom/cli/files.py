"""`strongroom files`: notes of agents, a path to text."""

from __future__ import annotations

from typing import BinaryIO

import click

from strongroom.cli.output import (
    as_json,
    brief,
    confirm,
    done,
    many,
    moment,
    not_complete,
    page,
    say,
    wants_json,
    write_exactly,
)
from strongroom.cli.root import Count, cli, context
from strongroom.errors import InvalidInput
from strongroom.services.files.values import MAX_FILE_BYTES

PATH = click.argument("path")
EXPECTED = click.option(
    "--expected-version", type=click.IntRange(0, 2**53), help="Refuse if it is at another version; 0: must be new."
)


@cli.group()
def files() -> None:
    """Notes of agents: a path to text, every version kept."""


@files.command("list")
@click.argument("folder", default="/")
@click.option("--after", help="Continue after this cursor.")
@click.option("--limit", default=100, show_default=True, type=Count())
def list_files(folder: str, after: str | None, limit: int) -> None:
    """List the files in a folder, in order of creation."""
    with context() as ctx:
        found = ctx.files.list(folder, after=after, limit=limit)
    rows = [(one.path, one.version, f"{one.bytes:,}", moment(one.updated_at)) for one in found]
    page("files", list(found), ["path", "version", "bytes", "updated (UTC)"], rows, found.next, found.damaged)


@files.command("show")
@PATH
@click.option("--version", type=click.IntRange(1, 2**53), help="As it was then.")
def show_file(path: str, version: int | None) -> None:
    """Print what a file says, now or at a version; into a pipe or a file exactly its bytes."""
    with context() as ctx:
        found = ctx.files.read(path) if version is None else ctx.files.at(path, version)
    if wants_json():
        as_json(found)
    else:
        write_exactly(found.text)


@files.command("write")
@PATH
@click.argument("source", type=click.File("rb"))
@EXPECTED
def write_file(path: str, source: BinaryIO, expected_version: int | None) -> None:
    """Let a file say what SOURCE says, a file on disk or - for what is typed in."""
    try:
        text = source.read(MAX_FILE_BYTES + 1).decode()  # one byte more is enough to be refused
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"{source.name!r:.80} is no text in UTF-8 ({problem.reason}); nothing changed") from None
    with context() as ctx:
        told = ctx.files.write(path, text, expected_version=expected_version)
    done(told, "written: {} at version {}", path, told.version)


@files.command("history")
@PATH
@click.option("--after", help="Continue after this cursor.")
@click.option("--limit", default=100, show_default=True, type=Count())
def file_history(path: str, after: str | None, limit: int) -> None:
    """Show what happened at a path, the oldest first."""
    with context() as ctx:
        found = ctx.files.history(path, after=after, limit=limit)
    rows = [
        (one.version, one.change.replace("_", " "), one.other or "", f"{one.bytes:,}", moment(one.at)) for one in found
    ]
    page("versions", list(found), ["version", "change", "from or to", "bytes", "time (UTC)"], rows, found.next)


@files.command("restore")
@PATH
@click.argument("version", type=click.IntRange(1, 2**53))
@EXPECTED
def restore_file(path: str, version: int, expected_version: int | None) -> None:
    """Let a file say again what it said at a version."""
    with context() as ctx:
        told = ctx.files.restore(path, version, expected_version=expected_version)
    done(told, "restored: {} as it was at version {}, now at {}", path, version, told.version)


@files.command("rename")
@PATH
@click.argument("to")
def rename_file(path: str, to: str) -> None:
    """Move a file, or a folder with all in it."""
    with context() as ctx:
        count = ctx.files.rename(path, to)
    done({"files": count}, "moved: {} to {} ({})", path, to, many(count, "file"))


@files.command("delete")
@PATH
@click.option("--recursive", is_flag=True, help="A folder and all in it.")
def delete_file(path: str, recursive: bool) -> None:
    """Delete a file. Its history stays, and `restore` brings it back."""
    with context() as ctx:
        count = ctx.files.delete(path, recursive=recursive)
    done({"files": count}, "deleted: {} ({})", path, many(count, "file"))


@files.command("erase")
@PATH
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase_file(path: str, yes: bool) -> None:
    """Remove all that a path ever said, for good."""
    with context() as ctx:
        confirm(f"Erase every version of {path!r} for good?", yes=yes)
        told = ctx.files.erase(path)
    on = f"; files that were once there and moved on still stand: {', '.join(told.elsewhere)}" if told.elsewhere else ""
    done(told, "erased: {}, {}{}", path, many(told.versions, "version"), on)


@files.command("search")
@click.argument("query")
@click.option("--folder", default="/", show_default=True, help="Only in this one.")
@click.option("-k", default=5, show_default=True, type=Count(), help="How many hits.")
def search_files(query: str, folder: str, k: int) -> None:
    """Find files by their words."""
    with context() as ctx:
        hits = ctx.files.search(query, folder=folder, k=k)
    if wants_json():
        as_json({"hits": list(hits), "degraded": hits.degraded})
        return
    for hit in hits:
        say("[bold]{}[/]:{}  {}  [dim]{}[/]", hit.path, hit.line, brief(hit.excerpt, 200), f"{hit.score:.3f}")
    if not hits:
        say("[dim]nothing found[/]")
    not_complete(hits.degraded)
