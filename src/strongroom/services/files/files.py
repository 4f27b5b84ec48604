"""Files: a path to text, for agents that keep what they know in notes.

A path has a stream of versions, and as long as there is a file two small documents beside it: facts and words. A
version is a place in the stream, so it never comes back, not even when a file is deleted and written anew. Nothing is
edited in place: an edit, a deletion and a move are versions too, and `restore` undoes any of them. Folders are what
paths say: they begin with their first file and end with their last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec.structs import asdict

from strongroom.arguments import Count, checked
from strongroom.codec import Json, encode
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, NotFound
from strongroom.meant import Meant
from strongroom.operations import Operation, Plan, perform, refusing
from strongroom.scope import Scope
from strongroom.services.files.erasure import Erased, erase
from strongroom.services.files.paths import FILE, HISTORY, ROOT, file_path, folder_path, folders, inside
from strongroom.services.files.plans import Source, Trees, measured, plan_move, removing, trees_at, writing
from strongroom.services.files.search import search
from strongroom.services.files.values import (
    File,
    FileHits,
    FileInfo,
    FileState,
    FileVersion,
    Limits,
    file_state,
    info_of,
    version_of,
)
from strongroom.store import Document, Get, Range, Receipt, Record, Scan, Slice, Tail
from strongroom.values import Cursor, Listing, moment, place_of

T = TypeVar("T")

MOST_AT_ONCE = 1000  # files that one call may move or delete
MOST_BYTES_AT_ONCE = 16 * 1024 * 1024


@checked
class AsyncFiles(Meant):
    """The files of one space. `limited()` gives a view under a budget.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         await ctx.files.write("/notes/ana.md", "likes tea")
    ...         return (await ctx.files.read("/notes/ana.md")).text
    >>> asyncio.run(main())
    'likes tea'
    """

    def __init__(self, scope: Scope, *, limits: Limits = Limits()) -> None:
        self.scope = scope
        self.limits = limits

    def __repr__(self) -> str:
        return f"<files of space {self.scope.space!r}>"

    def limited(
        self, *, max_files: int | None = None, max_bytes: int | None = None, max_file_bytes: int | None = None
    ) -> AsyncFiles:
        """Return the same files under a budget: how much a top folder may hold, and one file."""
        return AsyncFiles(self.scope, limits=Limits(max_files, max_bytes, max_file_bytes))

    # ---- writing ----------------------------------------------------------------------------------------------------
    # A call repeated with the same `commit_id` changes nothing and returns what the first one returned.

    async def write(
        self, path: str, text: str, *, expected_version: int | None = None, commit_id: str | None = None
    ) -> FileInfo:
        """Let a file say `text`, whether or not there is one.

        `expected_version` refuses (`Conflict`) if the file is at another version by now; 0: it must not exist.
        """
        _target(path)
        measured(text, self.limits)

        async def said(history: Slice) -> tuple[str, None]:
            return text, None

        content = encode({"path": path, "text": text})
        return await self._write("files.write", path, content, said, expected_version, commit_id)

    async def restore(
        self, path: str, version: int, *, expected_version: int | None = None, commit_id: str | None = None
    ) -> FileInfo:
        """Let a file say again what it said at a version, also if it has been deleted or moved away since."""
        _target(path)

        async def said(history: Slice) -> tuple[str, str]:
            record = await self._record(path, version, history.length)
            # Of what was restored before: where from, which is known whatever of it is erased.
            return _text_of(path, version, record), record.receiver or str(version)

        content = encode({"path": path, "version": version})
        return await self._write("files.restore", path, content, said, expected_version, commit_id)

    async def _write(
        self,
        name: str,
        path: str,
        content: Json,
        said: Callable[[Slice], Awaitable[tuple[str, str | None]]],
        expected_version: int | None,
        commit_id: str | None,
    ) -> FileInfo:
        scope = self.scope
        keys = trees_at(scope, path)

        async def attempt() -> Plan[FileInfo]:
            below, history, *documents = await scope.read(
                Scan(scope.space, FILE, inside(path), limit=1),
                Range(scope.key(HISTORY, path), 0, 0),
                *[Get(key) for key in (*keys, *(scope.key(FILE, one) for one in (path, *folders(path))))],
            )
            counts, [document, *above] = documents[: len(keys)], documents[len(keys) :]
            _require_file(path, below.documents, above)
            before = None if document is None else file_state(document)
            _require_version(path, expected_version, before)
            (text, restored), now = await said(history), scope.clock()
            size = measured(text, self.limits)
            head = FileState(history.length + 1, size, now if before is None else before.created, now)
            trees = Trees(dict(zip(keys, counts, strict=True)))
            trees.change(path, int(before is None), size - (0 if before is None else before.bytes))
            trees.check(self.limits)
            writes = [*writing(scope, path, text, head, restored=restored), *trees.writes()]
            return Plan(trees.expects(), writes, lambda receipt: info_of(path, head), encode(asdict(head)))

        async def replay(receipt: Receipt) -> FileInfo:
            assert receipt.answer is not None
            return info_of(path, FileState(**receipt.answer.load()))

        operation = Operation(name, scope.key(FILE, path), content, commit_id, self._besides(expected_version))
        return await perform(scope, operation, attempt, replay)

    async def delete(
        self,
        path: str,
        *,
        recursive: bool = False,
        expected_version: int | None = None,
        commit_id: str | None = None,
    ) -> int:
        """Delete a file, or with `recursive` a folder and all in it, in one commit. Return how many files went.

        Histories stay, and `restore` brings a file back.
        """
        _target(path)

        async def attempt() -> Plan[int]:
            heads, trees = await self._at(path, path)
            if set(heads) != {path} and not recursive:
                raise InvalidInput(f"{path} is a folder; delete it with recursive=True; nothing changed", path="path")
            _require_version(path, expected_version, heads.get(path))
            now = self.scope.clock()
            for one, head in heads.items():
                trees.change(one, -1, -head.bytes)
            writes = [write for one in heads for write in removing(self.scope, one, now)]
            return Plan(trees.expects(), [*writes, *trees.writes()], lambda receipt: len(heads), encode(len(heads)))

        content = encode({"path": path, "recursive": recursive})
        operation = self._operation("delete", path, content, commit_id, expected_version)
        return await perform(self.scope, operation, attempt, _answer)

    async def rename(
        self, path: str, to: str, *, expected_version: int | None = None, commit_id: str | None = None
    ) -> int:
        """Move a file, or a folder with all in it, to a path where there is nothing yet. Return how many files moved.

        The histories of both paths say so; what a file said before stays in the history of its old path.
        """
        _target(path)
        if _target(to, "to").startswith(f"{path}/") or to == path:
            raise InvalidInput(f"{path} cannot be moved into itself; nothing changed", path="to")
        scope = self.scope

        async def attempt() -> Plan[int]:
            heads, trees = await self._at(path, to)
            _require_version(path, expected_version, heads.get(path))
            await self._require_free(to)
            targets = [file_path(to + one.removeprefix(path), "to") for one in heads]
            size = sum(head.bytes for head in heads.values())
            if size > MOST_BYTES_AT_ONCE:
                raise _too_much(path, MOST_BYTES_AT_ONCE, "bytes")
            histories = [scope.key(HISTORY, target) for target in targets]
            ends = await scope.get_all([Range(history, 0, 0) for history in histories])
            lasts = await scope.get_all([Tail(scope.key(HISTORY, one), 1) for one in heads])
            sources = [
                Source(one, _text_of(one, head.version, last.records[0]), head)
                for (one, head), last in zip(heads.items(), lasts, strict=True)
            ]
            for (one, head), target in zip(heads.items(), targets, strict=True):
                trees.change(one, -1, -head.bytes)
                trees.change(target, 1, head.bytes)
            trees.check(self.limits)
            versions = {target: end.length for target, end in zip(targets, ends, strict=True)}
            writes = plan_move(scope, sources, path, to, versions, scope.clock())
            return Plan(trees.expects(), [*writes, *trees.writes()], lambda receipt: len(heads), encode(len(heads)))

        content = encode({"path": path, "to": to})
        operation = self._operation("rename", path, content, commit_id, expected_version)
        return await perform(self.scope, operation, attempt, _answer)

    async def erase(self, path: str, *, commit_id: str | None = None) -> Erased:
        """Remove all that a path ever said, for good: the file, its history, and what it said where it was moved from.

        How many versions there were, and when, stays. A file that was here and moved on is erased where it is now.
        """
        return await erase(self.scope, _target(path), commit_id)

    async def _at(self, path: str, to: str) -> tuple[dict[str, FileState], Trees]:
        """Return the files at a path or in the folder of that name, and the counts of where two paths lie."""
        scope = self.scope
        keys = trees_at(scope, path, to)
        [below], [document, *counts] = await scope.read_all(
            [Scan(scope.space, FILE, inside(path), limit=MOST_AT_ONCE + 1)],
            [Get(scope.key(FILE, path)), *map(Get, keys)],
        )
        found = below.documents if document is None else (document,)
        if not found:
            raise _missing(path)
        if len(found) > MOST_AT_ONCE:
            raise _too_much(path, MOST_AT_ONCE, "files")
        heads = {one.key.id: file_state(one) for one in found}
        return heads, Trees(dict(zip(keys, counts, strict=True)))

    async def _require_free(self, path: str) -> None:
        """Refuse to move something to where there is something, or into a file."""
        scope = self.scope
        [below], [document, *above] = await scope.read_all(
            [Scan(scope.space, FILE, inside(path), limit=1)],
            [Get(scope.key(FILE, one)) for one in (path, *folders(path))],
        )
        if below.documents or document is not None:
            actual = 1 if document is None else file_state(document).version
            raise Conflict(f"there is something at {path} already; nothing changed", expected=0, actual=actual)
        _require_file(path, (), above)

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def read(self, path: str) -> File:
        """Return a file, or raise `NotFound`."""
        file_path(path)
        document, last = await self.scope.read(Get(self.scope.key(FILE, path)), Tail(self.scope.key(HISTORY, path), 1))
        if document is None or not last.records:
            raise _missing(path)
        info = info_of(path, file_state(document))
        return File(**asdict(info), text=_text_of(path, info.version, last.records[0]))

    async def at(self, path: str, version: int) -> File:
        """Return a file as it was at a version, or raise `NotFound`. It was created then, as far as this tells."""
        file_path(path)
        record = await self._record(path, version, None)
        time = moment(record.at)
        return File(path, version, record.weight, time, time, _text_of(path, version, record))

    async def list(self, folder: str = ROOT, *, after: str | None = None, limit: Count = 100) -> Listing[FileInfo]:
        """Return the files in a folder and in those within it, in the order in which they were first written."""
        scan = Scan(self.scope.space, FILE, inside(folder_path(folder)), after, limit)
        found, following, damaged = await self.scope.listed(scan, lambda one: info_of(one.key.id, file_state(one)))
        return Listing(found, following, damaged)

    async def history(self, path: str, *, after: Cursor = None, limit: Count = 100) -> Listing[FileVersion]:
        """Return what happened at a path, the oldest first; also of a file that is gone."""
        key = self.scope.key(HISTORY, file_path(path))
        part = await self.scope.some(Range(key, place_of(after), None, limit))
        last = part.records[-1].index + 1 if part.records else part.length
        following = str(last) if part.records and last < part.length else None
        return Listing((version_of(path, record) for record in part.records), following)

    async def search(self, query: str, *, folder: str = ROOT, k: Count = 5) -> FileHits:
        """Return the files that answer a query best, by their words and by those of their paths, the best first.

        `degraded` of what is returned says what a server had no room to look at, and which files are damaged and left
        out, None if nothing.
        """
        return await search(self.scope, query, folder_path(folder), k)

    # ---- small parts ------------------------------------------------------------------------------------------------

    async def _record(self, path: str, version: int, length: int | None) -> Record:
        if version < 1 or (length is not None and version > length):
            raise NotFound(f"{path} has no version {version!r:.40}", kind=FILE, id=path)
        part = await self.scope.get(Range(self.scope.key(HISTORY, path), version - 1, version))
        if not part.records:
            raise NotFound(f"{path} has no version {version!r:.40}", kind=FILE, id=path)
        return part.records[0]

    def _operation(self, name: str, path: str, content: Json, commit_id: str | None, expected: int | None) -> Operation:
        return Operation(f"files.{name}", self.scope.key(FILE, path), content, commit_id, self._besides(expected))

    def _besides(self, expected_version: int | None) -> Json | None:
        """Return what is no part of what an id stands for: the budget, and which version the caller saw."""
        said = {} if self.limits == Limits() else asdict(self.limits)
        said |= {} if expected_version is None else {"expected_version": expected_version}
        return encode(said) if said else None


async def _answer(receipt: Receipt) -> int:
    assert receipt.answer is not None
    count: int = receipt.answer.load()
    return count


def _target(path: str, name: str = "path") -> str:
    """Return the path that a write is about."""
    with refusing:
        return file_path(path, name)


def _text_of(path: str, version: int, record: Record) -> str:
    """Return what a path said at a version, or raise `NotFound`."""
    text = None if record.body is None else record.body.load().get("text")
    if not isinstance(text, str):
        gone = "erased" if record.body is None else record.type.replace("_", " ")
        raise NotFound(f"{path} was {gone} at version {version}", kind=FILE, id=path)
    return text


def _require_file(path: str, below: Sequence[Document], above: Sequence[Document | None]) -> None:
    """Refuse to make a folder of a file, or a file of a folder."""
    if below:
        raise InvalidInput(f"{path} is a folder; nothing changed", path="path")
    for folder in above:
        if folder is not None:
            raise InvalidInput(f"{folder.key.id} is a file and holds no others; nothing changed", path="path")


def _require_version(path: str, expected: int | None, head: FileState | None) -> None:
    actual = 0 if head is None else head.version
    if expected is not None and expected != actual:
        wanted = "not to exist" if expected == 0 else f"to be at {expected}"
        found = f"it is at {actual}" if actual else "it does not exist"
        raise Conflict(f"{path} was expected {wanted}, but {found}; nothing changed", expected=expected, actual=actual)


def _missing(path: str) -> NotFound:
    return NotFound(f"there is no file {path!r:.300}", kind=FILE, id=path)


def _too_much(path: str, most: int, what: str) -> BudgetExceeded:
    return BudgetExceeded(
        f"{path} holds more than {most} {what}, the most that one call moves or deletes; nothing changed",
        limit=most,
        needed=most + 1,
    )
