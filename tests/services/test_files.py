"""Files: a path to text, with every version kept. On every store, blocking and async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from strongroom import BudgetExceeded, Conflict, InvalidInput, NotFound
from strongroom.services.files.files import MOST_AT_ONCE
from strongroom.services.files.values import MAX_FILE_BYTES

A, B, C = "/notes/a.md", "/notes/deep/b.md", "/notes/c.md"


async def test_a_file_says_what_was_written(ctx: Any) -> None:
    written = await ctx.files.write(A, "tea\n")
    found = await ctx.files.read(A)
    assert (found.text, found.version, found.bytes, found.path) == ("tea\n", 1, 4, A)
    assert found.created_at == found.updated_at == written.updated_at


@pytest.mark.parametrize("text", ["", "\n", "a\r\nb\tc", "\0 and \x1b", "ünïcödé 🎈", '"quoted" \\ {"a": 1}'])
async def test_a_text_survives_exactly(ctx: Any, text: str) -> None:
    await ctx.files.write(A, text)
    assert (await ctx.files.read(A)).text == text


async def test_a_writer_with_an_old_version_is_refused(ctx: Any) -> None:
    await ctx.files.write(A, "one", expected_version=0)
    await ctx.files.write(A, "two", expected_version=1)
    for expected in (0, 1, 3):
        with pytest.raises(Conflict, match="nothing changed") as refused:
            await ctx.files.write(A, "three", expected_version=expected)
        assert (refused.value.expected, refused.value.actual) == (expected, 2)
    assert (await ctx.files.read(A)).text == "two"


async def test_without_an_expectation_the_last_writer_wins_and_history_keeps_the_others(ctx: Any) -> None:
    for number in range(3):
        await ctx.files.write(A, f"text {number}")
    assert [(await ctx.files.at(A, version)).text for version in (1, 2, 3)] == ["text 0", "text 1", "text 2"]


async def test_a_version_that_never_was_is_not_found(ctx: Any) -> None:
    await ctx.files.write(A, "one")
    for version in (0, -1, 2):
        with pytest.raises(NotFound):
            await ctx.files.at(A, version)
        with pytest.raises(NotFound, match="nothing changed"):
            await ctx.files.restore(A, version)


async def test_an_edit_can_be_undone(ctx: Any) -> None:
    await ctx.files.write(A, "good")
    await ctx.files.write(A, "bad")
    assert (await ctx.files.restore(A, 1, expected_version=2)).version == 3
    assert (await ctx.files.read(A)).text == "good"


async def test_a_deletion_can_be_undone_and_versions_go_on(ctx: Any) -> None:
    await ctx.files.write(A, "good")
    assert await ctx.files.delete(A, expected_version=1) == 1
    with pytest.raises(NotFound):
        await ctx.files.read(A)
    with pytest.raises(NotFound, match="was deleted at version 2"):
        await ctx.files.at(A, 2)
    assert (await ctx.files.restore(A, 1, expected_version=0)).version == 3
    assert (await ctx.files.read(A)).text == "good"


async def test_a_new_file_at_an_old_path_is_not_mistaken_for_the_old_one(ctx: Any) -> None:
    await ctx.files.write(A, "old")
    await ctx.files.delete(A)
    assert (await ctx.files.write(A, "new", expected_version=0)).version == 3
    with pytest.raises(Conflict):
        await ctx.files.write(A, "late", expected_version=1)


async def test_history_tells_what_happened(ctx: Any) -> None:
    await ctx.files.write(A, "one")
    await ctx.files.rename(A, "/books/c.md")
    await ctx.files.write(A, "two")
    await ctx.files.delete(A)
    told = [(one.version, one.change, one.other, one.bytes) for one in await ctx.files.history(A)]
    assert told == [
        (1, "written", None, 3),
        (2, "moved_away", "/books/c.md", 0),
        (3, "written", None, 3),
        (4, "deleted", None, 0),
    ]
    [arrived] = await ctx.files.history("/books/c.md")
    assert (arrived.change, arrived.other) == ("moved_here", A)


async def test_history_comes_in_pages(ctx: Any) -> None:
    for number in range(5):
        await ctx.files.write(A, f"{number}")
    first = await ctx.files.history(A, limit=3)
    rest = await ctx.files.history(A, after=first.next, limit=3)
    assert [one.version for one in (*first, *rest)] == [1, 2, 3, 4, 5] and rest.next is None


async def test_a_list_is_of_a_folder_and_what_is_in_it(ctx: Any) -> None:
    for path in (A, B, "/notesX/c.md", "/top.md"):
        await ctx.files.write(path, "text")
    assert [one.path for one in await ctx.files.list()] == [A, B, "/notesX/c.md", "/top.md"]
    assert [one.path for one in await ctx.files.list("/notes/")] == [A, B]
    assert [one.path for one in await ctx.files.list("/notes/deep")] == [B]
    assert await ctx.files.list("/nothing") == ()


async def test_a_list_comes_in_pages(ctx: Any) -> None:
    paths = [f"/notes/{number}.md" for number in range(5)]
    for path in paths:
        await ctx.files.write(path, "text")
    first = await ctx.files.list("/notes", limit=3)
    rest = await ctx.files.list("/notes", after=first.next, limit=3)
    assert [one.path for one in (*first, *rest)] == paths and rest.next is None


async def test_a_path_is_a_file_or_a_folder(ctx: Any) -> None:
    await ctx.files.write(A, "text")
    with pytest.raises(InvalidInput, match="is a folder"):
        await ctx.files.write("/notes", "text")
    with pytest.raises(InvalidInput, match="is a file"):
        await ctx.files.write(f"{A}/b", "text")
    await ctx.files.write("/other.md", "text")
    with pytest.raises(InvalidInput, match="is a file"):
        await ctx.files.rename("/other.md", f"{A}/b")


@pytest.mark.parametrize(
    "path", ["", "/", "a.md", "notes/a.md", "//a", "/a/", "/a//b", "/./a", "/a/../b", "/..", "/a\nb", "/" + "x" * 255,
             "/a" * 17]
)  # fmt: skip
async def test_a_path_that_would_have_to_be_mended_is_refused(ctx: Any, path: str) -> None:
    for call in (ctx.files.write(path, "text"), ctx.files.read(path), ctx.files.delete(path), ctx.files.history(path)):
        with pytest.raises(InvalidInput, match="is no path of a file"):
            await call
    assert await ctx.files.list() == ()


async def test_a_file_moves_with_what_it_says(ctx: Any) -> None:
    await ctx.files.write(A, "text")
    created = (await ctx.files.read(A)).created_at
    assert await ctx.files.rename(A, "/books/new.md", expected_version=1) == 1
    moved = await ctx.files.read("/books/new.md")
    assert (moved.text, moved.version, moved.created_at) == ("text", 1, created)
    with pytest.raises(NotFound):
        await ctx.files.read(A)


async def test_a_folder_moves_at_once(ctx: Any) -> None:
    await ctx.files.write(A, "one")
    await ctx.files.write(B, "two")
    assert await ctx.files.rename("/notes", "/books/old") == 2
    assert {one.path for one in await ctx.files.list()} == {"/books/old/a.md", "/books/old/deep/b.md"}
    assert (await ctx.files.read("/books/old/deep/b.md")).text == "two"


async def test_nothing_moves_onto_something(ctx: Any) -> None:
    await ctx.files.write(A, "one")
    await ctx.files.write("/books/x.md", "two")
    for to in ("/books/x.md", "/books"):
        with pytest.raises(Conflict, match="already"):
            await ctx.files.rename(A, to)
    for to in (A, f"{A}/b"):
        with pytest.raises(InvalidInput, match="into itself"):
            await ctx.files.rename(A, to)
    with pytest.raises(NotFound):
        await ctx.files.rename("/nothing.md", "/new.md")
    assert [one.path for one in await ctx.files.list()] == [A, "/books/x.md"]


async def test_a_folder_is_deleted_only_if_that_is_said(ctx: Any) -> None:
    await ctx.files.write(A, "one")
    await ctx.files.write(B, "two")
    with pytest.raises(InvalidInput, match="recursive=True"):
        await ctx.files.delete("/notes")
    assert await ctx.files.delete("/notes", recursive=True) == 2
    assert await ctx.files.list() == ()
    with pytest.raises(NotFound, match="nothing changed"):
        await ctx.files.delete("/notes", recursive=True)


async def test_a_budget_is_kept_to_the_byte(ctx: Any) -> None:
    files = await _limited(ctx, max_files=2, max_bytes=10)
    await files.write("/notes/a.md", "12345")
    await files.write("/notes/b.md", "12345")
    with pytest.raises(BudgetExceeded, match="11 bytes"):
        await files.write("/notes/b.md", "123456")
    await files.write("/notes/a.md", "1")
    with pytest.raises(BudgetExceeded, match="3 files"):
        await files.write("/notes/c.md", "")
    with pytest.raises(BudgetExceeded, match="3 files"):
        await files.write("/other/c.md", "12")
        await files.rename("/other/c.md", "/notes/c.md")
    await files.delete("/notes/b.md")
    await files.rename("/other/c.md", "/notes/c.md")


async def test_files_in_no_folder_share_a_budget(ctx: Any) -> None:
    files = await _limited(ctx, max_files=2, max_bytes=10)
    await files.write("/a.md", "12345")
    await files.write("/b.md", "123")
    with pytest.raises(BudgetExceeded, match="/ would hold 3 files"):
        await files.write("/c.md", "")
    with pytest.raises(BudgetExceeded, match="/ would hold 11 bytes"):
        await files.write("/b.md", "123456")
    await files.write("/notes/c.md", "12345")
    with pytest.raises(BudgetExceeded, match="/ would hold 3 files"):
        await files.rename("/notes/c.md", "/c.md")
    await files.rename("/a.md", "/notes/a.md")
    await files.erase("/b.md")
    await files.rename("/notes/c.md", "/c.md")
    await files.rename("/notes", "/books")
    await files.write("/d.md", "12345")


async def test_a_name_in_no_folder_is_a_file_or_a_folder_also_when_both_are_written_at_once(ctx: Any) -> None:
    told = await asyncio.gather(
        ctx.files.write("/a", "a file"), ctx.files.write("/a/b", "in a folder"), return_exceptions=True
    )
    assert sorted(isinstance(one, InvalidInput) for one in told) == [False, True]
    assert len(await ctx.files.list()) == 1


async def test_what_shrinks_a_full_folder_is_welcome(ctx: Any) -> None:
    await ctx.files.write(A, "0123456789")
    files = await _limited(ctx, max_bytes=5)
    await files.write(A, "01234567")
    with pytest.raises(BudgetExceeded):
        await files.write(A, "012345678")


async def test_a_text_that_is_too_large_is_refused(ctx: Any) -> None:
    await ctx.files.write(A, "x" * MAX_FILE_BYTES)
    with pytest.raises(BudgetExceeded, match="nothing changed"):
        await ctx.files.write(B, "é" * (MAX_FILE_BYTES // 2 + 1))
    with pytest.raises(BudgetExceeded):
        await (await _limited(ctx, max_file_bytes=3)).write(B, "1234")
    with pytest.raises(InvalidInput, match="surrogate"):
        await ctx.files.write(B, "\ud800")


async def test_a_search_finds_what_files_say_now(ctx: Any) -> None:
    await ctx.files.write(A, "# Drinks\n\nshe likes tea in the morning\n")
    await ctx.files.write(B, "the printer is on the second floor")
    [hit] = await ctx.files.search("morning tea")
    assert (hit.path, hit.version, hit.line, hit.excerpt) == (A, 1, 3, "she likes tea in the morning")
    await ctx.files.write(A, "she likes coffee")
    assert [hit.path for hit in await ctx.files.search("tea")] == []
    assert [hit.path for hit in await ctx.files.search("coffee", folder="/notes")] == [A]
    assert [hit.path for hit in await ctx.files.search("coffee", folder="/notes/deep")] == []
    await ctx.files.delete(A)
    assert list(await ctx.files.search("coffee")) == []


async def test_a_search_finds_files_by_their_names(ctx: Any) -> None:
    await ctx.files.write("/notes/shopping.md", "milk")
    assert [(hit.path, hit.line) for hit in await ctx.files.search("shopping")] == [("/notes/shopping.md", 0)]


async def test_erasing_leaves_how_many_versions_there_were_and_nothing_of_what_they_said(ctx: Any) -> None:
    await ctx.files.write(A, "secret one")
    await ctx.files.rename(A, B)
    await ctx.files.write(B, "secret two")
    await ctx.files.write(A, "another file")
    told = await ctx.files.erase(B)
    assert (told.versions, told.path) == (3, B)
    assert [one.change for one in await ctx.files.history(B)] == ["erased"] * 3
    for path, version in ((A, 1), (B, 1), (B, 2)):
        with pytest.raises(NotFound, match="was erased"):
            await ctx.files.at(path, version)
    assert (await ctx.files.read(A)).text == "another file"
    assert list(await ctx.files.search("secret")) == []
    assert (await ctx.files.write(B, "new", expected_version=0)).version == 4
    with pytest.raises(NotFound):
        await ctx.files.erase("/never/was.md")


async def test_what_was_moved_is_not_called_erased_at_its_old_path(ctx: Any) -> None:
    await ctx.files.write(A, "secret one")
    await ctx.files.rename(A, B)
    await ctx.files.rename(B, C)
    for path in (A, B):
        with pytest.raises(InvalidInput, match=f"moved to {C}.*nothing changed"):
            await ctx.files.erase(path)
    assert (await ctx.files.read(C)).text == "secret one"
    await ctx.files.erase(C)
    for path in (A, B, C):
        for one in await ctx.files.history(path):
            with pytest.raises(NotFound):
                await ctx.files.at(path, one.version)
    await ctx.files.erase(A)


async def test_files_that_changed_places_are_each_erased_where_they_are(ctx: Any) -> None:
    await ctx.files.write(A, "secret one")
    await ctx.files.write(B, "secret two")
    for path, to in ((A, C), (B, A), (C, B)):
        await ctx.files.rename(path, to)
    with pytest.raises(InvalidInput, match=f"moved to {B}"):
        await ctx.files.erase(C)
    assert (await ctx.files.erase(A)).elsewhere == (B,)
    assert (await ctx.files.read(B)).text == "secret one"
    assert (await ctx.files.erase(B)).elsewhere == ()
    for path in (A, B, C):
        for one in await ctx.files.history(path):
            with pytest.raises(NotFound):
                await ctx.files.at(path, one.version)


async def test_erasing_a_file_leaves_the_history_of_another_that_took_a_part_of_its_way(ctx: Any) -> None:
    await ctx.files.write(A, "first")
    await ctx.files.rename(A, B)
    await ctx.files.rename(B, C)
    await ctx.files.write(A, "second")
    await ctx.files.rename(A, B)
    await ctx.files.erase(C)
    assert (await ctx.files.at(A, 3)).text == (await ctx.files.read(B)).text == "second"


async def test_what_was_restored_where_a_file_was_is_named_when_that_is_erased(ctx: Any) -> None:
    await ctx.files.write(A, "secret")
    await ctx.files.rename(A, B)
    await ctx.files.restore(A, 1)
    assert (await ctx.files.erase(B)).elsewhere == (A,)
    assert (await ctx.files.read(A)).text == "secret"
    assert (await ctx.files.erase(A)).elsewhere == ()


async def test_what_was_restored_and_moved_is_named_where_it_is(ctx: Any) -> None:
    await ctx.files.write(A, "secret")
    await ctx.files.rename(A, B)
    await ctx.files.restore(A, 1)
    await ctx.files.rename(A, C)
    assert (await ctx.files.erase(B)).elsewhere == (C,)


async def test_erasing_what_was_restored_names_the_file_that_said_it_first(ctx: Any) -> None:
    await ctx.files.write(A, "secret")
    await ctx.files.rename(A, B)
    await ctx.files.restore(A, 1)
    await ctx.files.rename(A, C)
    assert (await ctx.files.erase(C)).elsewhere == (B,)


async def test_what_was_restored_again_is_named_also_when_what_lay_between_is_erased(ctx: Any) -> None:
    await ctx.files.write(A, "secret")
    await ctx.files.rename(A, B)
    await ctx.files.restore(A, 1)
    await ctx.files.rename(A, C)
    await ctx.files.restore(A, 3)
    await ctx.files.erase(C)
    assert (await ctx.files.erase(B)).elsewhere == (A,)


async def test_history_tells_no_other_path_of_what_was_restored(ctx: Any) -> None:
    await ctx.files.write(A, "one")
    await ctx.files.write(A, "two")
    await ctx.files.restore(A, 1)
    assert [one.other for one in await ctx.files.history(A)] == [None, None, None]


async def test_a_new_file_where_one_was_is_not_named(ctx: Any) -> None:
    await ctx.files.write(A, "secret")
    await ctx.files.rename(A, B)
    await ctx.files.write(A, "other")
    assert (await ctx.files.erase(B)).elsewhere == ()


async def test_what_was_moved_and_came_back_is_erased_on_its_whole_way(ctx: Any) -> None:
    await ctx.files.write(A, "secret one")
    await ctx.files.rename(A, B)
    await ctx.files.rename(B, A)
    await ctx.files.erase(A)
    for path in (A, B):
        for one in await ctx.files.history(path):
            with pytest.raises(NotFound):
                await ctx.files.at(path, one.version)


@pytest.fixture
def spaces(make_ctx: Callable[..., Any]) -> tuple[Any, Any]:
    return make_ctx(space="one"), make_ctx(space="other")


async def test_two_spaces_do_not_meet(spaces: tuple[Any, Any]) -> None:
    one, other = spaces
    await one.files.write(A, "mine")
    assert await other.files.list() == () and list(await other.files.search("mine")) == []


async def test_writers_of_one_folder_lose_nothing(ctx: Any) -> None:
    async def write(number: int) -> None:
        await ctx.files.write(f"/notes/{number % 3}.md", f"text {number}")

    await asyncio.gather(*map(write, range(12)))
    histories = [await ctx.files.history(f"/notes/{number}.md") for number in range(3)]
    assert [len(history) for history in histories] == [4, 4, 4]


async def test_a_folder_that_is_too_large_to_move_at_once_is_refused(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_AT_ONCE == 1000
    monkeypatch.setattr("strongroom.services.files.files.MOST_AT_ONCE", 2)
    for number in range(3):
        await ctx.files.write(f"/notes/{number}.md", "text")
    for call in (ctx.files.rename("/notes", "/books"), ctx.files.delete("/notes", recursive=True)):
        with pytest.raises(BudgetExceeded, match="more than 2 files"):
            await call
    assert len(await ctx.files.list("/notes")) == 3


async def _limited(ctx: Any, **limits: int) -> Any:
    made = ctx.files.limited(**limits)
    return made if hasattr(made, "scope") else await made
