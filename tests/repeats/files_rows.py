"""Every operation of files that writes, as rows of the table of repeats."""

from __future__ import annotations

from typing import Any

import pytest

from tests.repeats.rows import Row

ONE, OTHER = "/notes/a.md", "/books/b.md"


async def nothing(ctx: Any) -> None:
    return None


async def two_files(ctx: Any) -> None:
    for path in (ONE, OTHER):
        await ctx.files.write(path, "first")
        await ctx.files.write(path, "second")


async def no_other_content(ctx: Any, state: Any, commit_id: str | None) -> Any:
    pytest.skip("there is nothing more to say than what it is about")


async def seeing(ctx: Any, method: Any, path: str, *given: Any, commit_id: str | None) -> Any:
    """Write on the condition that the file is as it is now."""
    version = {one.path: one.version for one in await ctx.files.list()}.get(path, 0)
    return await method(path, *given, expected_version=version, commit_id=commit_id)


ROWS = (
    Row(
        "files.write",
        nothing,
        lambda ctx, _, id: ctx.files.write(ONE, "text", commit_id=id),
        lambda ctx, _, id: ctx.files.write(ONE, "other", commit_id=id),
        lambda ctx, _, id: ctx.files.write(OTHER, "text", commit_id=id),
    ),
    Row(
        "files.restore",
        two_files,
        lambda ctx, _, id: ctx.files.restore(ONE, 1, commit_id=id),
        lambda ctx, _, id: ctx.files.restore(ONE, 2, commit_id=id),
        lambda ctx, _, id: ctx.files.restore(OTHER, 1, commit_id=id),
    ),
    Row(
        "files.delete",
        two_files,
        lambda ctx, _, id: ctx.files.delete(ONE, commit_id=id),
        lambda ctx, _, id: ctx.files.delete(ONE, recursive=True, commit_id=id),
        lambda ctx, _, id: ctx.files.delete(OTHER, commit_id=id),
    ),
    Row(
        "files.rename",
        two_files,
        lambda ctx, _, id: ctx.files.rename(ONE, "/new/a.md", commit_id=id),
        lambda ctx, _, id: ctx.files.rename(ONE, "/new/b.md", commit_id=id),
        lambda ctx, _, id: ctx.files.rename(OTHER, "/new/a2.md", commit_id=id),
    ),
    # Whoever repeats reads the version anew, and it is another one by then.
    Row(
        "files.write",
        two_files,
        lambda ctx, _, id: seeing(ctx, ctx.files.write, ONE, "text", commit_id=id),
        lambda ctx, _, id: seeing(ctx, ctx.files.write, ONE, "other", commit_id=id),
        lambda ctx, _, id: seeing(ctx, ctx.files.write, OTHER, "text", commit_id=id),
    ),
    Row(
        "files.restore",
        two_files,
        lambda ctx, _, id: seeing(ctx, ctx.files.restore, ONE, 1, commit_id=id),
        lambda ctx, _, id: seeing(ctx, ctx.files.restore, ONE, 2, commit_id=id),
        lambda ctx, _, id: seeing(ctx, ctx.files.restore, OTHER, 1, commit_id=id),
    ),
    Row(
        "files.delete",
        two_files,
        lambda ctx, _, id: seeing(ctx, ctx.files.delete, ONE, commit_id=id),
        no_other_content,
        lambda ctx, _, id: seeing(ctx, ctx.files.delete, OTHER, commit_id=id),
    ),
    Row(
        "files.rename",
        two_files,
        lambda ctx, _, id: seeing(ctx, ctx.files.rename, ONE, "/new/a.md", commit_id=id),
        lambda ctx, _, id: seeing(ctx, ctx.files.rename, ONE, "/new/b.md", commit_id=id),
        lambda ctx, _, id: seeing(ctx, ctx.files.rename, OTHER, "/new/a2.md", commit_id=id),
    ),
    Row(
        "files.erase",
        two_files,
        lambda ctx, _, id: ctx.files.erase(ONE, commit_id=id),
        no_other_content,
        lambda ctx, _, id: ctx.files.erase(OTHER, commit_id=id),
    ),
)
