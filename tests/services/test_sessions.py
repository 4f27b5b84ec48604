"""Sessions: what goes in comes back, in order, whoever wrote it; what is hidden can be brought back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.errors import Conflict, InvalidInput, NotFound

HELLO = {"role": "user", "content": "Hello!"}


def said(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in texts]


def named(id: str) -> Any:
    return {**HELLO, "id": id}


async def contents(session: Any) -> list[Any]:
    return [message["content"] for message in await session.load()]


async def test_a_message_comes_back_as_it_went_in(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    messages = [
        HELLO,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "narrator", "content": "zero \x00 inside", "name": "n", "extra": {"deep": [1, 2.5, None, True]}},
        {"type": "function_call_output", "call_id": "c9", "output": "no role at all"},
    ]
    await session.append(messages)
    assert [dict(message) for message in await session.load()] == messages


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
PART = st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=12)}) | st.dictionaries(
    st.text(max_size=5), JSON, max_size=3
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool", "pilot", ""]) | st.text(max_size=4)},
    optional={
        "content": st.text(max_size=20) | st.lists(PART | st.text(max_size=4), max_size=4) | JSON,
        "name": st.text(max_size=5),
        "pinned": st.booleans(),
        "priority": st.integers(-1, 10),
        "tool_calls": st.lists(st.fixed_dictionaries({"id": st.text(max_size=3), "function": JSON}), max_size=2),
        "metadata": JSON,
    },
) | st.dictionaries(st.text(max_size=6).filter(lambda key: key != "id"), JSON, max_size=4)


@settings(max_examples=25)
@given(messages=st.lists(MESSAGE, min_size=1, max_size=6))
def test_any_messages_come_back_equal(ctx: Any, runner: asyncio.Runner, messages: list[dict[str, Any]]) -> None:
    async def there_and_back() -> None:
        session = await ctx.sessions.open()
        stored = await session.append(messages)
        loaded = await session.load()
        assert [dict(message) for message in loaded] == messages
        assert [message.id for message in loaded] == [message.id for message in stored]
        assert [message.tokens for message in loaded] == [message.tokens for message in stored]

    runner.run(there_and_back())


async def test_missing_ids_and_times_are_filled_in(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    before = datetime.now(UTC)
    (stored,) = await session.append(HELLO)
    (loaded,) = await session.load()
    assert loaded == HELLO
    assert loaded.id == stored.id == loaded["id"] == loaded.get("id")
    assert before <= loaded.at <= datetime.now(UTC)
    assert loaded["timestamp"] == loaded.at.isoformat()
    assert (loaded.role, loaded.content, loaded.index) == ("user", "Hello!", 0)


async def test_what_a_reader_changes_changes_nothing(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    given_in: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    (stored,) = await session.append(given_in)
    (loaded,) = await session.load()
    for held in (given_in, stored, loaded):
        held["content"][0]["text"] = "changed"
    assert (await session.load())[0]["content"][0]["text"] == "a"


@pytest.mark.parametrize(
    "bad",
    [
        "hello",
        [3],
        [{"role": "user", "content": object()}],
        [{"role": "user", "content": float("nan")}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "user", "content": "x", "id": 7}],
        [{"role": "user", "content": "x", "id": ""}],
        [{"role": "user", "content": "x", "id": "a"}, {"role": "user", "content": "y", "id": "a"}],
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_is_written(bad: Any) -> None:
    with strongroom.open("memory://") as blocking:
        session = blocking.sessions.open("s")
        with pytest.raises(InvalidInput):
            session.append(bad)
        assert session.load() == []


async def test_order_is_the_order_of_arrival_whatever_the_timestamps_say(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([{**HELLO, "content": "first", "timestamp": "2030-01-01T00:00:00Z"}])
    await session.append([{**HELLO, "content": "second", "timestamp": "1990-01-01T00:00:00+02:00"}])
    assert await contents(session) == ["first", "second"]


async def test_load_returns_the_newest_k(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append(said("a", "b", "c"))
    assert [m["content"] for m in await session.load(k=2)] == ["b", "c"]
    assert len(await session.load(k=99)) == 3


async def test_pages_meet_every_message_once_in_both_directions(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append(said(*"abcdefg"))
    await session.truncate_from((await session.load())[5].id)
    await session.append(said("h"))
    for reverse in (False, True):
        pages, after = [], None
        while True:
            page = await session.page(after=after, limit=2, reverse=reverse)
            pages.append("".join(message["content"] for message in page))
            after = page.next
            if after is None:
                break
        assert pages == (["ab", "cd", "eh"] if not reverse else ["eh", "cd", "ab"])
    with pytest.raises(InvalidInput):
        await session.page(after="nonsense")


async def test_a_duplicate_id_is_refused_and_nothing_changes(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([{**HELLO, "id": "a"}])
    with pytest.raises(Conflict, match="'a' already"):
        await session.append([{**HELLO, "id": "b"}, {**HELLO, "id": "a"}])
    assert [message.id for message in await session.load()] == ["a"]
    await session.append([{**HELLO, "id": "b"}])


async def test_two_sessions_may_use_the_same_id(ctx: Any) -> None:
    for name in ("one", "two"):
        session = await ctx.sessions.open(name)
        await session.append([{**HELLO, "id": "a"}])
        assert (await session.get("a")).id == "a"


async def test_an_id_given_by_the_session_cannot_be_forged(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    (stored,) = await session.append(HELLO)
    with pytest.raises(Conflict):
        await session.append([{**HELLO, "id": stored.id}])
    with pytest.raises(InvalidInput):
        await session.append([{**HELLO, "id": stored.id.replace(".0", ".5")}])
    assert len(await session.load()) == 1


async def test_a_repeated_commit_is_absorbed(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    first = await session.append([{**HELLO, "id": "a"}, HELLO], commit_id="turn-1")
    again = await session.append([{**HELLO, "id": "a"}, HELLO], commit_id="turn-1")
    assert first == again
    assert [m.id for m in first] == [m.id for m in again]
    assert len(await session.load()) == 2


async def test_truncating_hides_a_message_and_all_after_it_and_can_be_undone(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    stored = await session.append(said("a", "b", "c"))
    assert (await session.truncate_from(stored[1].id)).messages == 2
    await session.append(said("d"))
    assert await contents(session) == ["a", "d"]
    assert (await session.info()).messages == 2
    assert (await session.restore()).messages == 2
    assert await contents(session) == ["a", "b", "c", "d"]
    with pytest.raises(NotFound):
        await session.restore()


async def test_cuts_are_undone_one_by_one_newest_first(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    _, b, c = await session.append(said("a", "b", "c"))
    await session.truncate_from(c.id)
    await session.truncate_from(b.id)
    await session.replace(said("x"))
    assert await contents(session) == ["x"]
    await session.restore()
    assert await contents(session) == ["a", "x"]
    await session.restore()
    assert await contents(session) == ["a", "b", "x"]
    await session.restore()
    assert await contents(session) == ["a", "b", "c", "x"]


async def test_truncating_from_an_unknown_message_changes_nothing(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    (kept,) = await session.append(said("a"))
    for unknown in ("nope", kept.id.replace(".0", ".7"), kept.id + "0"):
        with pytest.raises(NotFound):
            await session.truncate_from(unknown)
    assert await contents(session) == ["a"]


async def test_an_id_is_free_again_once_its_message_is_hidden(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([{**HELLO, "id": "a"}])
    await session.truncate_from("a")
    await session.append([{"role": "user", "content": "again", "id": "a"}])
    assert (await session.get("a"))["content"] == "again"
    with pytest.raises(Conflict):
        await session.restore()
    assert await contents(session) == ["again"]
    await session.truncate_from("a")
    await session.restore()
    assert (await session.get("a"))["content"] == "again"


async def test_a_restored_message_has_its_id_back(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([{**HELLO, "id": "a"}])
    await session.truncate_from("a")
    with pytest.raises(NotFound):
        await session.get("a")
    await session.append([{"role": "user", "content": "other", "id": "a"}])
    await session.replace([])
    await session.restore()  # of the replacement
    await session.truncate_from("a")
    assert await session.load() == []
    await session.restore()
    assert (await session.get("a"))["content"] == "other"


async def test_replace_leaves_exactly_the_new_messages(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([{**HELLO, "id": "a"}, HELLO])
    stored = await session.replace([{"role": "user", "content": "new", "id": "a"}])
    assert await contents(session) == ["new"]
    assert stored[0].id == "a"
    assert await session.replace([]) == []
    assert await session.load() == []


def test_a_fork_that_is_made_is_told_though_nothing_can_be_read_any_more(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strongroom.open(address) as ctx:
        session, store, commit = ctx.sessions.open("s"), ctx.store, ctx.store.commit
        session.append(said("a"))

        def away(questions: Any) -> Any:
            raise strongroom.Unavailable("away", reason="test")

        def last(made: Any) -> Any:
            receipt = commit(made)
            monkeypatch.setattr(store, "read", away)
            return receipt

        monkeypatch.setattr(store, "commit", last)
        assert session.fork(session_id="f").id == "f"
        monkeypatch.undo()
        assert [one.content for one in ctx.sessions.get("f").load()] == ["a"]


async def test_a_fork_goes_its_own_way(ctx: Any) -> None:
    session = await ctx.sessions.open("s", metadata={"k": 1}, tags={"user": "u1"})
    await session.append([{"role": "system", "content": "rules"}, *said("a"), {**HELLO, "id": "b"}, *said("c")])
    await session.pin("b")
    fork = await session.fork("b", session_id="f", title="A fork")
    await fork.append(said("d"))
    assert await contents(fork) == ["rules", "a", "Hello!", "d"]
    assert await contents(session) == ["rules", "a", "Hello!", "c"]
    assert [m.at for m in (await fork.load())[:3]] == [m.at for m in (await session.load())[:3]]
    info = await fork.info()
    assert (info.title, info.metadata, info.tags, info.forked_from, info.pinned) == (
        "A fork",
        {"k": 1},
        {"user": "u1"},
        "s",
        (2,),
    )
    with pytest.raises(Conflict):
        await fork.append([{**HELLO, "id": "b"}])
    with pytest.raises(Conflict):
        await session.fork(session_id="f")
    await session.delete()
    assert len(await fork.load()) == 4


async def test_a_fork_into_the_name_of_a_deleted_session_keeps_its_pins(ctx: Any) -> None:
    gone = await ctx.sessions.open("f")
    await gone.append([{**HELLO, "id": "b"}])
    await gone.delete()
    session = await ctx.sessions.open("s")
    await session.append([*said("a"), {**HELLO, "id": "b"}])
    await session.pin("b")
    fork = await session.fork(session_id="f")
    (pinned,) = (await fork.info()).pinned
    assert (await fork.get("b")).index == pinned


async def test_sessions_are_listed_by_tag_in_order_of_creation(ctx: Any) -> None:
    for number in range(5):
        session = await ctx.sessions.open(f"s{number}", title=f"Title {number}", tags={"even": str(number % 2 == 0)})
        await session.append(said(*"abc"[:number]))
    first = await ctx.sessions.list(limit=2)
    rest = await ctx.sessions.list(after=first.next, limit=9)
    assert [(info.id, info.messages) for info in (*first, *rest)] == [(f"s{n}", min(n, 3)) for n in range(5)]
    assert [info.id for info in await ctx.sessions.list(tags={"even": "True"}, reverse=True)] == ["s4", "s2", "s0"]


async def test_a_session_can_be_renamed_and_annotated(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append(HELLO)
    await session.rename("Greetings")
    await session.set_metadata({"mood": "good"})
    info = await session.info()
    assert (info.title, info.metadata, info.messages) == ("Greetings", {"mood": "good"}, 1)
    again = await ctx.sessions.open("s", title="ignored", metadata={"mood": "ignored"})
    assert (await again.info()).title == "Greetings"


async def test_opening_without_a_name_makes_a_new_session(ctx: Any) -> None:
    one, two = await ctx.sessions.open(), await ctx.sessions.open()
    assert one.id != two.id


# ---- whose it is ----------------------------------------------------------------------------------------------------


async def test_a_session_is_listed_by_its_user(ctx: Any) -> None:
    await ctx.sessions.open("a", user_id="u1", tags={"team": "x"})
    await ctx.sessions.open("b", user_id="u2")
    assert [(info.id, info.user_id) for info in await ctx.sessions.list(user_id="u1")] == [("a", "u1")]
    assert [info.id for info in await ctx.sessions.list(user_id="u1", tags={"team": "y"})] == []


async def test_a_session_of_nobody_gets_an_owner_and_keeps_it(ctx: Any) -> None:
    session = await ctx.sessions.open("a", tags={"team": "x"})
    await session.append({"role": "user", "content": "hello"})
    await ctx.sessions.open("a", user_id="u1")
    await ctx.sessions.open("a")
    info = await session.info()
    assert (info.user_id, info.tags["team"], info.messages) == ("u1", "x", 1)


async def test_a_session_of_somebody_else_is_not_opened(ctx: Any) -> None:
    await ctx.sessions.open("a", user_id="u1")
    with pytest.raises(Conflict, match="another user; nothing changed"):
        await ctx.sessions.open("a", user_id="u2")
    with pytest.raises(Conflict, match="another user; nothing changed"):
        await ctx.sessions.open("a", tags={"user_id": "u2"})
    with pytest.raises(InvalidInput, match="two users"):
        await ctx.sessions.open("b", user_id="u1", tags={"user_id": "u2"})


async def test_a_fork_belongs_to_the_same_user(ctx: Any) -> None:
    session = await ctx.sessions.open("a", user_id="u1")
    await session.append({"role": "user", "content": "hello"})
    assert (await (await session.fork()).info()).user_id == "u1"


async def test_an_id_that_a_copy_gives_out_itself_names_no_message_that_was_copied(ctx: Any) -> None:
    own = (await (await ctx.sessions.open("copy")).append(HELLO))[0].id
    await ctx.sessions.delete("copy")
    session = await ctx.sessions.open("s")
    await session.append([{**HELLO, "id": own.replace(".0", ".2")}, HELLO, HELLO])
    copy = await session.fork(session_id="copy")
    assert len({message.id for message in await copy.load()}) == 3
