"""Erasing messages of a session: nothing of them is left, and nothing brings them back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strongroom
from strongroom.bridge import can_search
from strongroom.embedders import Embedder
from strongroom.errors import InvalidInput, NotFound
from strongroom.services.sessions.state import covers, is_visible, joined, without
from strongroom.store import Key, Range

CANARY = "canary-7f3a"


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


async def filled(ctx: Any) -> Any:
    session = await ctx.sessions.open("s")
    await session.append([said("a", id="a"), said(CANARY, id="secret", pinned=True), said("c", id="c")])
    return session


def texts(messages: Any) -> list[str]:
    return [one["content"] for one in messages]


async def test_what_is_erased_cannot_be_read_or_found(ctx: Any) -> None:
    session = await filled(ctx)
    told = await session.erase(["secret"])
    assert (told.session_id, told.messages) == ("s", 1)
    assert texts(await session.load()) == ["a", "c"]
    assert (await session.info()).messages == 2
    assert texts((await session.window(1000)).messages) == ["a", "c"]
    with pytest.raises(NotFound):
        await session.get("secret")
    if can_search(ctx.store):
        assert await session.search(CANARY) == []


async def test_no_restore_brings_it_back(ctx: Any) -> None:
    session = await filled(ctx)
    await session.truncate_from("a")
    await session.erase(["secret"])
    await session.restore()
    assert texts(await session.load()) == ["a", "c"]


async def test_everything_before_a_message_can_be_erased_hidden_or_not(ctx: Any) -> None:
    session = await filled(ctx)
    await session.replace([said("d", id="d"), said("e", id="e")])
    assert (await session.erase(before="e")).messages == 4
    assert texts(await session.load()) == ["e"]
    await session.restore()
    assert texts(await session.load()) == ["e"]
    await session.append(said("f"))
    assert texts(await session.load()) == ["e", "f"]


async def test_its_id_is_free_again(ctx: Any) -> None:
    session = await filled(ctx)
    await session.erase(["secret"])
    await session.append(said("new", id="secret"))
    assert (await session.get("secret"))["content"] == "new"


async def test_erasing_again_changes_nothing(ctx: Any) -> None:
    session = await filled(ctx)
    first = await session.erase(["secret"], commit_id="e")
    again = await session.erase(["secret"], commit_id="e")
    assert (again.session_id, again.messages) == (first.session_id, first.messages)
    assert texts(await session.load()) == ["a", "c"]


async def test_somebody_must_say_what_to_erase(ctx: Any) -> None:
    session = await filled(ctx)
    with pytest.raises(InvalidInput, match="say which messages"):
        await session.erase()
    with pytest.raises(NotFound, match="nothing changed"):
        await session.erase(["nobody"])
    assert len(await session.load()) == 3


async def test_more_messages_than_one_commit_removes_are_refused_before_any_is_looked_for(ctx: Any) -> None:
    session = await filled(ctx)
    with pytest.raises(InvalidInput, match=r"at most 2,000 at once, not 2,001.*before.*nothing changed"):
        await session.erase(["a", *(f"nobody {number}" for number in range(2000))])
    assert len(await session.load()) == 3


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=6),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=6),
)
def test_what_is_taken_out_of_stretches_is_not_in_them_and_all_else_is(
    some: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    ranges = (*joined((start, start + size) for start, size in some), (40, None))
    gone = [(start, start + size) for start, size in others]
    left = without(ranges, gone)
    for index in range(60):
        assert is_visible(left, index) == (is_visible(ranges, index) and not covers(gone, index))
    assert all(one[1] is not None and one[1] < other[0] for one, other in pairwise(left))


@pytest.mark.parametrize("name", ["memory://", "agent.db"])
def test_what_was_made_of_it_goes_too(name: str, tmp_path: Path) -> None:
    embedder = Embedder(lambda texts: [[1.0, float(len(text))] for text in texts], name="toy")
    with strongroom.open(name if "://" in name else tmp_path / name) as ctx:
        session = ctx.sessions.using(embedder=embedder).open("s")
        session.append([{"role": "user", "content": f"turn {n} {CANARY}"} for n in range(40)])
        session.window(200, strategy="summarize_oldest", summarizer=lambda messages: f"they said {CANARY}")
        session.wait()
        store: Any = ctx.store
        made = [Range(Key("default", kind, "s")) for kind in ("session_summary", "session_vector")]
        assert all(part.records for part in store.read(made))
        session.erase([session.load()[0].id])
        assert not any(part.records for part in store.read(made))
        session.wait()
        assert len(session.search("turn", k=50, mode="vector")) == 39


@pytest.mark.parametrize("close_first", [False, True])
def test_not_a_byte_of_it_is_left_in_a_file(tmp_path: Path, close_first: bool) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path) as ctx:
        session = ctx.sessions.open("s")
        session.append({"role": "user", "content": CANARY, "id": "secret"}, sidecars=[{"deep": CANARY}])
        session.append({"role": "user", "content": "harmless"})
        session.search(CANARY)
        if close_first:
            ctx.close()
    with strongroom.open(path) as ctx:
        session = ctx.sessions.get("s")
        assert CANARY.encode() in b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
        told = session.erase(["secret"])
        assert told.complete, told.pending
        for file in tmp_path.iterdir():
            if file.is_file():
                assert CANARY.encode() not in file.read_bytes(), file


async def twice_used(ctx: Any) -> Any:
    """Return a session in which a visible and a hidden message have one id."""
    session = await ctx.sessions.open("s")
    await session.append([said(CANARY, id="x"), said("b")])
    await session.truncate_from("x")
    await session.append([said("again", id="x"), said("last", id="last")])
    return session


async def test_a_hidden_message_is_erased_by_an_id_whose_later_message_was(ctx: Any) -> None:
    session = await twice_used(ctx)
    assert (await session.erase(["x"])).messages == 1
    assert (await session.erase(["x"])).messages == 1
    with pytest.raises(NotFound):
        await session.erase(["x"])
    await session.restore()
    assert texts(await session.load()) == ["b", "last"]


async def test_everything_before_a_message_is_erased_with_ids_that_name_nothing_more(ctx: Any) -> None:
    session = await twice_used(ctx)
    await session.erase(["x"])
    assert (await session.erase(before="last")).messages == 3
    await session.restore()
    assert texts(await session.load()) == ["last"]
