"""What files hand out, and what is stored of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from strongroom.arguments import check_fields, require_positive
from strongroom.errors import Damaged
from strongroom.retrieval import joined, unreadable
from strongroom.showing import shown_by
from strongroom.store import Document, Record
from strongroom.values import moment

MAX_FILE_BYTES = 1024 * 1024

Change = Literal["written", "deleted", "moved_here", "moved_away", "erased"]


class Limits(Struct, frozen=True):
    """How much one top folder may hold, and one file. None: no limit of the caller's."""

    max_files: int | None = None
    max_bytes: int | None = None
    max_file_bytes: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require_positive(max_files=self.max_files, max_bytes=self.max_bytes, max_file_bytes=self.max_file_bytes)


@shown_by("path", "version", "bytes", "updated_at")
class FileInfo(Struct, frozen=True):
    """Facts about a file. `version` counts the changes at its path, also those before it was deleted and came back."""

    path: str
    version: int
    bytes: int
    created_at: datetime
    updated_at: datetime


@shown_by("path", "version", "bytes", "updated_at", "text")
class File(FileInfo, frozen=True):
    """A file: what it says, and facts about it.

    >>> ctx = strongroom.open("memory://")
    >>> _ = ctx.files.write("/notes/plan.txt", "call the carrier")
    >>> file = ctx.files.read("/notes/plan.txt")
    >>> file.text, file.version
    ('call the carrier', 1)
    """

    text: str


@shown_by("path", "version", "change", "at", "other")
class FileVersion(Struct, frozen=True):
    """One change at a path. `other` is the path that a file came from or went to."""

    path: str
    version: int
    change: Change
    at: datetime
    bytes: int
    other: str | None = None


class FileHit(Struct, frozen=True):
    """A file that answers a query: its best line, and in words for people what spoke for it."""

    path: str
    version: int
    score: float
    why: str
    line: int
    excerpt: str


class FileHits(list[FileHit]):
    """Hits, best first. `degraded` says what a search could not look at.

    `damaged` are the ids of what it came to and cannot be read; `degraded` tells of them too.
    """

    def __init__(
        self, hits: Iterable[FileHit] = (), *, degraded: str | None = None, damaged: Iterable[str] = ()
    ) -> None:
        super().__init__(hits)
        self.damaged = tuple(damaged)
        self.degraded = joined(degraded, unreadable(self.damaged))


class FileState(Struct, frozen=True):
    """What is stored of a file beside its history."""

    version: int
    bytes: int
    created: int
    updated: int


class Tree(Struct, frozen=True):
    """What is stored of a top folder."""

    files: int = 0
    bytes: int = 0


def file_state(document: Document) -> FileState:
    try:
        return msgspec.json.decode(document.value, type=FileState)
    except msgspec.MsgspecError as problem:
        raise Damaged(f"file {document.key.id!r} cannot be read: {problem}", reason="corrupt") from None


def tree_of(document: Document | None) -> Tree:
    return Tree() if document is None else msgspec.json.decode(document.value, type=Tree)


def info_of(path: str, head: FileState) -> FileInfo:
    return FileInfo(path, head.version, head.bytes, moment(head.created), moment(head.updated))


def version_of(path: str, record: Record) -> FileVersion:
    other = {"moved_here": record.sender, "moved_away": record.receiver}.get(record.type)
    kind = msgspec.convert("erased" if record.body is None else record.type, Change)
    return FileVersion(path, record.index + 1, kind, moment(record.at), record.weight, other)
