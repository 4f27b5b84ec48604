"""Adding `strongroom mcp` to the configuration of an assistant, and taking it out again.

First it is decided what a file would say, then it is written. A file is replaced whole or not at all, and what it said
before is kept, so that an undo gives back the very same bytes; if somebody has edited the file since, the undo takes
out our entry alone.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.mcp.clients import Client, Entry

MOST_BYTES = 16 * 1024 * 1024


class Change(Struct, frozen=True):
    """What would be written: the file, its text before (None: there is none) and after (None: it goes)."""

    file: Path
    before: str | None
    after: str | None


class Kept(Struct, frozen=True):
    """What an undo needs: what a file said before and what we wrote. `made`: no file was there before our entries."""

    before: str | None
    after: str
    file: str = ""
    made: bool = False


def adding(client: Client, file: Path, name: str, entry: Entry) -> Change:
    """Say what installing changes."""
    before = _text(file)
    try:
        return Change(file, before, client.add(before or "", name, entry))
    except InvalidInput as problem:
        raise InvalidInput(f"{file}: {problem}") from None


def by_hand(client: Client, name: str, entry: Entry) -> str:
    """Say what a person adds to a file that is left alone: what it would say if nothing else were in it."""
    return client.add("", name, entry)


def removing(client: Client, file: Path, name: str, record: Path) -> Change:
    """Say what undoing changes: back to the bytes from before, or if others wrote since, our entry alone goes, and with
    the last one the file, if we made it.
    """
    before = _text(file)
    if before is None:
        raise InvalidInput(f"there is no {file}; nothing changed")
    kept = _kept(record)
    if kept is not None and kept.after == before:
        return Change(file, before, kept.before)
    try:
        left = client.remove(before, name)
        ours = kept is not None and kept.made and _is_bare(client, left)
        return Change(file, before, None if ours else left)
    except InvalidInput as problem:
        raise InvalidInput(f"{file}: {problem}") from None


def write(change: Change, record: Path) -> None:
    """Install: write what was decided, and keep what an undo needs. The file is whole at every moment."""
    assert change.after is not None
    kept = _kept(record)
    # Installed twice, the undo goes back to before the first time.
    before = kept.before if kept is not None and kept.after == change.before else change.before
    made = change.before is None or any(other.made for other in _entries_in(change.file, record.parent))
    _replace(record, msgspec.json.encode(Kept(before, change.after, str(change.file), made)), mode=0o600)
    _replace(change.file, change.after.encode(), mode=None)


def restore(change: Change, record: Path) -> None:
    """Undo: write what was decided; a file that was not there before goes."""
    if change.after is None:
        change.file.unlink()
    else:
        _replace(change.file, change.after.encode(), mode=None)
    record.unlink(missing_ok=True)


def record_of(data_folder: Path, client: Client, file: Path, name: str) -> Path:
    """Return where it is kept what a file said before."""
    safe = re.sub(r"[^A-Za-z0-9]+", "-", str(file))[-120:].strip("-")
    return data_folder / "installed" / f"{client.name}-{name}-{safe}.json"


def check_name(name: str) -> str:
    """Return a name that may stand in every client's configuration, or raise `InvalidInput`."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise InvalidInput(f"a name must be 1 to 64 letters, digits, - and _, not {name!r:.80}; nothing changed")
    return name


def our_command(arguments: Sequence[str] = sys.argv) -> tuple[str, ...]:
    """Return how this very program is started from anywhere: by its full path, or by its interpreter."""
    script = in_place(arguments[0])
    if script.name == "strongroom" and os.access(script, os.X_OK):
        return (str(script),)
    return (str(in_place(sys.executable)), "-m", "strongroom")


def in_place(file: str) -> Path:
    """Return the full path of a file, whose folder is the real one. A link that it is itself stays one: the interpreter
    of an environment is found by the name of the link, and a link may be led to a newer program."""
    return Path(file).parent.resolve() / Path(file).name


def _text(file: Path) -> str | None:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InvalidInput(f"{file} is larger than {MOST_BYTES} bytes; nothing changed")
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"cannot read {file}: {problem}; nothing changed") from None


def _entries_in(file: Path, records: Path) -> list[Kept]:
    """Return what is kept for the entries that we have in a file."""
    found = [_kept(record) for record in records.iterdir() if record.is_file()] if records.is_dir() else []
    return [kept for kept in found if kept is not None and kept.file == str(file)]


def _is_bare(client: Client, text: str) -> bool:
    """Tell whether a text is what is left of a file that held one entry and nothing else."""
    bare = client.remove(client.add("", "x", Entry("x", ())), "x")
    return text.split() == bare.split()


def _kept(record: Path) -> Kept | None:
    try:
        return msgspec.json.decode(record.read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return None


def _replace(file: Path, content: bytes, *, mode: int | None) -> None:
    real = file.resolve()  # a link stays a link
    try:
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if mode is None:
            mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        descriptor, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        try:
            with os.fdopen(descriptor, "wb") as made:
                made.write(content)
                made.flush()
                os.fsync(made.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(real)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise InvalidInput(f"cannot write {file}: {problem.strerror}; it is as it was") from None
