"""Sessions that carry the messages of other frameworks: sidecars, ids that repeat, pop, guarded replacement."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strongroom
from strongroom.bridge import can_search
from strongroom.errors import Conflict, InvalidInput, NotFound
from tests.repeats.sessions_rows import said, told

ITEM = {"type": "reasoning", "id": "rs_1", "encrypted": "opaque", "nested": [1, None, {"deep": "canary"}]}
FLAT = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(FLAT | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def texts(messages: Any) -> list[str]:
    return [one["content"] for one in messages]


# ---- sidecars -------------------------------------------------------------------------------------------------------


async def test_a_sidecar_comes_back_as_it_was_given(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    stored = await session.append([said("a"), said("b")], sidecars=[ITEM, None])
    assert [one.sidecar for one in stored] == [ITEM, None]
    again = await (await ctx.sessions.get("s")).load()
    assert [one.sidecar for one in again] == [ITEM, None]
    assert (await session.get(stored[0].id)).sidecar == ITEM


async def test_a_sidecar_is_neither_counted_nor_sent_nor_searched(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    [plain] = await session.append(said("hello"))
    [carrying] = await session.append(said("hello"), sidecars=[ITEM])
    assert carrying.tokens == plain.tokens
    assert dict(carrying) == said("hello")
    assert (await session.window(max_tokens=100)).messages == [said("hello")] * 2
    if can_search(ctx.store):
        assert await session.search("canary") == []


async def test_a_sidecar_goes_with_a_fork_and_comes_back_with_a_restore(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    [one] = await session.append(said("a"), sidecars=[ITEM])
    fork = await session.fork()
    assert [each.sidecar for each in await fork.load()] == [ITEM]
    await session.truncate_from(one.id)
    await session.restore()
    assert [each.sidecar for each in await session.load()] == [ITEM]


async def test_a_sidecar_stays_with_a_message_whose_text_is_in_parts(ctx: Any) -> None:
    session = await ctx.sessions.open("s", tokenizer=len)
    parts = {
        "role": "user",
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        "pinned": True,
    }
    await session.append(parts, sidecars=[ITEM])
    [one] = await session.load()
    assert (dict(one), one.sidecar) == (parts, ITEM)


@given(JSON)
def test_any_json_is_a_sidecar(value: Any) -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        session.append({"role": "user", "content": "a"}, sidecars=[value])
        [one] = session.load()
        assert one.sidecar == value
        assert type(one.sidecar) is type(value)


def test_a_message_with_a_sidecar_can_be_copied_and_pickled() -> None:
    with strongroom.open("memory://") as ctx:
        [one] = ctx.sessions.open("s").append({"role": "user", "content": "a"}, sidecars=[ITEM])
    for twin in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert told(twin) == told(one)


@pytest.mark.parametrize("sidecars", [[], [1, 2], [object()], [{"a": float("nan")}]])
async def test_sidecars_that_are_not_one_for_each_message_are_refused(ctx: Any, sidecars: Any) -> None:
    session = await ctx.sessions.open("s")
    with pytest.raises(InvalidInput):
        await session.append(said("a"), sidecars=sidecars)
    assert await session.load() == []


# ---- ids that repeat ------------------------------------------------------------------------------------------------


async def test_an_id_may_repeat_if_the_writer_says_so(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    messages = [{**said("a"), "id": "msg"}, {**said("b"), "id": "msg"}]
    stored = await session.append(messages, ids="repeat")
    await session.append({**said("c"), "id": "msg"}, ids="repeat")
    assert [dict(one) for one in await session.load()] == [*messages, {**said("c"), "id": "msg"}]
    assert [one["id"] for one in stored] == ["msg", "msg"]
    assert len({one.id for one in await session.load()}) == 3


async def test_a_repeated_id_is_data_and_names_nothing(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    [one] = await session.append({**said("a"), "id": "msg"}, ids="repeat")
    with pytest.raises(NotFound):
        await session.get("msg")
    assert (await session.get(one.id))["id"] == "msg"
    [unique] = await session.append({**said("b"), "id": "msg"})
    assert (unique.id, (await session.get("msg"))["content"]) == ("msg", "b")
    fork = await session.fork()
    assert [each["id"] for each in await fork.load()] == ["msg", "msg"]
    assert (await fork.get("msg"))["content"] == "b"


async def test_an_id_that_repeats_may_be_any_json(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    for id in (7, None, "", "x" * 500, ["a"]):
        [one] = await session.append({**said("a"), "id": id}, ids="repeat")
        assert dict(await session.get(one.id)) == {**said("a"), "id": id}


# ---- pop ------------------------------------------------------------------------------------------------------------


async def test_pop_takes_the_newest_message_away_and_returns_it(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    stored = await session.append([said("a"), said("b")], sidecars=[None, ITEM])
    assert told(await session.pop()) == told(stored[1])
    assert texts(await session.load()) == ["a"]
    await session.append(said("c"))
    assert [(await session.pop())["content"] for _ in range(2)] == ["c", "a"]
    assert await session.pop() is None


async def test_what_was_popped_comes_back_with_restore(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append([said("a"), said("b"), said("c")])
    await session.pop()
    await session.pop()
    await session.restore()
    assert texts(await session.load()) == ["a", "b"]
    await session.restore()
    assert texts(await session.load()) == ["a", "b", "c"]


async def test_pop_passes_over_what_is_hidden(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    stored = await session.append([said("a"), said("b"), said("c")])
    await session.truncate_from(stored[1].id)
    assert (await session.pop())["content"] == "a"


async def test_pop_of_nothing_under_an_id_stays_nothing(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    assert await session.pop(commit_id="p") is None
    await session.append(said("a"))
    assert await session.pop(commit_id="p") is None
    assert texts(await session.load()) == ["a"]


# ---- replacing what nobody has changed ------------------------------------------------------------------------------


async def test_a_suffix_is_replaced_in_one_step(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    stored = await session.append([{**said(text), "id": text} for text in "abc"])
    new = await session.replace_from(stored[1].id, [{**said("B"), "id": "c"}, said("C")])
    assert texts(await session.load()) == ["a", "B", "C"]
    assert [one.id for one in await session.load()] == ["a", *(one.id for one in new)]
    await session.pop()
    with pytest.raises(Conflict, match="'a' already; nothing changed"):
        await session.replace_from("c", {**said("x"), "id": "a"})
    assert texts(await session.load()) == ["a", "B"]


async def test_a_replaced_suffix_comes_back_with_restore(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    stored = await session.append([said("a"), said("b")])
    await session.replace_from(stored[1].id, said("c"))
    await session.restore()
    assert texts(await session.load()) == ["a", "b", "c"]


async def appended(session: Any) -> None:
    await session.append(said("new"))


async def cut_and_appended(session: Any) -> None:
    await session.pop()
    await session.append(said("as many as before"))


async def popped_and_restored(session: Any) -> None:
    await session.pop()
    await session.restore()


CHANGES = [appended, cut_and_appended, popped_and_restored]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("write", ["append", "replace", "replace_from", "pop"])
async def test_a_writer_who_has_not_seen_the_newest_change_is_refused(ctx: Any, change: Any, write: str) -> None:
    session = await ctx.sessions.open("s")
    [first, _] = await session.append([said("a"), said("b")])
    seen = (await session.info()).revision
    await change(session)
    before = [told(one) for one in await session.load()]
    with pytest.raises(Conflict, match="nothing changed") as refused:
        await written(session, write, first.id, seen)
    assert refused.value.actual > refused.value.expected
    assert [told(one) for one in await session.load()] == before
    await written(session, write, first.id, (await session.info()).revision)
    assert [told(one) for one in await session.load()] != before


async def written(session: Any, write: str, message_id: str, revision: str) -> None:
    if write == "pop":
        await session.pop(expected_revision=revision)
    elif write == "replace_from":
        await session.replace_from(message_id, said("x"), expected_revision=revision)
    else:
        await getattr(session, write)(said("x"), expected_revision=revision)


async def test_a_revision_of_a_session_that_was_deleted_is_not_one_of_its_successor(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append(said("a"))
    await session.rename("t")
    seen = (await session.info()).revision
    await session.delete()
    again = await ctx.sessions.open("s")
    await again.append(said("b"))
    with pytest.raises(Conflict):
        await again.append(said("x"), expected_revision=seen)


async def test_a_guarded_append_repeats_like_any_other(ctx: Any) -> None:
    session = await ctx.sessions.open("s")
    seen = (await session.info()).revision
    first = await session.append(said("a"), expected_revision=seen, commit_id="t")
    again = await session.append(said("a"), expected_revision=seen, commit_id="t")
    assert [told(one) for one in again] == [told(one) for one in first]


@pytest.mark.parametrize("revision", ["", "7", "x.1.1", "1.1.1.1", "١.1.1"])
async def test_what_is_no_revision_is_refused(ctx: Any, revision: str) -> None:
    session = await ctx.sessions.open("s")
    with pytest.raises(InvalidInput, match="that session"):
        await session.append(said("a"), expected_revision=revision)


# ---- who said it, and when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("2023-05-08T13:56:00+02:00", datetime(2023, 5, 8, 11, 56, tzinfo=UTC)),
        ("2023-05-08T13:56:00", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        (1_700_000_000.5, datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)),
    ],
)
async def test_a_message_tells_who_said_it_and_when(ctx: Any, stamp: Any, time: datetime) -> None:
    session = await ctx.sessions.open("s")
    await session.append({**said("a"), "name": "Ana", "timestamp": stamp})
    [one] = await session.load()
    assert (one.name, one.time) == ("Ana", time)
    assert one["timestamp"] == stamp


@pytest.mark.parametrize("stamp", [None, "last Friday", True, 10**18, [], {}])
async def test_a_message_without_a_time_of_its_own_was_said_when_it_arrived(ctx: Any, stamp: Any) -> None:
    session = await ctx.sessions.open("s")
    await session.append({**said("a"), "timestamp": stamp, "name": 7})
    [one] = await session.load()
    assert (one.name, one.time) == (None, one.at)
