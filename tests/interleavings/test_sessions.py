"""Every order in which two writers of a session can meet."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from strongroom.errors import Conflict, NotFound
from strongroom.scope import Scope
from strongroom.services.sessions.begun import append_to
from strongroom.services.sessions.recounts import recount
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.sessions import AsyncSessions
from strongroom.services.sessions.view import look
from strongroom.store import AsyncStore, Key, Range
from strongroom.testing import explore
from strongroom.tokens import count_message

Program = Callable[[AsyncStore], Coroutine[Any, Any, Any]]


async def session(store: AsyncStore) -> AsyncSession:
    return await AsyncSessions(Scope(store)).open("s")


async def contents(store: AsyncStore) -> list[Any]:
    return [message["content"] for message in await (await session(store)).load()]


def said(*texts: str) -> list[Any]:
    return [{"role": "user", "content": text, "id": text} for text in texts]


async def begun(store: AsyncStore) -> None:
    await (await session(store)).append([{"role": "user", "content": text, "id": text} for text in "abc"])


def appending(text: str, **more: Any) -> Program:
    async def program(store: AsyncStore) -> Any:
        message: Any = {"role": "user", "content": text, **more}
        return await (await session(store)).append(message)

    return program


def truncating(message_id: str) -> Program:
    async def program(store: AsyncStore) -> Any:
        return await (await session(store)).truncate_from(message_id)

    return program


async def replacing(store: AsyncStore) -> Any:
    return await (await session(store)).replace([{"role": "user", "content": "new"}])


async def test_first_openers_and_appenders_all_land() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert sorted(await contents(store)) == ["x", "y"]

    assert explore([appending("x"), appending("y")], check).failure is None


async def test_an_append_that_races_a_truncation_lands_after_it_or_falls_to_it() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        # Cut away only if the truncation saw it; never in front of what was cut, never lost without a cut.
        hidden = results[1].messages
        assert await contents(store) == (["a", "x"] if hidden == 2 else ["a"])
        assert hidden in (2, 3)

    assert explore([appending("x"), truncating("b")], check, setup=begun).failure is None


async def test_two_truncations_do_not_mix() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert await contents(store) == ["a"]
        opened = await session(store)
        restored = 0
        try:
            while True:
                restored += (await opened.restore()).messages
        except NotFound:
            pass
        assert restored == 2
        assert await contents(store) == ["a", "b", "c"]

    assert explore([truncating("b"), truncating("c")], check, setup=begun).failure is None


async def test_replacing_leaves_nothing_before_the_new_messages() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert await contents(store) in (["new", "x"], ["new"])

    assert explore([appending("x"), replacing], check, setup=begun).failure is None


async def test_one_of_two_equal_ids_is_refused() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert sorted(isinstance(result, Conflict) for result in results) == [False, True]
        assert [message.id for message in await (await session(store)).load()] == ["same"]

    assert explore([appending("x", id="same"), appending("y", id="same")], check).failure is None


async def test_system_messages_are_found_wherever_they_landed() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        opened = await session(store)
        await opened.append([{"role": "user", "content": "filler " * 20}] * 3)
        window = await opened.window(max_tokens=40)
        found = {message["content"] for message in window.messages}
        assert {"one", "two"} <= found

    async def system(store: AsyncStore, text: str) -> Any:
        return await (await session(store)).append([{"role": "system", "content": text}])

    programs: list[Program] = [lambda store: system(store, "one"), lambda store: system(store, "two")]
    assert explore(programs, check, setup=begun).failure is None


async def test_nothing_is_written_to_a_session_that_is_gone() -> None:
    async def deleting(store: AsyncStore) -> Any:
        return await (await session(store)).delete()

    async def adding(store: AsyncStore) -> Any:
        return await (await AsyncSessions(Scope(store)).get("s")).append(said("x"))

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert results[0] is None
        assert await contents(store) == []

    assert explore([deleting, adding], check, setup=begun).failure is None


async def test_a_pin_and_a_cut_both_hold() -> None:
    async def pinning(store: AsyncStore) -> Any:
        return await (await session(store)).pin("a")

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        opened = await session(store)
        assert await contents(store) == ["a"]
        assert (await opened.info()).pinned == (0,)

    assert explore([pinning, truncating("b")], check, setup=begun).failure is None


class Fixed:
    """A tokenizer to which all texts are alike, and which knows how often it was asked."""

    approximate = False

    def __init__(self, name: str, tokens: int) -> None:
        self.name = name
        self.tokens = tokens
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return self.tokens


ONES, TWOS = Fixed("ones", 1), Fixed("twos", 2)


async def counted_by_ones(store: AsyncStore) -> None:
    await begun(store)
    await AsyncSessions(Scope(store)).open("s", tokenizer=ONES)


async def counting(store: AsyncStore) -> Any:
    """Count anew, as an ordinary call would, whatever the tokenizer is now."""
    view, _ = await look(Scope(store), "s", lambda name: {"ones": ONES, "twos": TWOS}[name])
    return await recount(view, 1)


async def counts(store: AsyncStore, force: Fixed) -> None:
    opened = await AsyncSessions(Scope(store)).open("s", tokenizer=force)
    await opened.wait()
    assert (await opened.backlog()).uncounted == 0
    before = force.asked
    stored = await opened.load()
    assert force.asked == before
    assert [one.tokens for one in stored] == [count_message(one, force) for one in stored]


async def test_counting_anew_never_mixes_the_counts_of_two_tokenizers() -> None:
    async def changing(store: AsyncStore) -> Any:
        return await AsyncSessions(Scope(store)).open("s", tokenizer=TWOS)

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await counts(store, TWOS)

    assert explore([counting, changing], check, setup=counted_by_ones).failure is None


async def test_two_who_count_the_same_messages_anew_store_that_once() -> None:
    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert any(result == 0 for result in results)
        await counts(store, ONES)

    assert explore([counting, counting], check, setup=counted_by_ones).failure is None


async def test_counting_anew_and_an_append_do_not_disturb_each_other() -> None:
    async def adding(store: AsyncStore) -> Any:
        opened = await AsyncSessions(Scope(store, tokenizer=ONES)).get("s")
        return await opened.append([{"role": "user", "content": "x"}])

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        await counts(store, ONES)
        assert [message["content"] for message in results[1]] == ["x"]

    assert explore([counting, adding], check, setup=counted_by_ones).failure is None


async def test_what_is_sent_twice_under_one_key_is_stored_once_even_if_the_session_goes_meanwhile() -> None:
    async def sending(store: AsyncStore) -> Any:
        with suppress(NotFound):
            await append_to(AsyncSessions(Scope(store)), "s", [{"role": "user", "content": "x"}], commit_id="k")

    async def sending_and_deleting(store: AsyncStore) -> Any:
        await sending(store)
        with suppress(NotFound):
            await AsyncSessions(Scope(store)).delete("s")

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert (await Scope(store).get(Range(Key("default", "message", "s"), 0, 0))).length <= 1

    assert explore([sending, sending_and_deleting], check, setup=session, reads_in_order=True).failure is None


async def test_what_two_handles_send_under_one_key_is_stored_once_if_the_session_is_opened_anew_between() -> None:
    message: Any = {"role": "user", "content": "x"}

    async def sending(store: AsyncStore) -> Any:
        with suppress(NotFound):
            await (await AsyncSessions(Scope(store)).get("s")).append(message, commit_id="k")

    async def beginning_anew(store: AsyncStore) -> Any:
        await AsyncSessions(Scope(store)).delete("s")
        await (await session(store)).append(message, commit_id="k")

    async def check(store: AsyncStore, results: Sequence[Any]) -> None:
        assert await contents(store) == ["x"]

    assert explore([sending, beginning_anew], check, setup=session).failure is None
