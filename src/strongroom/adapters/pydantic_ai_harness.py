"""The memory of Pydantic AI's harness on Strongroom: `StrongroomMemoryStore` keeps the files that an agent writes.

A file is a document, and its version a word of its own, which never comes back. An operation of the harness is a
document too, written in the same commit: whoever repeats one, be it after a crash, gets the first answer, and nothing
is written twice. It is kept for 30 days, as other ids are: each that is noted lets two go that are older. Whoever
repeats one of those is told that the file is at another version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from strongroom.adapters.extras import without
from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import digest

try:
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperation,
        MemoryOperationConflictError,
    )
except ModuleNotFoundError as missing:
    raise without(missing, "pydantic-ai-harness") from None

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.store import Commit, Delete, Document, Expect, Get, Key, Put, Scan, Write, new_id

KIND = layouts.HARNESS_MEMORY
OPERATION = layouts.HARNESS_OPERATION
PAGE = 500
REPEATS = 30 * 24 * 3600 * 1_000_000  # microseconds for which an operation gets its first answer
SWEPT_AT_ONCE = 2  # more than one, so that what is old gets less
SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,200}")


class StrongroomMemoryStore(Closing):
    """Keep an agent's memory in a Strongroom store: `Agent(..., capabilities=[Memory(StrongroomMemoryStore(ctx))])`."""

    def __init__(self, where: Where, **options: Any) -> None:
        self.opened = Opened(where, options)

    @property
    def _scope(self) -> Scope:
        return self.opened.awaitable

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return the file at a path, or the first `max_chars` characters of it; None if there is none."""
        if max_chars <= 0:
            raise InvalidInput("max_chars must be positive")
        document = await self._scope.get(Get(self._key(path)))
        if document is None:
            return None
        value = document.value.load()
        text = value["content"]
        told = {"metadata": value["metadata"]} if value["metadata"] else {}  # which older harnesses do not know
        return MemoryFile(text[:max_chars], value["version"], value["operation"], len(text) > max_chars, **told)

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return what an operation answered when it was made; None if it never was."""
        return replayed(operation, await self._scope.get(Get(self._noted(operation))))

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Create or replace a file, if it is at the version that is expected."""
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Create or replace a file, and keep what its writer says about this version."""
        value = {
            "version": new_id(),
            "path": path,
            "content": content,
            "operation": None if operation is None else operation.id,
            "metadata": dict(metadata or {}),
        }
        return await self._change(path, value, expected_version, operation)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Delete a file, if it is at the version that is expected."""
        return await self._change(path, None, expected_version, operation)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the first paths that begin with a prefix, in order."""
        if limit <= 0:
            raise InvalidInput("limit must be positive")
        if prefix:
            check(prefix.removesuffix("/"))
        scan = Scan(self._scope.space, KIND, deepest(prefix), limit=PAGE)
        found = [one.value.load()["path"] async for page in self._scope.pages(scan) for one in page]
        return sorted(path for path in found if path.startswith(prefix))[:limit]

    async def _change(
        self, path: str, value: dict[str, Any] | None, expected: str | None, operation: MemoryOperation | None
    ) -> MemoryMutation:
        """Let a path have this value, or none, and note the operation, in one commit."""
        scope, key = self._scope, self._key(path)
        notes = [] if operation is None else [self._noted(operation)]
        for _ in attempts(f"memory {path!r:.80}"):
            document, *noted = await scope.get_all([Get(one) for one in (key, *notes)])
            if operation is not None and (before := replayed(operation, noted[0])) is not None:
                return before
            version = None if document is None else document.value.load()["version"]
            if version != expected:
                raise MemoryConflictError(f"memory path {path!r} is at {version}, not at {expected}; nothing changed")
            made = MemoryMutation(None if value is None else value["version"], False, document is not None)
            expects = [Expect(key, 0 if document is None else document.version), *[Expect(one, 0) for one in notes]]
            writes: list[Write] = []
            if value is not None:
                writes.append(Put(key, encode(value), folders(path)))
            elif document is not None:
                writes.append(Delete(key))
            if operation is not None:
                answer = {"fingerprint": operation.fingerprint, "version": made.version, "existed": made.existed}
                writes += [Put(notes[0], encode(answer | {"at": scope.clock()})), *await self._outdated()]
            try:
                await scope.store.commit(Commit(new_id(), tuple(expects), tuple(writes)))
            except Conflict:
                continue  # somebody else was first: look again
            return made
        raise AssertionError("attempts() raises when it is enough")

    async def _outdated(self) -> list[Write]:
        """Return what removes the oldest operations, if they are old enough."""
        oldest = await self._scope.get(Scan(self._scope.space, OPERATION, {}, limit=SWEPT_AT_ONCE))
        before = self._scope.clock() - REPEATS
        return [Delete(one.key) for one in oldest.documents if one.value.load().get("at", 0) < before]

    def _key(self, path: str) -> Key:
        return self._scope.key(KIND, digest(check(path)))

    def _noted(self, operation: MemoryOperation) -> Key:
        return self._scope.key(OPERATION, digest(operation.id))


def check(path: str) -> str:
    """Return a path that the harness could make, or raise: none that leaves its folder, or names another file."""
    if not all(SEGMENT.fullmatch(one) and ".." not in one and one != "." for one in path.split("/")):
        raise InvalidInput(f"invalid memory path: {path!r:.300}; nothing changed", path="path")
    return path


def folders(path: str) -> dict[str, str]:
    """Return a tag for each folder that a path lies in, by its depth."""
    parts = path.split("/")[:-1]
    return {str(depth): digest(*parts[:depth]) for depth in range(1, len(parts) + 1)}


def deepest(prefix: str) -> dict[str, str]:
    """Return the tag of the innermost folder that a prefix names whole."""
    tags = folders(prefix)
    return dict([max(tags.items(), key=lambda tag: int(tag[0]))]) if tags else {}


def replayed(operation: MemoryOperation, noted: Document | None) -> MemoryMutation | None:
    """Return the answer of an operation that was made before; refuse another one of the same id."""
    if noted is None:
        return None
    value = noted.value.load()
    if value["fingerprint"] != operation.fingerprint:
        raise MemoryOperationConflictError(f"operation id {operation.id!r} was used before, and not for this")
    return MemoryMutation(value["version"], True, value["existed"])
