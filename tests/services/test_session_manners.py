"""What somebody tries in the first hour with a session, and what a session can do without its tokenizer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pydantic
import pytest

import strongroom
from strongroom.errors import InvalidInput, NotFound
from strongroom.tokens import Custom
from tests.services.test_sessions import HELLO, said

WORDS = Custom(lambda text: len(text.split()), name="words")


# ---- a session as a thing -------------------------------------------------------------------------------------------


def test_a_session_says_which_one_it_is() -> None:
    with strongroom.open("memory://", space="acme") as ctx:
        text = repr(ctx.sessions.open("support-7"))
        assert text.startswith("<Session 'support-7' in 'acme', opened 20") and "Async" not in text


def test_an_async_session_says_which_one_it_is() -> None:
    async def main() -> str:
        ctx = await strongroom.aopen("memory://")
        return repr(await ctx.sessions.open("s"))

    assert asyncio.run(main()).startswith("<AsyncSession 's' in 'default', opened 20")


def test_a_session_has_a_length_and_is_true_even_when_it_is_empty() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        assert len(session) == 0 and session
        stored = session.append(said("a", "b", "c"))
        session.truncate_from(stored[2].id)
        assert len(session) == 2


def test_iterating_a_session_meets_every_visible_message_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.services.sessions.reader.PAGE", 2)
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        stored = session.append(said(*"abcde"))
        session.truncate_from(stored[4].id)
        session.append(said("f"))
        assert [message["content"] for message in session] == list("abcdf")


def test_iterating_an_async_session_meets_every_visible_message_once() -> None:
    async def main() -> list[Any]:
        ctx = await strongroom.aopen("memory://")
        session = await ctx.sessions.open("s")
        await session.append(said(*"abc"))
        return [message["content"] async for message in session]

    assert asyncio.run(main()) == list("abc")


async def test_a_session_is_deleted_by_its_id(ctx: Any) -> None:
    await (await ctx.sessions.open("s")).append(HELLO)
    await ctx.sessions.delete("s")
    assert list(await ctx.sessions.list()) == []
    with pytest.raises(NotFound, match="there is no session 's'; nothing changed"):
        await ctx.sessions.delete("s")


async def test_the_budget_of_a_window_needs_no_name(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append(HELLO)
    assert (await session.window(4000)).messages == (await session.window(max_tokens=4000)).messages == [HELLO]


async def test_one_message_and_one_tool_need_no_list(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    assert len(await session.replace(HELLO)) == 1
    tool = {"type": "function", "function": {"name": "f"}}
    assert (await session.window(400, tools=tool)).total_tokens == (
        await session.window(400, tools=[tool])
    ).total_tokens


async def test_the_next_of_a_page_is_passed_back_as_it_is(ctx: Any) -> None:
    session = await ctx.sessions.open("s1")
    await ctx.sessions.open("s2")
    await session.append(said("a", "b", "c"))
    first = await session.page(limit=2)
    assert [one["content"] for one in await session.page(after=first.next, limit=2)] == ["c"]
    sessions = await ctx.sessions.list(limit=1)
    assert [info.id for info in await ctx.sessions.list(after=sessions.next)] == ["s2"]


async def test_only_a_write_says_that_nothing_changed(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    for reading in (ctx.sessions.get("gone"), session.get("nope")):
        with pytest.raises(NotFound) as told:
            await reading
        assert "nothing changed" not in str(told.value)
    for writing in (session.pin("nope"), session.truncate_from("nope"), session.restore(), session.fork("nope")):
        with pytest.raises(NotFound, match=r"; nothing changed$"):
            await writing


# ---- without its tokenizer ------------------------------------------------------------------------------------------


async def counted_by_words(ctx: Any) -> Any:
    session = await ctx.sessions.open("s", tokenizer=WORDS)
    await session.append([*said("one two", "three"), {**HELLO, "id": "mine"}])
    return await ctx.sessions.get("s")


async def test_a_session_is_read_without_its_tokenizer(ctx: Any) -> None:
    stranger = await counted_by_words(ctx)
    assert [one.tokens for one in await stranger.load()] == [3 + 1 + 2, 3 + 1 + 1, 3 + 1 + 1]
    assert len(await stranger.load(2)) == 2
    assert len(await stranger.page(limit=2)) == 2
    assert (await stranger.get("mine"))["content"] == "Hello!"
    assert (await stranger.info()).tokenizer == "words"


async def test_a_session_is_searched_without_its_tokenizer() -> None:
    with strongroom.open("memory://") as ctx:
        ctx.sessions.open("s", tokenizer=WORDS).append(said("one two"))
        assert [hit.message.tokens for hit in ctx.sessions.get("s").search("two")] == [6]
        assert [hit.message.tokens for hit in ctx.sessions.search("two")] == [6]


async def test_a_session_is_cut_pinned_forked_and_deleted_without_its_tokenizer(ctx: Any) -> None:
    stranger = await counted_by_words(ctx)
    await stranger.pin("mine")
    fork = await stranger.fork()
    assert (await fork.info()).tokenizer == "words"
    assert [one.tokens for one in await fork.load()] == [6, 5, 5]
    await stranger.truncate_from("mine")
    await stranger.restore()
    await stranger.delete()


async def test_what_must_count_asks_for_the_tokenizer(ctx: Any) -> None:
    stranger = await counted_by_words(ctx)
    for counting in (stranger.append(HELLO), stranger.replace(HELLO), stranger.window(100)):
        with pytest.raises(InvalidInput, match=r"'words'.* pass it to sessions.open\(tokenizer=\)"):
            await counting


async def test_reading_without_the_tokenizer_stores_no_counts_of_another_one(ctx: Any) -> None:
    await (await ctx.sessions.open("s")).append(said("one two"))
    await ctx.sessions.open("s", tokenizer=WORDS)
    stranger = await ctx.sessions.get("s")
    await stranger.load()
    assert (await stranger.backlog()).uncounted == 1
    with pytest.raises(InvalidInput, match="'words'"):
        await stranger.fork()
    again = await ctx.sessions.open("s", tokenizer=WORDS)
    assert [one.tokens for one in await again.load()] == [6]


def test_the_command_line_shows_a_session_without_its_tokenizer(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.sessions.open("s", tokenizer=WORDS).append(said("one two"))
    command = [sys.executable, "-m", "strongroom", "--url", str(tmp_path / "agent.db"), "sessions", "show", "s"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "one two" in shown and "6 tokens" in shown


class Counter:
    def __call__(self, text: str) -> int:
        return len(text)

    def count_letters(self, text: str) -> int:
        return len(text)


@pytest.mark.parametrize(
    "nameless",
    [lambda text: len(text), partial(len), Counter(), Counter().count_letters],
    ids=["lambda", "partial", "object", "method"],
)
def test_a_tokenizer_that_cannot_be_told_from_another_needs_a_name(nameless: Any) -> None:
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match="remembers its tokenizer by name"):
            ctx.sessions.open("s", tokenizer=nameless)
        assert list(ctx.sessions.list()) == []
        session = ctx.sessions.open("s", tokenizer=Custom(nameless, name="letters"))
        with pytest.raises(InvalidInput, match="remembers its tokenizer by name"):
            session.count_with(nameless)
        assert session.info().tokenizer == "letters"


def test_a_function_is_a_tokenizer_by_its_own_name() -> None:
    def letters(text: str) -> int:
        return len(text)

    with strongroom.open("memory://") as ctx:
        assert ctx.sessions.open("a", tokenizer=letters).info().tokenizer == "letters"
        assert ctx.sessions.open("b", tokenizer=len).info().tokenizer == "len"


async def test_a_message_that_is_an_object_of_a_client_library_names_the_call_that_makes_one(ctx: Any) -> None:
    class Answer(pydantic.BaseModel):
        role: str = "assistant"
        content: str = "Hello!"

    session = await ctx.sessions.open("s")
    for given in (Answer(), [Answer()]):
        with pytest.raises(InvalidInput, match=r"pass its \.model_dump\(exclude_none=True\)"):
            await session.append(given)
    await session.append(Answer().model_dump(exclude_none=True))
    assert len(await session.load()) == 1


@pytest.mark.parametrize(
    ("wrong", "path"), [({"content": float("nan")}, r"$[2].content"), ({"id": 7}, r"$[2]")], ids=["value", "id"]
)
async def test_a_mistake_in_one_message_of_several_says_in_which(ctx: Any, wrong: Any, path: str) -> None:
    session = await ctx.sessions.open("s")
    with pytest.raises(InvalidInput, match=r"; nothing changed$") as refused:
        await session.append([HELLO, HELLO, {"role": "user", **wrong}])
    assert refused.value.path == path and str(refused.value).startswith(f"{path}: ")
