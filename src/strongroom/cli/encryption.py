"""The commands that put a store under a key, take it off, and change it.

Keys come from the environment, or from whoever sits at the keyboard; never from the command line, which others can see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from strongroom.backends.sqlite import rekey as rekey_file
from strongroom.cli.output import console, done, secret
from strongroom.cli.root import address, cli, file_of, require_there
from strongroom.encryption import NEW_VARIABLE, VARIABLE, Secret
from strongroom.errors import InvalidInput


@cli.command()
def encrypt() -> None:
    """Put a store under a key, all of it at once.

    The key is named by STRONGROOM_KEY, STRONGROOM_KEY_FILE or STRONGROOM_KEY_COMMAND, or asked for.
    """
    _rekey(None, secret(VARIABLE, "the key", confirm=True), "encrypted")


@cli.command()
def decrypt() -> None:
    """Take the key off a store."""
    _rekey(secret(VARIABLE, "the key"), None, "decrypted")


@cli.command()
def rekey() -> None:
    """Put a store under another key.

    The new one is named by STRONGROOM_NEW_KEY, STRONGROOM_NEW_KEY_FILE or STRONGROOM_NEW_KEY_COMMAND, or asked for.
    """
    old = secret(VARIABLE, "the key")
    _rekey(old, secret(NEW_VARIABLE, "the new key", confirm=True), "under its new key")


def _rekey(key: Secret | None, new_key: Secret | None, told: str) -> None:
    url = address()
    path = file_of(url)
    if path is None:
        raise InvalidInput("only a SQLite store is one file that can be encrypted; nothing changed")
    require_there(url)
    with _progress() as progress:
        rekey_file(path, key=key, new_key=new_key, progress=progress)
    done({"path": str(path), "encrypted": new_key is not None}, "{}: {}", told, path)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    from rich.progress import Progress

    watched = console(stderr=True)
    with Progress(console=watched, transient=True, disable=not watched.is_terminal) as bar:
        task = bar.add_task("writing", total=None)
        yield lambda written, total: bar.update(task, completed=written, total=total)
