"""Anthropic's memory tool on Strongroom: notes that Claude keeps are files of the store, with history and undo.

Results and errors are, word for word, those that models are trained on. Every command is one commit; an edit reads,
decides and writes, and decides anew if somebody else has written meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from strongroom.adapters.extras import without

try:
    from anthropic.lib.tools import ToolError
    from anthropic.tools.memory import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
except ModuleNotFoundError as missing:
    raise without(missing, "anthropic") from None
from msgspec import Struct

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.bridge import run
from strongroom.errors import Conflict, InvalidInput, NotFound, StoreError, StrongroomError
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.files.files import AsyncFiles
from strongroom.services.files.paths import folder_path
from strongroom.services.files.values import Limits

MEMORIES = "/memories"
MOST_LINES = 999_999
DEPTH = 2
PAGE = 1000


class StrongroomMemoryTool(BetaAbstractMemoryTool, Closing):
    """The tool for blocking code: `client.beta.messages.run_tools(tools=[StrongroomMemoryTool("agent.db")], ...)`.

    `root` is the folder of `ctx.files` that Claude sees as /memories: give each user or agent its own. `max_files` and
    `max_bytes` bound what its top folder may hold.
    """

    def __init__(
        self,
        where: Where,
        *,
        root: str = MEMORIES,
        max_files: int | None = None,
        max_bytes: int | None = None,
        cache_control: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.opened = Opened(where, options)
        self._notes = Notes(self.opened.blocking, folder_path(root, "root"), Limits(max_files, max_bytes))

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return run(told(self._notes.view(command)))

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return run(told(self._notes.create(command)))

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return run(told(self._notes.str_replace(command)))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return run(told(self._notes.insert(command)))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return run(told(self._notes.delete(command)))

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return run(told(self._notes.rename(command)))

    def clear_all_memory(self) -> str:
        return run(told(self._notes.clear()))


class AsyncStrongroomMemoryTool(BetaAsyncAbstractMemoryTool, Closing):
    """The same tool for async code, from any event loop."""

    def __init__(
        self,
        where: Where,
        *,
        root: str = MEMORIES,
        max_files: int | None = None,
        max_bytes: int | None = None,
        cache_control: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.opened = Opened(where, options)
        self._notes = Notes(self.opened.awaitable, folder_path(root, "root"), Limits(max_files, max_bytes))

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await told(self._notes.view(command))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await told(self._notes.create(command))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await told(self._notes.str_replace(command))

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await told(self._notes.insert(command))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await told(self._notes.delete(command))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await told(self._notes.rename(command))

    async def clear_all_memory(self) -> str:
        return await told(self._notes.clear())


async def told(answer: Awaitable[str]) -> str:
    """Tell the model what was refused. What the store failed at is the program's to hear."""
    try:
        return await answer
    except StoreError:
        raise
    except StrongroomError as problem:
        raise ToolError(str(problem)) from None


class Notes(Struct, frozen=True):
    """The commands, written once. `root` is the folder that stands for /memories."""

    scope: Scope
    root: str
    limits: Limits

    @property
    def _files(self) -> AsyncFiles:
        return AsyncFiles(self.scope, limits=self.limits)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        path = self._place(command.path)
        try:
            if path != self.root:
                return _shown(command.path, (await self._files.read(path)).text, command.view_range)
        except NotFound:
            pass
        sizes = await self._sizes(path)
        if not sizes and path != self.root:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        lines = [f"{_size(sum(sizes.values()))}\t{command.path}"]
        lines += [f"{_size(size)}\t{command.path}/{name}" for name, size in _tree(sizes)]
        head = f"Here're the files and directories up to 2 levels deep in {command.path}, excluding hidden items:"
        return "\n".join([head, *lines])

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        path = self._place(command.path)
        if path == self.root or await self._sizes(path):
            raise ToolError(f"File {command.path} already exists")
        try:
            await self._files.write(path, command.file_text, expected_version=0)
        except Conflict:
            raise ToolError(f"File {command.path} already exists") from None
        return f"File created successfully at: {command.path}"

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        old, new = command.old_str, command.new_str or ""

        def edit(text: str) -> tuple[str, str]:
            count = text.count(old)
            if not old or not count:
                raise ToolError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}."
                )
            if count > 1:
                places = [at for at in range(len(text)) if text.startswith(old, at)]
                numbers = ", ".join(str(text.count("\n", 0, at) + 1) for at in places)
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {numbers}. "
                    "Please ensure it is unique"
                )
            edited = text.replace(old, new)
            line = text.count("\n", 0, text.index(old))
            snippet = _numbered(edited.split("\n")[max(0, line - 2) : line + 3], max(0, line - 2) + 1)
            head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
            return edited, f"{head}\n{snippet}"

        return await self._edit(command.path, edit)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        def edit(text: str) -> tuple[str, str]:
            lines = text.split("\n")
            if lines[-1] == "":  # the end of the last line, not a line of its own
                lines.pop()
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. "
                    f"It should be within the range [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            edited = "\n".join(lines)
            return edited if edited.endswith("\n") else edited + "\n", f"The file {command.path} has been edited."

        return await self._edit(command.path, edit)

    async def _edit(self, given: str, edit: Callable[[str], tuple[str, str]]) -> str:
        """Read, decide, write; and again if somebody else wrote meanwhile."""
        path = self._place(given)
        for attempt in attempts(f"file {given!r:.80}"):
            try:
                found = await self._files.read(path) if path != self.root else None
            except NotFound:
                found = None
            if found is None:
                raise await self._no_file(given, path, attempt)
            text, answer = edit(found.text)
            try:
                await self._files.write(path, text, expected_version=found.version)
            except Conflict:
                continue
            return answer
        raise AssertionError("attempts() raises when it is enough")

    async def _no_file(self, given: str, path: str, attempt: int) -> ToolError:
        if path == self.root or await self._sizes(path):
            return ToolError(f"The path {given} is not a file.")
        if attempt:
            return ToolError(f"The file {given} no longer exists (may have been deleted or renamed concurrently).")
        return ToolError(f"The path {given} does not exist. Please provide a valid path.")

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        path = self._place(command.path)
        if path == self.root:
            raise ToolError("Cannot delete the /memories directory itself")
        try:
            await self._files.delete(path, recursive=True)
        except NotFound:
            raise ToolError(f"The path {command.path} does not exist") from None
        return f"Successfully deleted {command.path}"

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        old, new = self._place(command.old_path), self._place(command.new_path)
        if old == self.root:
            raise ToolError("Cannot rename the /memories directory itself")
        taken = ToolError(f"The destination {command.new_path} already exists")
        if new == self.root or (new == old and await self._exists(old)):
            raise taken
        try:
            if new == old:
                raise NotFound("there is nothing to rename")
            await self._files.rename(old, new)
        except Conflict:
            raise taken from None
        except NotFound:
            if await self._exists(new):
                raise taken from None
            raise ToolError(f"The path {command.old_path} does not exist") from None
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def clear(self) -> str:
        try:
            await self._files.delete(self.root, recursive=True)
        except NotFound:
            pass
        return "All memory cleared"

    def _place(self, path: str) -> str:
        """Return where a path of the model's lies; it never leaves the root."""
        if path != MEMORIES and not path.startswith(f"{MEMORIES}/"):
            raise ToolError(f"Path must start with /memories, got: {path}")
        parts: list[str] = []
        for part in path.removeprefix(MEMORIES).split("/"):
            if part == "..":
                if not parts:
                    raise ToolError(f"Path {path} would escape /memories directory")
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        return "/".join([self.root, *parts])

    async def _exists(self, path: str) -> bool:
        try:
            return bool(await self._files.read(path))
        except NotFound:
            return bool(await self._sizes(path))

    async def _sizes(self, folder: str) -> dict[str, int]:
        """Return the files in a folder by their names in it, each with its size."""
        found: dict[str, int] = {}
        after: str | None = None
        try:
            while True:
                page = await self._files.list(folder, after=after, limit=PAGE)
                found |= {one.path.removeprefix(f"{folder}/"): one.bytes for one in page}
                after = page.next
                if after is None:
                    return found
        except InvalidInput:  # a path that no file can have
            return {}


def _shown(path: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    start, stop = 1, len(lines)
    if view_range and len(view_range) == 2:
        start, stop = max(1, view_range[0]), len(lines) if view_range[1] == -1 else view_range[1]
    return f"Here's the content of {path} with line numbers:\n{_numbered(lines[start - 1 : stop], start)}"


def _numbered(lines: Sequence[str], start: int) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, start))


def _tree(sizes: dict[str, int]) -> list[tuple[str, int]]:
    """Return files and folders up to two levels deep, each folder before what is in it, hidden ones left out."""
    found: dict[tuple[str, ...], tuple[str, int]] = {}
    for name, size in sizes.items():
        parts = name.split("/")
        for depth in range(1, min(DEPTH, len(parts)) + 1):
            if any(part.startswith(".") for part in parts[:depth]):
                break
            is_folder = depth < len(parts)
            place = tuple(parts[:depth])
            before = found.get(place, ("", 0))[1]
            found[place] = ("/".join(place) + "/" * is_folder, before + size)
    return [found[place] for place in sorted(found)]


def _size(count: int) -> str:
    """Return a number of bytes as people write it: 0B, 512B, 1.5K, 2M."""
    size, unit = float(count), "B"
    for larger in "KMG":
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f}{unit}" if size == int(size) else f"{size:.1f}{unit}"
