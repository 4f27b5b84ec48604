"""A page is read in one way, whatever it is a page of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import strongroom
from strongroom import Context
from strongroom.dispatch import Dispatcher, Retry
from tests.services.memory_samples import mcr

Read = Callable[..., Any]
PAGES: dict[str, Callable[[Context], Read]] = {
    "runs": lambda ctx: ctx.runs.list,
    "events": lambda ctx: ctx.runs.get("r0").events,
    "episodes": lambda ctx: ctx.runs.get("r0").episodes,
    "sessions": lambda ctx: ctx.sessions.list,
    "messages": lambda ctx: ctx.sessions.get("s0").page,
    "memories": lambda ctx: ctx.memories.list,
    "batches": lambda ctx: ctx.memories.pending,
    "threads": lambda ctx: ctx.threads.list,
    "dead letters": lambda ctx: Dispatcher(ctx).dead_letters,
    "files": lambda ctx: ctx.files.list,
    "versions": lambda ctx: lambda **page: ctx.files.history("/f0.md", **page),
}


@pytest.fixture(scope="module")
def filled() -> Iterator[Context]:
    """A store with three of everything."""
    with strongroom.open("memory://") as ctx:
        dispatcher = Dispatcher(ctx)

        @dispatcher.handler("bad", retry=Retry(attempts=1))
        def bad(payload: Any, call: Any) -> None:
            raise RuntimeError

        for number in range(3):
            ctx.runs.create(objective="o", run_id=f"r{number}")
            ctx.runs.get("r0").milestone(str(number))
            ctx.sessions.open(f"s{number}")
            ctx.sessions.get("s0").append({"role": "user", "content": str(number)})
            one, _ = [ctx.memories.propose(mcr(f"{word} {number}"), proposer="agent-7") for word in ("tea", "milk")]
            ctx.memories.commit(one, reviewer="ana")
            dispatcher.send(f"t{number}", number, from_id="user", to_id="bad")
            ctx.files.write(f"/f{number}.md", "text")
            ctx.files.write("/f0.md", str(number))
        dispatcher.drain()
        yield ctx


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_calls_next_is_passed_back_as_it_is(filled: Context, name: str) -> None:
    read = PAGES[name](filled)
    pages = [read(limit=2)]
    while pages[-1].next is not None:
        assert (type(pages[-1].next), len(pages[-1])) == (str, 2)
        pages.append(read(after=pages[-1].next, limit=2))
    assert len(pages) >= 2
    assert [str(one) for page in pages for one in page] == [str(one) for one in read()]


@pytest.mark.parametrize("name", PAGES)
def test_the_first_page_may_be_asked_for_as_the_one_after_nothing(filled: Context, name: str) -> None:
    read = PAGES[name](filled)
    assert [str(one) for one in read(after=None)] == [str(one) for one in read()]


def test_a_page_that_is_not_all_shows_so() -> None:
    with strongroom.open("memory://") as ctx:
        for number in range(3):
            ctx.sessions.open(f"s{number}")
        assert repr(ctx.sessions.list(limit=2)).endswith(") and more: next='2'")
        assert "more" not in repr(ctx.sessions.list())
