"""The edge to the file system: reading what is attached or restored, writing packs whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from strongroom.errors import InvalidInput, NotFound, Unavailable

CHUNK = 1 << 18


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading, with our own errors."""
    found = path_of(path)
    try:
        with found.open("rb") as file:
            yield file
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound(
            f"there is no file {os.fspath(path)!r}; nothing changed", kind="file", id=os.fspath(path)
        ) from None
    except OSError as problem:
        raise Unavailable(
            f"{os.fspath(path)!r} can not be read ({problem.strerror}); nothing changed", reason="io"
        ) from None


@contextmanager
def reading(source: str | os.PathLike[str] | bytes) -> Iterator[Iterator[bytes]]:
    """Offer the content of a file, or bytes, in chunks."""
    if isinstance(source, bytes):
        yield (source[place : place + CHUNK] for place in range(0, len(source), CHUNK))
    else:
        with opened(source) as file:
            yield iter(lambda: file.read(CHUNK), b"")


def name_of(source: str | os.PathLike[str] | bytes) -> str:
    """Return what to call attached content: a file's name, nothing for bytes."""
    return "" if isinstance(source, bytes) else Path(source).name


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Offer a new file that takes the place of `path` once it is complete and on disk."""
    target = path_of(path)
    if not target.name:
        raise InvalidInput(f"{os.fspath(path)!r:.80} is not a name that a file could have; nothing changed")
    partial = target.with_name(f".{target.name}.{os.urandom(6).hex()}.partial")
    try:
        with partial.open("xb+") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as problem:
        raise Unavailable(f"{os.fspath(path)!r} can not be written ({problem.strerror})", reason="io") from None
    finally:
        with suppress(OSError):  # whatever kept it from being made
            partial.unlink()


def path_of(path: Any) -> Path:
    """Return a path, or raise `InvalidInput` if it can not be one."""
    try:
        found = Path(path)
        if b"\0" not in os.fsencode(found):
            return found
    except (TypeError, UnicodeEncodeError):
        pass
    raise InvalidInput(f"a path must be text that can name a file, not {path!r:.80}; nothing changed")
