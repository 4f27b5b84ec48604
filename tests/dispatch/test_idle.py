"""What an idle worker costs: it asks for what is due, and never looks at the threads themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.context import AsyncContext
from strongroom.dispatch import AsyncDispatcher, Dispatcher
from strongroom.scope import Scope
from strongroom.store import Answer, AnyQuestion, Commit, Range, Receipt

LOOKS = 20


class Counted(OnLoop):
    """A store that writes down what is asked, and stops a dispatcher after some looks."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.asked: list[AnyQuestion] = []
        self.answered = 0
        self.looks = 0
        self.dispatcher: AsyncDispatcher | None = None

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        answers = await super().read(questions)
        if self.dispatcher is not None:
            self.asked += questions
            self.answered += sum(len(getattr(answer, "documents", ())) for answer in answers)
            self.looks += 1
            if self.looks == LOOKS:
                self.dispatcher.stop()
        return answers


async def idle(threads: int) -> tuple[list[Any], int]:
    """Return what a worker asks while it finds nothing to do among so many live threads, and how much it is told."""
    store = Counted()
    async with AsyncContext(Scope(store)) as ctx:
        dispatcher = AsyncDispatcher(ctx, poll_seconds=0.0001)
        dispatcher.handler("echo")(lambda payload, call: payload)
        for number in range(threads):
            await ctx.threads.append(f"t{number}", "handled", from_id="user", to_id="echo")
            await ctx.threads.append(f"t{number}", "for others", from_id="user", to_id="somebody")
        await dispatcher.drain()
        store.dispatcher = dispatcher
        await dispatcher.run()
    return store.asked, store.answered


async def test_an_idle_worker_asks_the_same_however_many_threads_live() -> None:
    assert await idle(10) == await idle(1000)


async def test_an_idle_worker_asks_one_question_for_each_of_its_names() -> None:
    asked, told = await idle(10)
    assert (len(asked), told) == (LOOKS, 0)


async def test_a_restarted_worker_finds_what_is_due_without_looking_at_the_rest() -> None:
    store = Counted()
    async with AsyncContext(Scope(store)) as ctx:
        for number in range(200):
            await ctx.threads.append(f"t{number}", "for others", from_id="user", to_id="somebody")
        await ctx.threads.append("t7", "due", from_id="user", to_id="echo")
        dispatcher = AsyncDispatcher(ctx, poll_seconds=0.0001)
        dispatcher.handler("echo")(lambda payload, call: payload)
        store.dispatcher, store.looks = dispatcher, LOOKS  # count, but do not stop
        await dispatcher.drain()
        assert [slot.payload for slot in await (await ctx.threads.get("t7")).sent_by("echo")] == ["due"]
        assert {question.key.id for question in store.asked if isinstance(question, Range)} == {"t7"}


def test_an_append_in_memory_takes_the_short_way_only_while_the_flag_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with strongroom.open("memory://") as ctx:
        commits: list[Commit] = []
        commit = ctx.store.commit

        def noted(asked: Commit) -> Receipt:
            commits.append(asked)
            return commit(asked)

        monkeypatch.setattr(ctx.store, "commit", noted)
        seen: list[int] = []
        dispatcher = Dispatcher(ctx)
        dispatcher.handler("echo")(lambda payload, call: seen.append(payload))
        for number in range(3):
            ctx.threads.append("t", number, from_id="user", to_id="echo")
        # Both for the first, which had to learn that there was no such thread.
        assert len([asked for asked in commits if asked.writes]) == 2
        dispatcher.drain()
        ctx.threads.append("t", 3, from_id="user", to_id="echo")
        dispatcher.drain()
        assert seen == [0, 1, 2, 3]
