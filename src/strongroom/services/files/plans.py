"""What to write so that files are written, deleted or moved. Pure.

Everything that happens in one top folder happens one after the other, because each change writes the folder's counts
and expects them as it saw them. That makes the budget exact and keeps a path from being a file and a folder at once;
two top folders never meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from strongroom.codec import encode, pack
from strongroom.errors import BudgetExceeded, InvalidInput
from strongroom.scope import Scope
from strongroom.services.files.paths import FILE, HISTORY, TEXT, tags, tree_keys
from strongroom.services.files.values import MAX_FILE_BYTES, Change, FileState, Limits, Tree, tree_of
from strongroom.store import Append, Delete, Document, Entry, Expect, Key, Put, Write


class Trees:
    """The counts of the top folders that a change touches, as they were and as they will be."""

    def __init__(self, documents: Mapping[Key, Document | None]) -> None:
        self._seen = documents
        self._now = {key: tree_of(document) for key, document in documents.items()}

    def change(self, path: str, files: int, size: int) -> None:
        """Count so many files and bytes more where the file of a path lies."""
        key = tree_keys(next(iter(self._now)).space, path)[-1]
        tree = self._now[key]
        # Not below nothing: files in no folder were once counted elsewhere.
        self._now[key] = Tree(max(tree.files + files, 0), max(tree.bytes + size, 0))

    def check(self, limits: Limits) -> None:
        """Refuse what makes a folder hold more than it may. What shrinks it is always welcome."""
        for key, tree in self._now.items():
            before = tree_of(self._seen[key])
            for name, had, has, most in (
                ("files", before.files, tree.files, limits.max_files),
                ("bytes", before.bytes, tree.bytes, limits.max_bytes),
            ):
                if most is not None and has > max(most, had):
                    raise BudgetExceeded(
                        f"/{key.id.lstrip('/')} would hold {has} {name} and may hold {most}; nothing changed",
                        limit=most,
                        needed=has,
                    )

    def expects(self) -> list[Expect]:
        return [Expect(key, 0 if seen is None else seen.version) for key, seen in self._seen.items()]

    def writes(self) -> list[Write]:
        return [Put(key, pack(tree)) for key, tree in self._now.items()]


class Source(Struct, frozen=True):
    """Where a file comes from when it is moved."""

    path: str
    text: str
    head: FileState


def measured(text: str, limits: Limits) -> int:
    """Return how many bytes a text has, or refuse it."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput("text holds a lone surrogate; nothing changed", path="text") from None
    most = min(MAX_FILE_BYTES, limits.max_file_bytes or MAX_FILE_BYTES)
    if size > most:
        raise BudgetExceeded(
            f"a text of {size} bytes is over the limit of {most}; nothing changed", limit=most, needed=size
        )
    return size


def writing(
    scope: Scope, path: str, text: str, head: FileState, moved_from: str | None = None, restored: str | None = None
) -> list[Write]:
    """Return the writes after which a file says `text`; `restored` is the version of this path that said it first. The
    first write tells its version."""
    change: Change = "written" if moved_from is None else "moved_here"
    entry = Entry(change, encode({"text": text}), head.bytes, head.updated, sender=moved_from, receiver=restored)
    found = tags(path)
    return [
        Append(scope.key(HISTORY, path), (entry,)),
        Put(scope.key(FILE, path), pack(head), found),
        Put(scope.key(TEXT, path), encode({}), found, searchable(path, text)),
    ]


def removing(scope: Scope, path: str, at: int, moved_to: str | None = None) -> list[Write]:
    """Return the writes after which there is no file at a path; its history stays."""
    change: Change = "deleted" if moved_to is None else "moved_away"
    entry = Entry(change, encode({}), 0, at, receiver=moved_to)
    return [
        Append(scope.key(HISTORY, path), (entry,)),
        Delete(scope.key(FILE, path)),
        Delete(scope.key(TEXT, path)),
    ]


def plan_move(
    scope: Scope, sources: Iterable[Source], old: str, new: str, versions: Mapping[str, int], at: int
) -> list[Write]:
    """Return the writes after which files lie elsewhere. `versions` tells how long the history of each target is."""
    writes: list[Write] = []
    for one in sources:
        target = new + one.path.removeprefix(old)
        head = msgspec.structs.replace(one.head, version=versions[target] + 1, updated=at)
        writes += [*writing(scope, target, one.text, head, one.path), *removing(scope, one.path, at, target)]
    return writes


def searchable(path: str, text: str) -> str:
    """Return what a search looks at: the name of a file, then what it says."""
    return f"{path}\n{text}"


def trees_at(scope: Scope, *paths: str) -> list[Key]:
    """Return the keys of what is counted where paths lie, each once."""
    return list(dict.fromkeys(key for path in paths for key in tree_keys(scope.space, path)))
