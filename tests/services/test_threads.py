"""Threads: what goes in comes back, unchanged, in order, within limits."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.codec import encode
from strongroom.errors import BudgetExceeded, Closed, InvalidInput, NotFound
from strongroom.services.threads.payloads import Inert


@dataclass
class Text:
    message: str
    tags: list[str] = field(default_factory=list)


class Point(msgspec.Struct, frozen=True):
    x: int
    y: float = 0.0


class Form(pydantic.BaseModel):
    name: str
    age: int


@pytest.fixture
def pair(make_ctx: Any) -> Any:
    """Two contexts on one store, as in two processes."""
    return make_ctx(), make_ctx()


@pytest.fixture
def spaces(make_ctx: Any) -> Any:
    return make_ctx(space="acme"), make_ctx(space="other")


async def fill(ctx: Any, thread_id: str, count: int) -> None:
    for number in range(count):
        await ctx.threads.append(thread_id, {"n": number}, from_id="a" if number % 2 else "b", to_id="c")


async def test_indexes_count_up_from_zero(ctx: Any) -> None:
    slots = [await ctx.threads.append("t", n, from_id="a", to_id="b") for n in range(3)]
    assert [slot.index for slot in slots] == [0, 1, 2]


async def test_a_json_value_comes_back_as_it_was(ctx: Any) -> None:
    payloads = [None, True, 7, 1.5, "text", [1, [2]], {"a": {"b": None}}, "\u20ac"]
    for payload in payloads:
        await ctx.threads.append("t", payload, from_id="a")
    assert [slot.payload for slot in await (await ctx.threads.get("t")).slice()] == payloads


@pytest.mark.parametrize("payload", [Text("hi", ["x"]), Point(1, 2.5), Form(name="Ana", age=41)], ids=repr)
async def test_a_registered_type_comes_back_as_itself(ctx: Any, payload: Any) -> None:
    ctx.threads.register(type(payload)) if hasattr(ctx, "scope") else await ctx.threads.register(type(payload))
    await ctx.threads.append("t", payload, from_id="a")
    [slot] = await (await ctx.threads.get("t")).slice()
    assert slot.payload == payload


@pytest.mark.parametrize("address", ["sqlite", "postgres", "redis"], indirect=True)
async def test_an_unregistered_type_comes_back_as_inert_data_with_its_name(pair: Any) -> None:
    await pair[0].threads.append("t", Text("hi", ["x"]), from_id="a")
    [slot] = await (await pair[1].threads.get("t")).slice()
    assert (type(slot.payload), slot.payload.type) == (Inert, "Text")
    assert slot.payload.data == {"message": "hi", "tags": ["x"]}


async def test_inert_data_can_be_passed_on_as_what_it_is(ctx: Any) -> None:
    inert = Inert("Text", encode({"message": "hi", "tags": []}))
    await ctx.threads.append("t", inert, from_id="a")
    await ctx.threads.append("t", inert, from_id="a")
    slots = await (await ctx.threads.get("t")).by_type("Text")
    assert [slot.payload for slot in slots] == [inert, inert]


@pytest.mark.parametrize("type", ["", "a\nb", "a" * 3_000, 5], ids=lambda type: str(type)[:5])
async def test_inert_data_of_a_type_that_none_can_have_is_refused(ctx: Any, type: Any) -> None:
    with pytest.raises(InvalidInput, match="a payload's type"):
        await ctx.threads.append("t", Inert(type, encode(1)), from_id="a")


async def test_the_slot_holds_the_very_object(ctx: Any) -> None:
    payload = Text("hi")
    assert (await ctx.threads.append("t", payload, from_id="a")).payload is payload


@pytest.mark.parametrize("payload", [Text("hi", ["x"]), {"message": "hi"}], ids=["dataclass", "dict"])
async def test_an_edit_of_the_object_never_shows_in_the_history(ctx: Any, payload: Any) -> None:
    slot = await ctx.threads.append("t", payload, from_id="a")
    before = slot.data
    if isinstance(payload, Text):
        payload.message = "TAMPERED"
        payload.tags.append("y")
    else:
        payload["message"] = "TAMPERED"
    [stored] = await (await ctx.threads.get("t")).slice()
    assert msgspec.to_builtins(slot.payload) == slot.data == stored.data == before
    assert type(slot.payload) is type(payload)


async def test_a_slot_cannot_be_changed(ctx: Any) -> None:
    slot = await ctx.threads.append("t", "x", from_id="a")
    with pytest.raises(AttributeError):
        slot.thread_id = "other"
    slot.metadata["from_id"] = "other"
    assert slot.metadata == {}


async def test_metadata_comes_back_whole(ctx: Any) -> None:
    told = {"nudge": "do it", "is_self_call": True, "nested": [1, None, {"deep": "x"}]}
    slot = await ctx.threads.append("t", Text("x"), from_id="a", to_id="b", metadata=told)
    [stored] = await (await ctx.threads.get("t")).slice()
    assert slot.metadata == stored.metadata == told
    for one in (slot, stored):
        assert (one.thread_id, one.from_id, one.to_id, one.index, one.type) == ("t", "a", "b", 0, "Text")
        assert (one.chain, one.at.utcoffset().total_seconds()) == (("a", "b"), 0)


@pytest.mark.parametrize("metadata", [{"chain": ["a"]}, {"x": object()}, {"x": float("nan")}, {"x": "\ud800"}, {1: 2}])
async def test_metadata_that_cannot_be_stored_is_refused(ctx: Any, metadata: Any) -> None:
    with pytest.raises(InvalidInput):
        await ctx.threads.append("t", "x", from_id="a", metadata=metadata)
    assert await (await ctx.threads.get("t")).length() == 0


@pytest.mark.parametrize(
    "payload",
    [
        float("nan"),
        {"x": float("inf")},
        2**64,
        {1: 2},
        {"x": object()},
        object(),
        {1, 2},
        "\ud800",
        Text("\ud800"),
        Point(2**64),
        Point(1, float("nan")),
        Text(object()),  # type: ignore[arg-type]
        Text("x", [["y"], float("nan")]),  # type: ignore[list-item]
    ],
    ids=range(13),
)
def test_what_would_come_back_changed_is_refused_and_nothing_changes(payload: Any) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.threads.append("t", "before", from_id="a")
        with pytest.raises(InvalidInput):
            ctx.threads.append("t", payload, from_id="a")
        assert len(ctx.threads.get("t")) == 1


@pytest.mark.parametrize("names", [{"from_id": ""}, {"from_id": "a\0b"}, {"from_id": "a", "to_id": "x" * 256}])
async def test_a_name_that_cannot_be_stored_is_refused(ctx: Any, names: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        await ctx.threads.append("t", "x", **names)


async def test_a_thread_nobody_wrote_to_is_empty(ctx: Any) -> None:
    thread = await ctx.threads.get("unknown")
    assert await thread.length() == 0
    assert await thread.slice() == []
    assert [slot async for slot in _each(thread)] == []


async def test_a_slot_that_is_not_there_is_not_found(ctx: Any) -> None:
    await fill(ctx, "t", 2)
    thread = await ctx.threads.get("t")
    for index in (2, -3):
        with pytest.raises(NotFound):
            await _item(thread, index)


async def test_slots_are_found_by_index_from_either_end(ctx: Any) -> None:
    await fill(ctx, "t", 3)
    thread = await ctx.threads.get("t")
    assert [(await _item(thread, index)).index for index in (0, 2, -1, -3)] == [0, 2, 2, 0]


@given(start=st.integers(-4, 8), stop=st.none() | st.integers(-4, 8))
def test_a_slice_is_what_a_list_would_give(start: int, stop: int | None) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.threads.append_many("t", list(range(5)), from_id="a")
        assert [slot.payload for slot in ctx.threads.get("t")[start:stop]] == list(range(5))[start:stop]


async def test_reading_pages_through_a_long_thread(ctx: Any) -> None:
    await ctx.threads.append_many("t", list(range(600)), from_id="a")
    thread = await ctx.threads.get("t")
    assert [slot.payload async for slot in _each(thread)] == list(range(600))
    assert [slot.index for slot in await thread.slice(250, 520)] == list(range(250, 520))


async def test_slots_are_filtered_by_type_and_by_sender(ctx: Any) -> None:
    await ctx.threads.append("t", Text("one"), from_id="a")
    await ctx.threads.append("t", {"n": 2}, from_id="b")
    await ctx.threads.append("t", Text("three"), from_id="b")
    thread = await ctx.threads.get("t")
    assert [slot.index for slot in await thread.by_type("Text")] == [0, 2]
    assert [slot.index for slot in await thread.by_type(Text)] == [0, 2]
    assert [slot.index for slot in await thread.sent_by("b")] == [1, 2]


async def test_many_are_appended_next_to_each_other_or_not_at_all(ctx: Any) -> None:
    slots = await ctx.threads.append_many("t", ["a", "b"], from_id="x")
    assert [slot.index for slot in slots] == [0, 1]
    with pytest.raises(InvalidInput):
        await ctx.threads.append_many("t", ["c", float("nan")], from_id="x")
    assert await (await ctx.threads.get("t")).length() == 2


async def test_a_repeated_commit_id_returns_the_first_slot(ctx: Any) -> None:
    first = await ctx.threads.append("t", {"n": 1}, from_id="a", commit_id="once")
    await ctx.threads.append("t", "later", from_id="a")
    assert await ctx.threads.append("t", {"n": 1}, from_id="a", commit_id="once") == first
    assert await (await ctx.threads.get("t")).length() == 2


async def test_a_repeat_returns_the_first_slot_although_the_thread_has_ended(ctx: Any) -> None:
    first = await ctx.threads.append_many("t", ["x", "y"], from_id="a", commit_id="once")
    await ctx.threads.delete("t")
    assert await ctx.threads.append_many("t", ["x", "y"], from_id="a", commit_id="once") == first
    assert await (await ctx.threads.get("t")).length() == 0


async def test_one_id_for_two_threads_is_two_messages(ctx: Any) -> None:
    for thread_id in ("t", "u"):
        await ctx.threads.append(thread_id, "x", from_id="a", commit_id="turn-7")
    assert [await (await ctx.threads.get(thread_id)).length() for thread_id in ("t", "u")] == [1, 1]


async def test_one_id_for_two_messages_is_refused_and_nothing_changes(ctx: Any) -> None:
    await ctx.threads.append("t", "x", from_id="a", commit_id="once")
    for other in ({"payload": "y"}, {"from_id": "b"}, {"to_id": "c"}, {"metadata": {"nudge": "do it"}}):
        with pytest.raises(InvalidInput, match="other content"):
            await ctx.threads.append("t", **{"payload": "x", "from_id": "a", **other}, commit_id="once")
    assert await (await ctx.threads.get("t")).length() == 1


async def test_nothing_to_append_is_remembered_as_that(ctx: Any) -> None:
    assert await ctx.threads.append_many("t", [], from_id="a", commit_id="once") == ()
    assert await ctx.threads.append_many("t", [], from_id="a", commit_id="once") == ()
    with pytest.raises(InvalidInput):
        await ctx.threads.append_many("t", ["x"], from_id="a", commit_id="once")


async def test_a_sweep_that_is_repeated_tells_what_the_first_one_ended(ctx: Any) -> None:
    await fill(ctx, "t", 1)
    assert await ctx.threads.sweep(ttl_seconds=0, commit_id="night") == ("t",)
    await fill(ctx, "t", 1)
    assert await ctx.threads.sweep(ttl_seconds=0, commit_id="night") == ("t",)
    assert await (await ctx.threads.get("t")).length() == 1


def test_what_is_remembered_of_threads_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.services.threads.threads._KEPT", 5)
    threads = strongroom.open("memory://").threads.limited(max_slots_per_thread=9)
    for number in range(50):
        for _ in range(3):
            threads.append(f"t{number}", "x", from_id=f"a{number}", to_id="b")
    short: Any = threads.append
    assert max(len(threads._async.births), len(short.__self__._ways)) <= 5


def test_a_thread_shows_its_id() -> None:
    with strongroom.open("memory://") as ctx:
        assert repr(ctx.threads.get("t")) == "Thread('t')"
        assert repr(ctx.threads.get("t")._async) == "AsyncThread('t')"


async def test_over_the_slot_limit_is_an_error_and_nothing_changes(ctx: Any) -> None:
    threads = await _limited(ctx, max_slots_per_thread=2)
    await threads.append("t", 1, from_id="a")
    await threads.append("t", 2, from_id="a")
    with pytest.raises(BudgetExceeded) as refused:
        await threads.append("t", 3, from_id="a")
    assert (refused.value.limit, refused.value.needed) == (2, 3)
    assert await (await threads.get("t")).length() == 2


async def test_over_the_thread_limit_is_an_error_and_nothing_changes(ctx: Any) -> None:
    threads = await _limited(ctx, max_threads=2)
    await threads.append("t1", 1, from_id="a")
    await threads.append("t2", 2, from_id="a")
    with pytest.raises(BudgetExceeded):
        await threads.append("t3", 3, from_id="a")
    await threads.append("t1", 4, from_id="a")
    assert (await threads.stats()).thread_count == 2


async def test_deleting_makes_room_for_another_thread(ctx: Any) -> None:
    threads = await _limited(ctx, max_threads=1)
    await threads.append("t1", 1, from_id="a")
    assert await threads.delete("t1") is True
    await threads.append("t2", 2, from_id="a")
    assert [info.thread_id for info in (await threads.list())] == ["t2"]


async def test_deleting_twice_removes_nothing_twice(ctx: Any) -> None:
    await fill(ctx, "t", 1)
    assert [await ctx.threads.delete("t"), await ctx.threads.delete("t"), await ctx.threads.delete("x")] == [
        True,
        False,
        False,
    ]
    assert (await ctx.threads.stats()).thread_count == 0


async def test_a_thread_that_was_deleted_goes_on_counting(ctx: Any) -> None:
    await fill(ctx, "t", 3)
    await ctx.threads.delete("t")
    slot = await ctx.threads.append("t", "again", from_id="a")
    thread = await ctx.threads.get("t")
    assert (slot.index, await thread.length(), [s.payload for s in await thread.slice()]) == (3, 1, ["again"])


@pytest.mark.parametrize("address", ["sqlite", "postgres", "redis"], indirect=True)
async def test_slots_from_before_a_deletion_do_not_count_against_the_limit(pair: Any) -> None:
    first, second = [await _limited(ctx, max_slots_per_thread=2) for ctx in pair]
    await first.append_many("t", [1, 2], from_id="a")
    await second.delete("t")
    await second.append("t", 3, from_id="a")
    await first.append("t", 4, from_id="a")
    with pytest.raises(BudgetExceeded):
        await first.append("t", 5, from_id="a")
    assert [slot.index for slot in await (await first.get("t")).slice()] == [2, 3]


async def test_a_deletion_leaves_a_tombstone(ctx: Any) -> None:
    await fill(ctx, "t", 3)
    await ctx.threads.delete("t")
    [info] = await ctx.threads.list(state="deleted")
    assert (info.thread_id, info.state, info.length, info.ended_at is not None) == ("t", "deleted", 3, True)
    assert (await ctx.threads.list()) == ()


async def test_stats_count_threads_and_slots(ctx: Any) -> None:
    await fill(ctx, "t1", 2)
    await fill(ctx, "t2", 3)
    stats = await (await _limited(ctx, max_threads=9)).stats()
    assert (stats.thread_count, stats.total_slots, stats.max_threads) == (2, 5, 9)


async def test_listing_pages_in_order_of_creation(ctx: Any) -> None:
    for name in ("z", "a", "m"):
        await fill(ctx, name, 1)
    first = await ctx.threads.list(limit=2)
    second = await ctx.threads.list(limit=2, after=first.next)
    assert [info.thread_id for page in (first, second) for info in page] == ["z", "a", "m"]
    assert second.next is None


@pytest.mark.parametrize("address", ["sqlite", "postgres", "redis"], indirect=True)
async def test_a_space_never_sees_another(spaces: Any) -> None:
    acme, other = spaces
    await fill(acme, "t", 2)
    assert await (await other.threads.get("t")).length() == 0
    assert (await other.threads.stats()).thread_count == 0


async def test_following_yields_what_is_there_and_then_ends_when_idle(ctx: Any) -> None:
    await ctx.threads.append_many("t", list(range(5)), from_id="a")
    followed = [slot.index async for slot in ctx.threads.follow("t", after=1, idle_seconds=0)]
    assert followed == [2, 3, 4]


async def test_a_sweep_ends_what_has_been_unused_for_too_long(ctx: Any) -> None:
    await fill(ctx, "t", 2)
    assert await ctx.threads.sweep(ttl_seconds=3600) == ()
    assert await ctx.threads.sweep(ttl_seconds=0) == ("t",)
    [info] = await ctx.threads.list(state="expired")
    assert (info.thread_id, info.length) == ("t", 2)
    assert (await ctx.threads.append("t", "again", from_id="a")).index == 2


async def test_a_sweep_without_a_time_is_refused(ctx: Any) -> None:
    with pytest.raises(InvalidInput):
        await ctx.threads.sweep()


def test_the_short_way_in_memory_does_what_the_long_one_does() -> None:
    payloads = ["x", Text("x"), Text("x", ["y"]), Point(1), {"n": 1}, [1], None, Form(name="Ana", age=41)]
    with strongroom.open("memory://") as short, strongroom.open("memory://") as long:
        for ctx in (short, long):
            ctx.threads.append("t", "begin", from_id="a", to_id="b")
        for number, payload in enumerate(payloads * 2):
            one = short.threads.append("t", payload, from_id="a", to_id="b")
            other = long.threads.append("t", payload, from_id="a", to_id="b", commit_id=str(number))
            assert (one.index, one.type, one.record.body) == (other.index, other.type, other.record.body)
        bodies = [[slot.record.body for slot in ctx.threads.get("t")] for ctx in (short, long)]
        assert bodies[0] == bodies[1]


def test_an_object_that_knows_its_own_slot_and_store_is_let_go_with_them() -> None:
    ctx = strongroom.open("memory://")
    for _ in range(2):  # the first message begins the thread, the second takes the short way
        payload = Text("x")
        payload.__dict__.update(slot=ctx.threads.append("t", payload, from_id="a", to_id="b"), ctx=ctx)
    gone = weakref.ref(payload)
    ctx.close()
    del ctx, payload
    gc.collect()
    assert gone() is None


def test_a_thread_that_is_deleted_lets_go_of_the_objects_it_held() -> None:
    with strongroom.open("memory://") as ctx:
        held = []
        for _ in range(2):
            payload = Text("x")
            held.append(weakref.ref(payload))
            ctx.threads.append("t", payload, from_id="a", to_id="b")
        del payload
        assert all(one() is not None for one in held)
        ctx.threads.delete("t")
        gc.collect()
        assert all(one() is None for one in held)


def test_after_closing_nothing_can_be_appended() -> None:
    ctx = strongroom.open("memory://")
    ctx.threads.append("t", "x", from_id="a")
    ctx.close()
    with pytest.raises(Closed):
        ctx.threads.append("t", "x", from_id="a")


def test_two_types_cannot_share_a_name() -> None:
    threads = strongroom.open("memory://").threads
    threads.register(Text)
    threads.register(Text)
    with pytest.raises(InvalidInput):
        threads.register(type("Text", (msgspec.Struct,), {}))
    with pytest.raises(InvalidInput):
        threads.register(dict)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=50)
@given(payload=JSON)
def test_any_json_comes_back_equal_from_its_bytes(payload: Any) -> None:
    with strongroom.open("memory://") as ctx:
        slot = ctx.threads.append("t", payload, from_id="a")
        assert slot.data == payload == slot.payload


async def _limited(ctx: Any, **limits: Any) -> Any:
    view = ctx.threads.limited(**limits)
    return view if hasattr(ctx, "scope") else await view


def _each(thread: Any) -> Any:
    async def each() -> Any:
        if hasattr(thread, "__aiter__"):
            async for slot in thread:
                yield slot
        else:
            for slot in thread:
                yield slot

    return each()


async def _item(thread: Any, index: int) -> Any:
    found = thread[index]
    return await found if hasattr(found, "__await__") else found


async def test_the_indexes_of_a_thread_begin_where_it_came_back(ctx: Any) -> None:
    thread = await ctx.threads.get("t")
    for _ in range(3):
        await ctx.threads.append("t", "x", from_id="a")
    await ctx.threads.delete("t")
    gone = await thread.indexes()
    await ctx.threads.append("t", "x", from_id="a")
    assert (len(gone), await thread.indexes()) == (0, range(3, 4))


@pytest.mark.parametrize("ask", [iter, list, lambda thread: None in thread], ids=["for", "list", "in"])
def test_what_would_ask_an_async_thread_one_index_after_the_other_for_ever_is_refused(
    ask: Callable[[Any], Any],
) -> None:
    async def main() -> None:
        async with strongroom.aopen("memory://") as ctx:
            await ctx.threads.append("t", {"x": 1}, from_id="a")
            ask(await ctx.threads.get("t"))

    with pytest.raises(TypeError, match="AsyncThread"):
        asyncio.run(main())
