"""The commands that look after a store as a whole: check it, copy it, make it smaller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from strongroom.checking import check as check_store
from strongroom.cli.output import as_json, console, done, holds, many, say, secret, wants_json, working
from strongroom.cli.root import address, cli, is_server, opened
from strongroom.copying import copy as copy_stores
from strongroom.encryption import NEW_VARIABLE, Secret
from strongroom.errors import CommitUnknown, InvalidInput, StoreError, Unavailable


@cli.command()
def check() -> None:
    """Verify every page, row, checksum, index, hash chain and run.

    A run is held against its ledger, from the first event to the last. A ledger without a run is named.
    """
    try:
        with opened(looking=True) as store, working("checking"):
            found = check_store(store)
    except StoreError as failure:
        failure.args = (f"{failure}; so the check has no answer: no run is known to be what its ledger says",)
        raise
    if wants_json():
        as_json(found)
    else:
        say("{}; {}", holds(found), many(found.runs, "run"))
        for problem in found.problems:
            say("[red]bad[/]  {}", problem)
        if found.pending is not None:
            say("[yellow]pending[/]  {}; `strongroom compact` tries to finish it", found.pending)
        if found.ok:
            say("[green]all good[/]")
        else:
            remedy = (
                "finish the copy: `strongroom copy` from the same source" if found.unfinished else "restore a backup"
            )
            say("[red]{} wrong[/]; {}", len(found.problems), remedy)
    if not found.ok:
        raise click.exceptions.Exit(3)


NEW_KEY = click.option("--new-key", is_flag=True, help="Under the key that STRONGROOM_NEW_KEY names, or is asked for.")
DECRYPT = click.option("--decrypt", is_flag=True, help="Without any key.")


@cli.command()
@click.argument("target", type=click.Path(dir_okay=False))
@NEW_KEY
@DECRYPT
def backup(target: str, new_key: bool, decrypt: bool) -> None:
    """Write a copy of the store to a new file, while others go on.

    An encrypted store's copy has the same key, unless another is wanted, or none.
    """
    wanted = _new_key(new_key, decrypt)
    with opened(looking=True) as store, working("copying pages"):
        if not hasattr(store, "backup"):
            raise InvalidInput(
                "a server backs up what it keeps: POST /upkeep/backup, or this command where the file is"
                if is_server(address())
                else "only a SQLite store is one file; use `strongroom copy` for the others"
            )
        store.backup(target, new_key=wanted, decrypt=decrypt)
    size = Path(target).stat().st_size
    done({"path": target, "bytes": size}, "written: {} ({} bytes)", target, f"{size:,}")


@cli.command()
def compact() -> None:
    """Give free space back to the disk."""
    with opened() as store, working("compacting"):
        if not hasattr(store, "compact") or not hasattr(store, "stats"):
            raise InvalidInput(
                "a server's file is compacted by this command where the file is"
                if is_server(address())
                else "this kind of store looks after its own space"
            )
        before = store.stats().file_bytes
        store.compact()
        after = store.stats().file_bytes
    done({"before_bytes": before, "after_bytes": after}, "{} bytes before, {} after", f"{before:,}", f"{after:,}")


def _new_key(new_key: bool, decrypt: bool) -> Secret | None:
    if new_key and decrypt:
        raise InvalidInput("a copy has a new key or none, not both; nothing was written")
    return secret(NEW_VARIABLE, "the new key", confirm=True) if new_key else None


@cli.command()
@click.argument("source")
@click.argument("target")
@NEW_KEY
@DECRYPT
def copy(source: str, target: str, new_key: bool, decrypt: bool) -> None:
    """Copy everything from one store to an empty one, and compare.

    Stores may be of any kind. Versions and hash chains stay as they are. After an interruption the same command goes on
    where it was. A file has the same key as the source, unless another is wanted, or none.

    The commit ids that callers chose do not come along: a call that is repeated in the copy is done again. Finish such
    calls first, or use `backup`, which keeps them, if both stores are SQLite files.
    """
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    if is_server(source) or is_server(target):
        raise InvalidInput("a server shows one space; copy the store it serves, where it is (nothing was copied)")
    if target.startswith("memory:"):
        raise InvalidInput(
            "what is copied into memory ends with this command; name a file or a server's database as the target "
            "(nothing was copied)"
        )
    look = (SpinnerColumn(), TextColumn("copying"), MofNCompleteColumn(), TimeElapsedColumn())
    watched = console(stderr=True)
    bar = Progress(*look, console=watched, transient=True, disable=not watched.is_terminal)
    wanted = _new_key(new_key, decrypt)
    under: dict[str, Any] = {"key": wanted} if new_key or decrypt else {}
    with opened(source, looking=True) as old, opened(target, create=True, **under) as new, bar:
        task = bar.add_task("copying", total=None)
        try:
            copied = copy_stores(old, new, progress=lambda moved: bar.update(task, completed=moved))
        except (KeyboardInterrupt, Unavailable, CommitUnknown):
            watched.print("stopped; the same command goes on where it was")
            raise
    done(copied, "{} and {} copied; both stores agree", many(copied.keys, "key"), many(copied.records, "record"))
    if not wants_json():
        say("[yellow]commit ids did not come along: what is repeated in the copy is done again[/]")
