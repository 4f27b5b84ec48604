"""Tools of files: look at a folder or a file, a part at a time; change a file without overwriting what others wrote."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from msgspec import Meta, Struct

from strongroom.errors import InvalidInput, NotFound
from strongroom.mcp.data import Data, data, fitting
from strongroom.mcp.principals import AGENT, EVERYBODY
from strongroom.mcp.tool import KIB, After, Answer, Arguments, CommitId, Tool, ToolRequest
from strongroom.mcp.uris import file_uri
from strongroom.services.files.values import MAX_FILE_BYTES, File, FileInfo

TEXT_BYTES = 48 * KIB
MOST_LINES = 2_000
BY = "file"
Path = Annotated[str, Meta(min_length=1, max_length=255, description="Such as /notes/plan.md; / is everything.")]
Version = Annotated[int, Meta(ge=0, le=2**53)]
Text = Annotated[str, Meta(max_length=MAX_FILE_BYTES)]


class KnownFile(Struct, frozen=True, kw_only=True):
    """A file. `version` is what an edit has to expect."""

    path: str
    uri: str
    version: int
    bytes: int
    updated_at: datetime


def shown(info: FileInfo) -> KnownFile:
    return KnownFile(
        path=info.path, uri=file_uri(info.path), version=info.version, bytes=info.bytes, updated_at=info.updated_at
    )


# ---- looking --------------------------------------------------------------------------------------------------------


class ViewFiles(Arguments, frozen=True, kw_only=True):
    path: Path = "/"
    from_line: Annotated[int, Meta(ge=1, le=2**31, description="The first line to show, of a file.")] = 1
    lines: Annotated[int, Meta(ge=1, le=MOST_LINES)] = 400
    after: After = None


class FileView(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A file: the lines from `from_line` on; `next_line` is where to go on. Or a folder: the files in it."""

    kind: Literal["file", "folder"]
    path: str
    file: KnownFile | None = None
    text: Data | None = None
    from_line: int = 0
    total_lines: int = 0
    next_line: int | None = None
    files: list[KnownFile] = []
    next: str | None = None


async def view(call: ToolRequest, wanted: ViewFiles) -> FileView:
    files = call.who.ctx.files
    if not wanted.path.endswith("/"):
        try:
            return part_of(await files.read(wanted.path), wanted.from_line, wanted.lines)
        except NotFound as missing:
            nothing = missing
        page = await files.list(wanted.path, after=wanted.after, limit=100)
        if not page and wanted.after is None:
            raise nothing
    else:
        page = await files.list(wanted.path, after=wanted.after, limit=100)
    return FileView(kind="folder", path=wanted.path, files=[shown(info) for info in page], next=page.next)


def part_of(file: File, from_line: int, lines: int, most: int = TEXT_BYTES) -> FileView:
    """Return some lines of a file, as many as fit."""
    every = file.text.splitlines(keepends=True)
    asked = every[from_line - 1 : from_line - 1 + lines]
    taken = fitting(asked, most) or asked[:1]  # one line that is too long for itself is cut
    end = from_line - 1 + len(taken)
    return FileView(
        kind="file",
        path=file.path,
        file=shown(file),
        text=data("".join(taken), by=BY, most=most),
        from_line=from_line,
        total_lines=len(every),
        next_line=end + 1 if end < len(every) else None,
    )


# ---- changing -------------------------------------------------------------------------------------------------------


class Replacement(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Text that stands in the file exactly once, and what shall stand there."""

    old_text: Annotated[str, Meta(min_length=1, max_length=MAX_FILE_BYTES)]
    new_text: Text


class EditFile(Arguments, frozen=True, kw_only=True):
    path: Path
    text: Annotated[Text | None, Meta(description="The whole file, new or instead of what it says.")] = None
    replace: Replacement | None = None
    delete: bool = False
    expected_version: Annotated[
        Version | None, Meta(description="The version you saw; 0: there must be no file yet. Others' work is kept.")
    ] = None
    commit_id: CommitId = None

    def identified(self) -> Self:
        return self if self.replace is not None else super().identified()  # see `edit`


class EditedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    path: str
    change: Literal["written", "deleted"]
    file: KnownFile | None = None


async def edit(call: ToolRequest, wanted: EditFile) -> EditedFile:
    files, commit_id = call.who.ctx.files, call.who.commit_id(wanted.commit_id)
    if [wanted.text is not None, wanted.replace is not None, wanted.delete].count(True) != 1:
        raise InvalidInput("say one of text, replace and delete; nothing changed")
    if wanted.delete:
        await files.delete(wanted.path, expected_version=wanted.expected_version, commit_id=commit_id)
        return EditedFile(path=wanted.path, change="deleted")
    text, expected = wanted.text, wanted.expected_version
    if wanted.replace is not None:
        if commit_id is not None:
            raise InvalidInput(
                "a replacement takes no commit_id: what it finds may have changed. expected_version makes a repeat "
                "safe; nothing changed",
                path="commit_id",
            )
        before = await files.read(wanted.path)
        text = replaced(before, wanted.replace)
        expected = before.version if expected is None else expected
    assert text is not None
    info = await files.write(wanted.path, text, expected_version=expected, commit_id=commit_id)
    return EditedFile(path=info.path, change="written", file=shown(info))


def replaced(file: File, replacement: Replacement) -> str:
    """Return the text with one place changed, or raise `InvalidInput` if it is not exactly one."""
    count = file.text.count(replacement.old_text)
    if count != 1:
        raise InvalidInput(
            f"old_text stands in {file.path} {count} times and must stand there once; nothing changed",
            path="replace.old_text",
        )
    return file.text.replace(replacement.old_text, replacement.new_text)


TOOLS = (
    Tool(
        name="files_view",
        title="Look at files",
        description=(
            "Show a stored file, from a line on, or list a folder with the versions of its files. These are notes that "
            "agents keep, not files of this computer."
        ),
        profiles=EVERYBODY,
        kind="reads",
        takes=ViewFiles,
        gives=FileView,
        call=view,
    ),
    Tool(
        name="files_edit",
        title="Change a file",
        description=(
            "Write, change or delete a stored file. `replace` changes one place; expected_version refuses you if "
            "somebody else was faster. Every version is kept and can be restored."
        ),
        profiles=AGENT,
        kind="changes",
        takes=EditFile,
        gives=EditedFile,
        call=edit,
    ),
)
