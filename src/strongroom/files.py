"""The edge to the file system: reading what is attached or restored, writing packs whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from strongroom.errors import InvalidInput, NotFound, Unavailable

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

_REASONS = {
    errno.EACCES: "read_only",
    errno.EPERM: "read_only",
    errno.EROFS: "read_only",
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EFBIG: "file_too_large",
}
CHUNK = 1 << 18
MAX_LINE = 1 << 16


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading, with our own errors."""
    found = path_of(path)
    try:
        with found.open("rb") as file:
            yield file
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound(f"there is no file {os.fspath(path)!r}", kind="file", id=os.fspath(path)) from None
    except OSError as problem:
        raise Unavailable(f"{os.fspath(path)!r} cannot be read ({problem.strerror})", reason="io") from None


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
def writing(path: str | os.PathLike[str], *, over: tuple[bytes, ...] = (b"",)) -> Iterator[BinaryIO]:
    """Offer a new file that takes the place of `path` once it is complete and on disk.

    Of what is there already only that is replaced which begins in one of these ways, or is empty."""
    target = path_of(path)
    if not target.name:
        raise InvalidInput(f"{os.fspath(path)!r:.80} is not a name that a file could have")
    _require_like(target, over, "would be lost by writing over it")
    partial = target.with_name(f".{target.name}.{os.urandom(6).hex()}.partial")
    complete = False
    try:
        with partial.open("xb+") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        complete = True
        _sync_folder(target)
    except OSError as problem:
        raise not_written(path, problem, nothing=not complete) from None
    finally:
        with suppress(OSError):  # whatever kept it from being made
            partial.unlink()


def _require_like(target: Path, begin: tuple[bytes, ...], why: str) -> None:
    try:
        if not target.is_file():
            return  # a folder, say: whoever writes is told
        with target.open("rb") as file:
            found = file.read(max(map(len, begin)))
    except OSError as problem:
        raise not_written(target, problem) from None
    if found and not found.startswith(begin):
        raise InvalidInput(
            f"{str(target)!r:.200} is there already, is no file of this kind and {why}; name another one (nothing was "
            "written)"
        )


def add_line(path: str | os.PathLike[str], line: bytes) -> None:
    """Add a line of JSON to the end of a file of such lines, and return when it is on disk. Whoever else does so at the
    same time waits.

    A process that is killed leaves a part of its line at most; the next line begins on a line of its own.
    """
    target = path_of(path)
    _require_like(target, (b"{", b"\n"), "would be damaged by a line more")
    begun = False
    try:
        is_new = not target.exists()
        with target.open("ab+", buffering=0) as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            torn = size > 0 and file.read(1) != b"\n"
            whole = (b"\n" if torn else b"") + line + b"\n"
            begun = True
            if file.write(whole) != len(whole):
                raise Unavailable(f"{os.fspath(path)!r} took only a part of a line: is the disk full?", reason="io")
            os.fsync(file.fileno())
        if is_new:
            _sync_folder(target)
    except OSError as problem:
        raise not_written(path, problem, nothing=not begun) from None


def not_written(path: str | os.PathLike[str], problem: OSError, *, nothing: bool = True) -> Unavailable:
    """Return why a file that a caller named cannot be written: by the name it was given, not that of the one beside it
    which is written first. `nothing` says that nothing was written."""
    told = f"{os.fspath(path)!r} cannot be written ({problem.strerror or problem})" + "; nothing was written" * nothing
    return Unavailable(told, reason=_REASONS.get(problem.errno or 0, "io"))


def read_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a file, none of them empty."""
    with opened(path) as file:
        while line := file.readline(MAX_LINE):
            if line.strip():
                yield line.rstrip(b"\n")


def _sync_folder(target: Path) -> None:
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def path_of(path: Any) -> Path:
    """Return a path, or raise `InvalidInput` if it cannot be one."""
    try:
        found = Path(path)
        if b"\0" not in os.fsencode(found):
            return found
    except (TypeError, UnicodeEncodeError):
        pass
    raise InvalidInput(f"a path must be text that can name a file, not {path!r:.80}")


def is_read_only(path: Path) -> bool:
    """Tell whether we cannot write a store in this file: SQLite writes beside it too."""
    if may_write(path.parent):
        return not may_write(path)
    return not all(may_write(Path(f"{path}{suffix}")) for suffix in ("", "-wal", "-shm", "-queue"))


def may_write(path: Path) -> bool:
    """Tell whether we may write a file, or into a folder."""
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
