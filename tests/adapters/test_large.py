"""Values beyond what a record holds: in pieces, whole or not at all, gone with their owners, on every store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_framework import WorkflowCheckpoint
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

import strongroom
from strongroom import Damaged, InvalidInput, NotFound, Unavailable
from strongroom.adapters import large
from strongroom.adapters.agent_framework import StrongroomCheckpointStorage
from strongroom.adapters.langgraph import StrongroomSaver
from strongroom.bridge import Inline, run
from strongroom.codec import encode
from strongroom.copying import copy
from strongroom.scope import Scope
from strongroom.store import Append, Commit, Delete, Entry, Receipt, Scan, new_id
from tests.adapters.langgraph.savers import config
from tests.server.serving import served


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short texts be large ones."""
    monkeypatch.setattr(large, "INLINE", 100)
    monkeypatch.setattr(large, "PIECE_LENGTH", 40)


def scope_of(ctx: strongroom.Context, **more: Any) -> Scope:
    return Scope(Inline(ctx.store), ctx.space, **more)


def texts(ctx: strongroom.Context, **tags: str) -> int:
    """Count the large texts that there are."""
    return len(run(scope_of(ctx).get(Scan(ctx.space, large.KIND, tags))).documents)


def put(saver: StrongroomSaver, thread: str, parent: Any = None, **values: Any) -> Any:
    checkpoint: Any = empty_checkpoint()
    checkpoint["id"] = str(uuid6())
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = dict.fromkeys(values, f"{checkpoint['id']}")
    return saver.put(parent or config(thread, checkpoint_ns=""), checkpoint, {}, checkpoint["channel_versions"])


def values(saver: StrongroomSaver, where: Any) -> Any:
    found = saver.get_tuple(where)
    assert found is not None
    return found.checkpoint["channel_values"]


# ---- the piece itself ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_the_largest_texts_of_a_record_stand_apart_and_come_back(every_context: strongroom.Context) -> None:
    scope, given = scope_of(every_context), ("a" * 30, 'ä"\\\n' * 50, "b" * 60)
    told = run(large.Staging(scope, "me").named(*given))
    assert [type(text) for text in told.texts] == [str, dict, str]
    every_context.store.commit(Commit(new_id(), told.expects, told.writes))
    assert [run(large.whole(scope, text)) for text in told.texts] == list(given)
    assert run(large.owned(scope, "me")) == sorted(large.ids_in(told.texts)) and run(large.owned(scope, "you")) == []


@pytest.mark.usefixtures("small")
def test_what_was_staged_and_never_named_is_swept_a_day_later(every_address: str) -> None:
    with strongroom.open(every_address) as ctx:
        now = [10**15]
        scope = scope_of(ctx, clock=lambda: now[0])
        dead = run(large.Staging(scope, "dead").named("x" * 200))
        now[0] += large.DAY - 1
        alive = run(large.Staging(scope, "alive").named("y" * 200))
        assert texts(ctx, **large.STAGED) == 2  # not yet
        ctx.store.commit(Commit(new_id(), alive.expects, alive.writes))
        now[0] += 2 * large.DAY
        run(large.Staging(scope, "third").named("z" * 200))
        assert texts(ctx) == 2 and run(large.whole(scope, alive.texts[0])) == "y" * 200
        with pytest.raises(NotFound):
            run(large.whole(scope, dead.texts[0]))
        with pytest.raises(strongroom.Conflict):  # whoever comes to name it now learns that it is gone
            ctx.store.commit(Commit(new_id(), dead.expects, dead.writes))


@pytest.mark.usefixtures("small")
def test_a_piece_that_is_not_what_was_stored_is_noticed(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        scope = scope_of(ctx)
        told = run(large.Staging(scope, "me").named("x" * 200))
        [id] = large.ids_in(told.texts)
        pieces = scope.key(large.PIECE, id)
        others = tuple(Entry("piece", encode("y" * 40)) for _ in range(5))
        ctx.store.commit(Commit(new_id(), (), (Delete(pieces), Append(pieces, others))))
        with pytest.raises(Damaged, match="checksum"):
            run(large.whole(scope, told.texts[0]))


@pytest.mark.usefixtures("small")
def test_what_was_staged_in_part_is_never_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with strongroom.open("memory://") as ctx:
        scope, store, commits = scope_of(ctx), ctx.store, list[Commit]()
        staging, text, commit = large.Staging(scope, "me"), "x" * 200, store.commit

        def until_the_third(one: Commit) -> Receipt:
            commits.append(one)
            if len(commits) == 3:
                raise Unavailable("not now; nothing changed")
            return commit(one)

        monkeypatch.setattr(store, "commit", until_the_third)
        with pytest.raises(Unavailable):
            run(staging.named(text))
        told = run(staging.named(text))
        store.commit(Commit(new_id(), told.expects, told.writes))
        assert run(large.whole(scope, told.texts[0])) == text
        run(staging.__aexit__(None, None, None))
        assert texts(ctx) == 1  # and the other was dropped


def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "INLINE", 10)
    monkeypatch.setattr(large, "MOST", 20)
    with strongroom.open(tmp_path / "agent.db") as ctx, StrongroomSaver(ctx) as saver:
        with pytest.raises(InvalidInput, match="over the limit of 20; nothing changed"):
            put(saver, "t", blob=b"x" * 100)
        assert saver.get_tuple(config("t")) is None and texts(ctx) == 0


# ---- LangGraph -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_a_large_value_of_a_graph_is_stored_once_and_goes_with_its_thread(every_context: strongroom.Context) -> None:
    saver = StrongroomSaver(every_context)
    first = put(saver, "t", blob=b"x" * 500, text="short")
    saver.put_writes(first, [("out", b"y" * 300), ("out", 1)], "task")
    checkpoint: Any = empty_checkpoint()
    checkpoint |= {"id": str(uuid6()), "channel_versions": {"blob": first["configurable"]["checkpoint_id"]}}
    second = saver.put(first, checkpoint, {}, {})  # names what the first one stored
    assert values(saver, first) == {"blob": b"x" * 500, "text": "short"}
    assert values(saver, second) == {"blob": b"x" * 500} and texts(every_context) == 2
    found = saver.get_tuple(first)
    assert found is not None and found.pending_writes == [("task", "out", b"y" * 300), ("task", "out", 1)]
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert texts(every_context) == 2 and values(saver, config("copy")) == {"blob": b"x" * 500}
    saver.delete_thread("copy")
    assert texts(every_context) == 0


@pytest.mark.usefixtures("small")
def test_pruning_drops_the_large_values_that_nothing_kept_names(every_address: str) -> None:
    with strongroom.open(every_address) as ctx:
        saver = StrongroomSaver(ctx)
        first = put(saver, "t", blob=b"x" * 500)
        saver.put_writes(first, [("out", b"y" * 300)], "task")
        second = put(saver, "t", first, blob=b"z" * 500)
        saver.put_writes(second, [("out", b"w" * 300)], "task")
        assert texts(ctx) == 4
        saver.prune(["t"])
        found = saver.get_tuple(config("t"))
        assert texts(ctx) == 2 and found is not None and values(saver, config("t")) == {"blob": b"z" * 500}
        assert found.pending_writes == [("task", "out", b"w" * 300)]


@pytest.mark.usefixtures("small")
def test_pruning_keeps_the_large_values_written_to_a_checkpoint_that_is_still_to_come(every_address: str) -> None:
    with strongroom.open(every_address) as ctx:
        saver, to_come = StrongroomSaver(ctx), empty_checkpoint()
        first = put(saver, "t", blob=1)
        to_come["id"] = str(uuid6())
        saver.put_writes(config("t", checkpoint_ns="", checkpoint_id=to_come["id"]), [("out", b"w" * 300)], "task")
        saver.prune(["t"])
        saver.put(first, to_come, {}, {})
        found = saver.get_tuple(config("t"))
        assert found is not None and found.pending_writes == [("task", "out", b"w" * 300)]


@pytest.mark.parametrize("http", [False, True])
def test_thirty_megabytes_are_a_value_like_another(tmp_path: Path, http: bool) -> None:
    blob = os.urandom(30_000_000)
    for saver in opened(tmp_path, http):
        put(saver, "t", blob=blob, other=1)
        assert values(saver, config("t")) == {"blob": blob, "other": 1}
        saver.delete_thread("t")


def opened(folder: Path, http: bool) -> Iterator[StrongroomSaver]:
    if not http:
        with StrongroomSaver(folder / "agent.db") as saver:
            yield saver
        return
    with (
        served(str(folder / "agent.db")) as server,
        StrongroomSaver(server.url, key=server.key(role="writer")) as saver,
    ):
        yield saver


def test_large_values_are_in_a_copy_of_the_store(tmp_path: Path, every_address: str) -> None:
    with StrongroomSaver(tmp_path / "source.db") as saver, strongroom.open(every_address) as target:
        put(saver, "t", blob=b"x" * 5_000_000)
        copy(saver.opened.ctx.store, target.store)
        assert values(StrongroomSaver(target), config("t")) == {"blob": b"x" * 5_000_000}


# ---- Microsoft Agent Framework ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_a_large_checkpoint_of_a_workflow_is_replaced_and_deleted_whole(every_context: strongroom.Context) -> None:
    async def story() -> None:
        storage = StrongroomCheckpointStorage(every_context)
        for filling in ("x", "y"):
            saved = WorkflowCheckpoint("w", "hash", checkpoint_id="c", state={"text": filling * 1000})
            await storage.save(saved)
            assert await storage.load("c") == saved and await storage.list_checkpoints(workflow_name="w") == [saved]
            assert await storage.get_latest(workflow_name="w") == saved
        assert texts(every_context) == 1
        assert await storage.delete("c") and texts(every_context) == 0

    asyncio.run(story())


@pytest.mark.usefixtures("small")
def test_a_small_checkpoint_of_a_workflow_takes_the_place_of_a_large_one_whole(
    every_context: strongroom.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        storage = StrongroomCheckpointStorage(every_context)
        for text in ("x" * 1000, ""):
            await storage.save(WorkflowCheckpoint("w", "hash", checkpoint_id="c", state={"text": text}))
        assert texts(every_context) == 0

    monkeypatch.setattr(large, "INLINE", 1000)
    asyncio.run(story())


@pytest.mark.usefixtures("small")
def test_a_checkpoint_that_is_saved_while_it_is_deleted_leaves_no_large_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        path = tmp_path / "agent.db"
        with StrongroomCheckpointStorage(path) as storage, StrongroomCheckpointStorage(path) as other:
            saved = [WorkflowCheckpoint("w", "hash", checkpoint_id="c", state={"text": one * 1000}) for one in "xy"]
            await storage.save(saved.pop())
            owned = large.owned

            async def then_saved(scope: Scope, owner: str) -> list[str]:
                found = await owned(scope, owner)
                while saved:
                    await other.save(saved.pop())
                return found

            monkeypatch.setattr(large, "owned", then_saved)
            assert await storage.delete("c") and texts(storage.opened.ctx) == 0

    asyncio.run(story())
