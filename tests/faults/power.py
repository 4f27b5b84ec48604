"""Power cuts: everything acknowledged is there afterwards, and the file is whole.

Theory of operation
-------------------
Real processes commit and checkpoint through `Recorder`, a `Disk` that notes every operation in one log, in the order
in which it happened, together with every acknowledgement. `Replay` then cuts the power at any place in that log, as
often as you like: what was written before an fsync of its file is on the disk, whole; of what was written since, each
512-byte sector may be there or not, in any order. `survivors` makes the files as they would be found; a store opened
on them must pass `faults.check`.

What makes the log trustworthy with several processes: a write is noted before SQLite learns that it is done, so whoever
relies on it is noted later; an fsync is noted before it starts, so it covers nothing that came during it. Names are
treated like content: a created or deleted file is so for certain only after its folder was synced, which SQLite does
at the first fsync of a log or journal.

Call these in a process of their own, or run `python -m tests.faults.power --cuts 20000`.
"""

from __future__ import annotations

import argparse
import os
import random
import struct
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw
from msgspec import Struct, json

from strongroom.backends.sqlite import SqliteStore
from strongroom.errors import StrongroomError
from tests.faults.checks import Broken, Checkpointing, Lost, check, check_file, step
from tests.faults.disk import Disk, Kind, Operation

Make = Callable[[Path], SqliteStore]
Image = dict[str, bytes]  # what is on the disk: "", "-wal" or "-journal" to content

NAME = "agent.db"
SECTOR = 512

_HEAD = struct.Struct("<c8sQqI")
_LETTERS: dict[Kind, bytes] = {"open": b"O", "write": b"W", "truncate": b"T", "sync": b"S", "delete": b"D"}
_ACKNOWLEDGED, _FOLDER_SYNCED = b"A", b"F"


class Recorder(Disk):
    """Note every operation on a database in a log that several processes append to."""

    def __init__(self, path: str | os.PathLike[str], log: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        os.close(self._log)

    def acknowledge(self, writer: int, number: int) -> None:
        """Note that a writer was told of its commit `number`."""
        self._note(_ACKNOWLEDGED, "", writer, number)

    def before(self, operation: Operation) -> int:
        code = super().before(operation)
        if not code and operation.kind in ("sync", "delete"):
            self._note(_LETTERS[operation.kind], operation.part, operation.file, operation.offset)
        return code

    def after(self, operation: Operation) -> None:
        if operation.kind in ("open", "write", "truncate"):
            data = operation.data if operation.kind == "write" else b""
            self._note(_LETTERS[operation.kind], operation.part, operation.file, operation.offset, data)
        elif operation.kind == "delete" and operation.offset:
            self._note(_FOLDER_SYNCED, "", 0, 0)
        super().after(operation)

    def _note(self, letter: bytes, part: str, file: int, offset: int, data: bytes = b"") -> None:
        os.write(self._log, _HEAD.pack(letter, part.encode(), file, offset, len(data)) + data)


class _File:
    """One file: what is certain, and what was written to it since."""

    def __init__(self, content: bytes = b"") -> None:
        self.certain = bytearray(content)
        self.pending: list[tuple[bytes, int, bytes]] = []

    def settle(self) -> None:
        for change in self.pending:
            _apply(self.certain, change)
        self.pending.clear()


class Replay:
    """A log played again up to any place: what is certain to be on the disk there, and what may be."""

    def __init__(self, log: bytes, *, base: Image | None = None, writers: int = 1) -> None:
        self.events = list(_parse(log))
        self.acknowledged = [0] * writers
        self.position = 0
        self._now: dict[str, _File] = {part: _File(content) for part, content in (base or {}).items()}
        self._certain = dict(self._now)
        self._names: list[tuple[str, _File | None]] = []  # created and deleted since the folder was synced
        self._inodes: dict[str, int] = {}

    def advance(self, position: int) -> None:
        """Play on to just before the event at a position."""
        while self.position < position:
            letter, part, file, offset, data = self.events[self.position]
            self.position += 1
            if letter == _ACKNOWLEDGED:
                self.acknowledged[file] = offset
            elif letter == _FOLDER_SYNCED:
                self._settle_names()
            elif letter == b"O":
                self._open(part, file)
            elif letter == b"D":
                self._inodes.pop(part, None)
                self._now.pop(part, None)
                self._names.append((part, None))
            elif letter == b"S":
                found = self._now[part]
                found.settle()
                if part and any(new is found for _, new in self._names):
                    self._settle_names()
            else:
                self._now[part].pending.append((letter, offset, data))

    def survivors(self, rng: random.Random) -> Image:
        """Return one of the states in which the disk may be found if the power fails here."""
        names = dict(self._certain)
        for part, file in self._names[: rng.randint(0, len(self._names))]:
            _rename(names, part, file)
        luck = rng.choice([0.0, 0.2, 0.5, 0.8, 1.0])
        torn = rng.random() < 0.5
        return {part: _after_the_cut(file, rng, luck, torn) for part, file in names.items()}

    def _open(self, part: str, inode: int) -> None:
        if part not in self._now:
            self._now[part] = _File()
            self._names.append((part, self._now[part]))
        elif self._inodes.get(part, inode) != inode:
            raise Broken(f"{NAME}{part} was exchanged without having been deleted")
        self._inodes[part] = inode

    def _settle_names(self) -> None:
        for part, file in self._names:
            _rename(self._certain, part, file)
        self._names.clear()


def _parse(log: bytes) -> Iterator[tuple[bytes, str, int, int, bytes]]:
    at = 0
    while at < len(log):
        letter, part, file, offset, size = _HEAD.unpack_from(log, at)
        at += _HEAD.size + size
        yield letter, part.rstrip(b"\0").decode(), file, offset, log[at - size : at]


def _rename(names: dict[str, _File], part: str, file: _File | None) -> None:
    if file is None:
        names.pop(part, None)
    else:
        names[part] = file


def _apply(content: bytearray, change: tuple[bytes, int, bytes]) -> None:
    letter, offset, data = change
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if letter == b"T":
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


def _after_the_cut(file: _File, rng: random.Random, luck: float, torn: bool) -> bytes:
    content = bytearray(file.certain)
    for letter, offset, data in file.pending:
        if letter == b"W" and torn:
            for start, piece in _sectors(offset, data):
                if rng.random() < luck:
                    _apply(content, (letter, start, piece))
        elif rng.random() < luck:
            _apply(content, (letter, offset, data))
    return bytes(content)


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        size = SECTOR - (offset + at) % SECTOR
        yield offset + at, data[at : at + size]
        at += size


# ---- campaigns ------------------------------------------------------------------------------------------------------


class Report(Struct, frozen=True):
    """What became of the cuts: in how many something acknowledged was missing, or the file was not whole."""

    cuts: int
    lost: int
    damaged: int
    events: int
    acknowledged: int
    example: str = ""


def record(
    folder: str | Path,
    *,
    writers: int = 4,
    commits: int = 40,
    make: Make = Checkpointing,
    base: Image | None = None,
    start: Sequence[int] | None = None,
    upkeep: Callable[[SqliteStore], None] | None = None,
) -> Replay:
    """Let writers commit at the same time, each in a process of its own, and return what they did to the disk.

    `base` and `start` say what is there already, and how many steps of each writer. `upkeep` is what the first
    writer does after every tenth of its commits.
    """
    path, log = Path(folder) / NAME, Path(folder) / "log"
    lay_out(folder, base or {})
    log.write_bytes(b"")
    done = list(start or [0] * writers)
    gate_out, gate_in = os.pipe()
    children = []
    for writer in range(writers):
        child = os.fork()
        if child == 0:
            os.close(gate_in)
            os.read(gate_out, 1)  # ends when the parent closes the other end, for all at once
            _write(path, log, writer, range(done[writer] + 1, done[writer] + commits + 1), make, upkeep)
        children.append(child)
    os.close(gate_out)
    os.close(gate_in)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    if failed:
        raise Broken(f"{len(failed)} of {writers} writers failed; see their errors above")
    replay = Replay(log.read_bytes(), base=base, writers=writers)
    replay.acknowledged[:] = done
    return replay


def cut(
    replay: Replay, positions: Sequence[int], *, seed: int = 0, make: Make = Checkpointing, draws: int = 1
) -> Report:
    """Cut the power at each position, look at `draws` of the states it may leave, and count broken promises."""
    rng = random.Random(seed)
    tried = lost = damaged = 0
    example = ""
    with tempfile.TemporaryDirectory(prefix="strongroom power ", dir=_fast_folder()) as folder:
        for position in sorted(positions):
            replay.advance(position)
            for _ in range(draws):
                tried += 1
                problem = _inspect(folder, replay.survivors(rng), replay.acknowledged, make)
                if problem is not None:
                    lost += isinstance(problem, Lost)
                    damaged += not isinstance(problem, Lost)
                    example = example or f"cut at event {position}, seed {seed}: {problem!r}"
    return Report(tried, lost, damaged, len(replay.events), sum(replay.acknowledged), example)


def spread(replay: Replay, count: int, *, seed: int = 0) -> list[int]:
    """Return places to cut a recording at, spread evenly with some jitter."""
    rng = random.Random(seed)
    last = len(replay.events)
    return sorted(min(last, int((place + rng.random()) * last / count)) for place in range(count))


def lay_out(folder: str | Path, image: Image) -> None:
    """Make a folder hold exactly the files of an image."""
    for old in Path(folder).glob(f"{NAME}*"):
        old.unlink(missing_ok=True)
    for part, content in image.items():
        (Path(folder) / f"{NAME}{part}").write_bytes(content)


def _inspect(folder: str, image: Image, acknowledged: Sequence[int], make: Make) -> Exception | None:
    lay_out(folder, image)
    path = Path(folder) / NAME
    try:
        with make(path) as store:
            found = check(store, acknowledged)
            for writer, number in enumerate(found):
                store.commit(step(writer, number + 1))
        check_file(path, getattr(make, "key", None))
    except (Broken, StrongroomError, apsw.Error) as problem:
        return problem
    return None


def _write(
    path: Path, log: Path, writer: int, numbers: range, make: Make, upkeep: Callable[[SqliteStore], None] | None
) -> None:
    try:
        recorder = Recorder(path, log)
        with recorder, make(path) as store:
            for number in numbers:
                store.commit(step(writer, number))
                recorder.acknowledge(writer, number)
                if upkeep is not None and writer == 0 and number % 10 == 0:
                    upkeep(store)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _fast_folder() -> str | None:
    """Return a folder in memory if there is one: thousands of files are written and thrown away."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.power", description=__doc__)
    parser.add_argument("--cuts", type=int, default=2000)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="strongroom power ") as folder:
        replay = record(folder, writers=wanted.writers)
        report = cut(replay, spread(replay, wanted.cuts, seed=wanted.seed), seed=wanted.seed)
    print(json.encode(report).decode(), f"{report.cuts / (time.monotonic() - began):.0f} cuts/s")
    if report.lost or report.damaged:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
