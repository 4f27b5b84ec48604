"""Dispatch: who gets what, in which order, and what happens when a function fails."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from strongroom.dispatch import DeliveryFailed, Dispatcher, Retry, respond, send
from strongroom.errors import InvalidInput, NotFound
from tests.dispatch import program
from tests.dispatch.conftest import Desk

ONCE = Retry(attempts=1)
QUICK = Retry(attempts=3, first_seconds=0.001)


class Text(msgspec.Struct, frozen=True):
    message: str


async def told(ctx: Any, thread_id: str, who: str) -> list[Any]:
    """Return the payloads a thread holds for somebody."""
    return [slot.payload for slot in await (await ctx.threads.get(thread_id)).slice() if slot.to_id == who]


async def test_an_answer_goes_to_the_caller(ctx: Any, desk: Desk) -> None:
    @desk.handler("echo", accepts=Text)
    def echo(payload: Text, call: Any) -> Text:
        return Text(payload.message.upper())

    await desk.send("t", Text("hi"), from_id="user", to_id="echo")
    await desk.drain()
    assert await told(ctx, "t", "user") == [Text("HI")]


async def test_async_functions_work_too(ctx: Any, desk: Desk) -> None:
    @desk.handler("echo")
    async def echo(payload: Any, call: Any) -> Any:
        await asyncio.sleep(0)
        return respond([payload, call.own_name, call.from_id, list(call.chain)])

    await desk.send("t", "hi", from_id="user", to_id="echo")
    await desk.drain()
    assert await told(ctx, "t", "user") == [["hi", "echo", "user", ["user", "echo"]]]


async def test_a_plain_function_that_raises_stop_iteration_is_not_waited_for(ctx: Any, desk: Desk) -> None:
    desk.handler("first", retry=ONCE)(program.first)
    await desk.send("t", [], from_id="user", to_id="first")
    await desk.drain()
    [letter] = await desk.dead_letters()
    assert letter.error == "StopIteration: "


async def test_a_plain_append_is_handled_as_well(ctx: Any, desk: Desk) -> None:
    @desk.handler("echo")
    def echo(payload: Any, call: Any) -> Any:
        return payload

    await ctx.threads.append("t", "hi", from_id="user", to_id="echo")
    await desk.drain()
    assert await told(ctx, "t", "user") == ["hi"]


async def test_a_function_may_answer_nothing_or_several_times(ctx: Any, desk: Desk) -> None:
    @desk.handler("some")
    def some(payload: int, call: Any) -> Any:
        return list(range(payload)) or None

    for count in (0, 3):
        await desk.send("t", count, from_id="user", to_id="some")
    await desk.drain()
    assert await told(ctx, "t", "user") == [0, 1, 2]


async def test_every_message_is_recorded_once(ctx: Any, desk: Desk) -> None:
    @desk.handler("front")
    def front(payload: Any, call: Any) -> Any:
        return send("back", payload) if call.from_id == "user" else respond(payload)

    @desk.handler("back")
    def back(payload: Any, call: Any) -> Any:
        return [payload, payload + 1]

    await desk.send("t", 1, from_id="user", to_id="front")
    await desk.drain()
    slots = await (await ctx.threads.get("t")).slice()
    assert [(slot.from_id, slot.to_id, slot.payload) for slot in slots] == [
        ("user", "front", 1),
        ("back", "front", 1),
        ("back", "front", 2),
        ("front", "user", 1),
        ("front", "user", 2),
    ]


async def test_three_users_on_one_route_see_only_themselves_and_get_their_own_answer(ctx: Any, desk: Desk) -> None:
    seen: dict[str, list[str]] = {}

    @desk.handler("front")
    def front(payload: str, call: Any) -> Any:
        if call.from_id == "calculator.add":
            return respond(payload)
        return send("calculator.add", payload)

    @desk.handler("calculator.add")
    def back(payload: str, call: Any) -> Any:
        seen[payload] = [slot.payload for slot in call.thread]
        return f"re: {payload}"

    users = ["ana", "bob", "eve"]
    started = [await desk.send(None, f"secret of {user}", from_id=user, to_id="front") for user in users]
    await desk.drain()
    for user, slot in zip(users, started, strict=True):
        home = await ctx.registry.prune(slot.thread_id)
        assert home.name == user
        assert await told(ctx, home.thread_id, user) == [f"re: secret of {user}"]
    assert seen == {f"secret of {user}": [f"secret of {user}"] for user in users}


async def test_order_holds_within_a_thread(ctx: Any, desk: Desk) -> None:
    @desk.handler("count")
    def count(payload: int, call: Any) -> int:
        return payload

    for n in range(20):
        await desk.send("t", n, from_id="user", to_id="count")
    await desk.drain()
    assert await told(ctx, "t", "user") == list(range(20))


async def test_threads_are_handled_side_by_side(ctx: Any, desk: Desk) -> None:
    together = threading.Barrier(4, timeout=300)

    @desk.handler("meet")
    def meet(payload: Any, call: Any) -> Any:
        together.wait()
        return payload

    for n in range(4):
        await desk.send(f"t{n}", n, from_id="user", to_id="meet")
    await desk.drain()
    assert [await told(ctx, f"t{n}", "user") for n in range(4)] == [[0], [1], [2], [3]]


async def test_a_limit_on_a_function_holds(ctx: Any, desk: Desk) -> None:
    running, most = [0], [0]

    @desk.handler("one", max_concurrent=1)
    async def one(payload: Any, call: Any) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        for _ in range(10):
            await asyncio.sleep(0)
        running[0] -= 1

    for n in range(5):
        await desk.send(f"t{n}", n, from_id="user", to_id="one")
    await desk.drain()
    assert (most, running) == ([1], [0])


async def test_a_failing_function_is_tried_again_and_its_message_is_answered_once(ctx: Any, desk: Desk) -> None:
    @desk.handler("flaky", retry=QUICK)
    def flaky(payload: Any, call: Any) -> Any:
        if call.attempt < 3:
            raise ValueError("not yet")
        return [payload, call.attempt]

    await desk.send("t", "x", from_id="user", to_id="flaky")
    await desk.drain()
    assert await told(ctx, "t", "user") == ["x", 3]
    assert (await desk.dead_letters()) == ()


async def test_a_message_that_keeps_failing_becomes_a_dead_letter_and_the_caller_is_told(ctx: Any, desk: Desk) -> None:
    @desk.handler("bad", retry=QUICK)
    def bad(payload: Any, call: Any) -> Any:
        raise ValueError("no luck")

    slot = await desk.send("t", "x", from_id="user", to_id="bad")
    await desk.drain()
    [letter] = await desk.dead_letters(handler="bad")
    assert (letter.thread_id, letter.index, letter.handler) == ("t", slot.index, "bad")
    assert (letter.error, letter.attempts) == ("ValueError: no luck", 3)
    assert await told(ctx, "t", "user") == [DeliveryFailed("bad", 0, "ValueError: no luck", 3)]


async def test_a_failure_does_not_keep_the_rest_of_the_thread_waiting(ctx: Any, desk: Desk) -> None:
    @desk.handler("picky", retry=ONCE)
    def picky(payload: int, call: Any) -> int:
        return 100 // payload

    for n in (1, 0, 2):
        await desk.send("t", n, from_id="user", to_id="picky")
    await desk.drain()
    answers = await told(ctx, "t", "user")
    assert [answer if isinstance(answer, int) else answer.index for answer in answers] == [100, 1, 50]


async def test_news_of_a_failure_passes_through_those_who_do_not_ask_for_it(ctx: Any, desk: Desk) -> None:
    @desk.handler("front", accepts=str)
    def front(payload: str, call: Any) -> Any:
        return send("back", payload)

    @desk.handler("back", retry=ONCE)
    def back(payload: str, call: Any) -> Any:
        raise ValueError("broken")

    await desk.send("t", "x", from_id="user", to_id="front")
    await desk.drain()
    assert [failure.handler for failure in await told(ctx, "t", "user")] == ["back"]


async def test_a_function_that_asks_for_failures_gets_them(ctx: Any, desk: Desk) -> None:
    @desk.handler("front", accepts=(str, DeliveryFailed))
    def front(payload: Any, call: Any) -> Any:
        return respond("sorry") if isinstance(payload, DeliveryFailed) else send("back", payload)

    @desk.handler("back", retry=ONCE)
    def back(payload: str, call: Any) -> Any:
        raise ValueError("broken")

    await desk.send("t", "x", from_id="user", to_id="front")
    await desk.drain()
    assert await told(ctx, "t", "user") == ["sorry"]


async def test_a_payload_of_a_type_that_is_not_accepted_is_a_dead_letter_at_once(ctx: Any, desk: Desk) -> None:
    @desk.handler("typed", accepts=Text)
    def typed(payload: Text, call: Any) -> None:
        raise AssertionError("must not run")

    await desk.send("t", {"message": "x"}, from_id="user", to_id="typed")
    await desk.drain()
    [letter] = await desk.dead_letters()
    assert (letter.error, letter.attempts) == ("typed accepts Text, not dict", 1)


async def test_an_answer_that_cannot_be_stored_is_a_dead_letter(ctx: Any, desk: Desk) -> None:
    @desk.handler("odd")
    def odd(payload: Any, call: Any) -> Any:
        return object()

    await desk.send("t", "x", from_id="user", to_id="odd")
    await desk.drain()
    [letter] = await desk.dead_letters()
    assert "object" in letter.error


async def test_a_dead_letter_can_be_replayed_once(ctx: Any, desk: Desk) -> None:
    healthy: list[bool] = []

    @desk.handler("later", accepts=Text, retry=ONCE)
    def later(payload: Text, call: Any) -> Any:
        if not healthy:
            raise ValueError("not yet")
        return payload

    await desk.send("t", Text("x"), from_id="user", to_id="later")
    await desk.drain()
    [letter] = await desk.dead_letters()
    healthy.append(True)
    await desk.replay(letter.id)
    with pytest.raises(NotFound):
        await desk.replay(letter.id)
    await desk.drain()
    assert (await told(ctx, "t", "user"))[-1] == Text("x")
    assert (await desk.dead_letters()) == ()


@pytest.mark.parametrize("ending", ["nothing", "erase", "delete"])
async def test_a_replay_that_is_repeated_gives_the_first_answer_whatever_became_of_the_thread(
    ctx: Any, desk: Desk, ending: str
) -> None:
    @desk.handler("broken", retry=ONCE)
    def broken(payload: Any, call: Any) -> None:
        raise ValueError("no luck")

    await desk.send("t", "secret", from_id="user", to_id="broken")
    await desk.drain()
    [letter] = await desk.dead_letters()
    first = await desk.replay(letter.id, commit_id="again")
    if ending == "erase":
        await ctx.threads.erase("t", start=0)
    if ending == "delete":
        await ctx.threads.delete("t")
    again = await desk.replay(letter.id, commit_id="again")
    assert [(slot.thread_id, slot.index, slot.type, slot.at) for slot in (first, again)] == [
        ("t", first.index, "str", first.at)
    ] * 2


async def test_a_replay_that_is_repeated_says_that_its_message_is_gone(ctx: Any, desk: Desk) -> None:
    @desk.handler("broken", retry=ONCE)
    def broken(payload: Any, call: Any) -> None:
        raise ValueError("no luck")

    await desk.send("t", "secret", from_id="user", to_id="broken")
    await desk.drain()
    [letter] = await desk.dead_letters()
    await desk.replay(letter.id, commit_id="again")
    await ctx.threads.delete("t")
    again = await desk.replay(letter.id, commit_id="again")
    with pytest.raises(NotFound):
        _ = again.payload


async def test_an_answer_over_the_slot_limit_is_a_dead_letter_and_nothing_of_it_is_delivered(
    ctx: Any, make_desk: Any
) -> None:
    target = getattr(ctx, "_target", None)
    context = ctx if target is None else target._async
    context.threads = context.threads.limited(max_slots_per_thread=2)
    desk: Desk = make_desk(ctx)

    @desk.handler("many")
    def many(payload: Any, call: Any) -> Any:
        return [1, 2]

    await desk.send("t", "x", from_id="user", to_id="many")
    await desk.drain()
    [letter] = await desk.dead_letters()
    assert "refused" in letter.error
    assert [type(answer) for answer in await told(ctx, "t", "user")] == [DeliveryFailed]


async def test_what_is_for_others_is_left_for_them(ctx: Any, make_desk: Any) -> None:
    one, two = make_desk(ctx), make_desk(ctx)
    one.handler("one")(lambda payload, call: send("two", payload))
    two.handler("two")(lambda payload, call: payload + 1)
    await one.send("t", 1, from_id="user", to_id="one")
    await one.drain()
    await two.drain()
    slots = await (await ctx.threads.get("t")).slice()
    assert [(slot.from_id, slot.to_id, slot.payload) for slot in slots] == [("user", "one", 1), ("two", "one", 2)]


async def test_a_space_handles_only_its_own(make_desk: Any, spaces: Any) -> None:
    desks = [make_desk(ctx) for ctx in spaces]
    for name, desk in zip(("acme", "other"), desks, strict=True):
        desk.handler("who")(lambda payload, call, name=name: name)
    await desks[0].send("t", "x", from_id="user", to_id="who")
    await desks[1].drain()
    assert await told(spaces[0], "t", "user") == []
    await desks[0].drain()
    assert await told(spaces[0], "t", "user") == ["acme"]


@pytest.fixture
def spaces(make_ctx: Any) -> Any:
    return make_ctx(space="acme"), make_ctx(space="other")


def test_two_functions_cannot_have_one_name(make_desk: Any) -> None:
    from strongroom.dispatch import Dispatcher

    dispatcher = Dispatcher()
    dispatcher.handler("x")(lambda payload, call: None)
    with pytest.raises(InvalidInput):
        dispatcher.handler("x")(lambda payload, call: None)
    with pytest.raises(InvalidInput):
        dispatcher.handler("y", cpu_bound=True)(lambda payload, call: None)


def test_a_dispatcher_without_functions_or_context_says_so() -> None:
    with pytest.raises(InvalidInput):
        Dispatcher().drain()
    with pytest.raises(InvalidInput):
        Dispatcher().send("t", 1, from_id="a", to_id="b")
