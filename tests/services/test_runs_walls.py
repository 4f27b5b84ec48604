"""Everything a run is, is in its chain: whatever is exchanged beside the ledger, or for it, is found and named.

Each test changes a store in the ways the port offers, as somebody with a key to it could.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.blocking.runs import Run, Runs
from strongroom.bridge import Inline
from strongroom.codec import Json, encode
from strongroom.errors import Conflict, Damaged, InvalidInput
from strongroom.scope import Scope
from strongroom.services.runs import ledger
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.runs.state import POINTER
from strongroom.store import (
    Append,
    Commit,
    Delete,
    Entry,
    Get,
    Key,
    Put,
    Range,
    Record,
    Scan,
    Store,
    Write,
    ask,
    new_id,
)
from tests.services.pack_files import contents, mended, write


class World:
    """A run with some of everything, and somebody who writes to the store past the services."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.runs = Runs(AsyncRuns(Scope(Inline(store))))

    def run(self, run_id: str = "r") -> Run:
        made = self.runs.create(objective="Pay the bill", run_id=run_id)
        made.update(status="BUSY")
        made.record("TOOL_CALL", {"tool_name": "pay", "arguments": {"amount": 1_000_000}}, actor="mallory")
        made.attach(b"the invoice", type="pdf", path="invoice.pdf")
        made.milestone("paid")
        return made

    def write(self, *writes: Write) -> None:
        self.store.commit(Commit(new_id(), (), writes))

    def document(self, kind: str, id: str) -> Any:
        found = ask(self.store, Get(key(kind, id)))
        assert found is not None
        return found

    def change(self, run_id: str, **fields: Any) -> None:
        found = self.document("run", run_id)
        self.write(Put(found.key, encode({**found.value.load(), **fields}), found.tags))

    def forge(self, run_id: str, streams: str) -> None:
        """Write the ledger of a run once more, with another amount, another actor, and every hash right."""
        identity = ledger.Identity("default", run_id)
        entries = []
        page = ask(self.store, Range(key("ledger", self.document("run", run_id).value.load()["streams"])))
        for record in page.records:
            body = ledger.body_of(content_of(record))
            actor, payload = body.actor, body.payload
            if record.type == "TOOL_CALL":
                actor, payload = "ana", {"tool_name": "pay", "arguments": {"amount": 0}}
            entries.append(ledger.entry(identity, record.type, payload, actor=actor, at=record.at, detail=body.detail))
        self.write(Append(key("ledger", streams), tuple(entries)))
        kept = ask(self.store, Range(key("episodes", self.document("run", run_id).value.load()["streams"])))
        again = tuple(Entry(record.type, content_of(record), at=record.at) for record in kept.records)
        self.write(Append(key("episodes", streams), again))
        self.change(run_id, streams=streams)


def content_of(record: Record) -> Json:
    assert record.body is not None
    return record.body


def key(kind: str, id: str) -> Key:
    return Key("default", kind, id)


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


WAYS_IN: dict[str, Callable[[Run, Path], object]] = {
    "refresh": lambda run, _: run.refresh(),
    "update": lambda run, _: run.update(append={"blockers": ["b"]}),
    "events": lambda run, _: run.events(),
    "brief": lambda run, _: run.brief(),
    "at": lambda run, _: run.at(0),
    "export": lambda run, folder: run.export(folder / "pack.zip"),
    "milestone": lambda run, _: run.milestone("m"),
    "fork": lambda run, _: run.fork(),
}


@pytest.mark.parametrize("streams", ["forged", "r~0123456789abcdef"])
def test_a_document_cannot_point_a_run_to_a_forged_ledger(world: World, streams: str) -> None:
    run = world.run()
    assert run.verify().ok
    world.forge("r", streams)
    found = run.verify()
    assert (found.ok, found.field) == (False, "document")
    with pytest.raises(Damaged, match="not its own"):
        world.runs.get("r")
    with pytest.raises(Damaged, match="not its own"):
        world.runs.open("r", objective="Pay the bill")


@pytest.mark.parametrize("way", WAYS_IN)
def test_every_way_in_refuses_an_exchanged_ledger(world: World, way: str, tmp_path: Path) -> None:
    run = world.run()
    world.forge("r", "forged")
    with pytest.raises(Damaged, match="not its own"):
        WAYS_IN[way](run, tmp_path)


@pytest.mark.parametrize("streams", ["back~0123456789abcdef", "r", "back"])
def test_nor_can_the_document_of_a_restored_run(world: World, streams: str, tmp_path: Path) -> None:
    world.run().export(tmp_path / "pack.zip")
    run = world.runs.restore(tmp_path / "pack.zip", run_id="back")
    assert world.runs.get("back").verify().ok
    if streams.startswith("back~"):
        world.forge("back", streams)
    else:
        world.change("back", streams=streams)
    assert not run.verify().ok
    with pytest.raises(Damaged):
        world.runs.get("back").events()


def test_where_a_restored_ledger_is_was_said_once(world: World, tmp_path: Path) -> None:
    world.run().export(tmp_path / "pack.zip")
    world.runs.restore(tmp_path / "pack.zip", run_id="back")
    world.forge("back", "forged")
    world.write(Append(key("ledger", "back"), (Entry(POINTER, encode("forged")),)))
    with pytest.raises(Damaged, match="not its own"):
        world.runs.get("back")


def test_a_run_does_not_begin_where_somebody_else_has_written(world: World, tmp_path: Path) -> None:
    world.run().export(tmp_path / "pack.zip")
    world.write(Append(key("ledger", "mine"), (Entry("RUN_START", encode({})),)))
    ways: list[Callable[[], object]] = [
        lambda: world.runs.create(objective="o", run_id="mine"),
        lambda: world.runs.open("mine", objective="o"),
        lambda: world.runs.get("r").fork(run_id="mine"),
        lambda: world.runs.restore(tmp_path / "pack.zip", run_id="mine"),
    ]
    for begin in ways:
        with pytest.raises(Conflict, match="already"):
            begin()


def test_a_document_of_another_run_is_not_believed(world: World) -> None:
    world.run()
    world.run("other")
    world.write(Put(key("run", "r"), world.document("run", "other").value))
    with pytest.raises(Damaged, match="another run"):
        world.runs.get("r")


@pytest.mark.parametrize("value", [{}, [], {"working_set": {"run_id": "r"}, "streams": "r"}, {"working_set": 1}])
def test_a_document_that_is_none_of_a_run_is_damage(world: World, value: Any) -> None:
    run = world.run()
    world.write(Put(key("run", "r"), encode(value)))
    assert run.verify().field == "document"
    with pytest.raises(Damaged):
        world.runs.get("r")


def test_a_run_without_its_ledger_is_bad(world: World) -> None:
    run = world.run()
    world.write(Delete(key("ledger", "r")))
    found = run.verify()
    assert (found.ok, found.field, found.checked, found.first_bad) == (False, "ledger", 0, 1)


def test_a_ledger_that_tells_no_state_vouches_for_none(world: World) -> None:
    world.run()
    document = world.document("run", "r")
    told = {**document.value.load(), "streams": "s"}
    told["working_set"]["run_id"] = "s"
    called = ledger.entry(ledger.Identity("default", "s"), "TOOL_CALL", {"tool_name": "t"}, actor="ana", at=0)
    world.write(Put(key("run", "s"), encode(told), document.tags), Append(key("ledger", "s"), (called,)))
    found = world.runs.get("s").verify()
    assert (found.ok, found.field) == (False, "working_set")


# ---- what is beside the ledger --------------------------------------------------------------------------------------


def test_an_exchanged_state_is_named(world: World) -> None:
    run = world.run()
    state = world.document("run", "r").value.load()["working_set"]
    world.change("r", working_set={**state, "next_action": "pay again"})
    found = run.verify()
    assert (found.ok, found.field, found.first_bad) == (False, "working_set", None)


def test_an_exchanged_configuration_is_named(world: World) -> None:
    run = world.run()
    world.change("r", config={"ws_max_tokens": 5})
    assert (run.verify().ok, run.verify().field) == (False, "config")


@pytest.mark.parametrize("change", [{"mark": {"floor": 99, "spent": 0}}, {}])
def test_what_else_the_document_says_must_fit(world: World, change: dict[str, Any]) -> None:
    run = world.run()
    if change:
        world.change("r", **change)
    else:
        found = world.document("run", "r")
        world.write(Put(found.key, found.value, {"status": "DONE"}))
    assert (run.verify().ok, run.verify().field) == (False, "document")


def edited(body: Json) -> Json:
    return encode({**body.load(), "summary": "nothing was paid"})


@pytest.mark.parametrize("how", ["edited", "gone", "added"])
def test_an_exchanged_episode_is_named(world: World, how: str) -> None:
    run = world.run()
    run.milestone("second")
    page = ask(world.store, Range(key("episodes", "r")))
    entries = [Entry(record.type, content_of(record), at=record.at) for record in page.records]
    if how == "edited":
        entries[1] = Entry(entries[1].type, edited(entries[1].body), at=entries[1].at)
    elif how == "gone":
        del entries[1]
    else:
        entries.append(entries[0])
    world.write(Delete(key("episodes", "r")), Append(key("episodes", "r"), tuple(entries)))
    found = run.verify()
    assert (found.ok, found.field) == (False, "episodes")
    assert ("episode 3" if how == "added" else "episode 2") in found.reason


def test_episodes_and_content_of_a_restored_run_are_told_too(world: World, tmp_path: Path) -> None:
    run = world.run()
    run.export(tmp_path / "pack.zip")
    back = world.runs.restore(tmp_path / "pack.zip", run_id="back")
    back.milestone("more")
    assert back.verify().ok
    streams = world.document("run", "back").value.load()["streams"]
    world.write(Delete(key("episodes", streams)))
    assert back.verify().field == "episodes"


@pytest.mark.parametrize("how", ["the use", "the content", "the chunks", "other chunks", "one more"])
def test_missing_or_exchanged_content_is_named(world: World, how: str) -> None:
    run = world.run()
    uses = ask(world.store, Scan("default", "artifact-use", {"run": "r"}))
    [use] = uses.documents
    content = world.document("artifact", use.value.load()["sha256"])
    blob = key("blob", content.value.load()["blob"])
    if how == "the use":
        world.write(Delete(use.key))
    elif how == "the content":
        world.write(Delete(content.key))
    elif how == "the chunks":
        world.write(Delete(blob))
    elif how == "other chunks":
        world.write(Append(key("blob", "b"), (Entry("chunk", encode("YWJj")),)))
        world.write(Put(content.key, encode({"blob": "b", "size": 3})))
    else:
        world.write(Put(key("artifact-use", "r/more"), use.value, use.tags))
    found = run.verify()
    assert (found.ok, found.field) == (False, "artifacts")


def test_a_fork_and_an_erased_run_verify_with_all_they_have(world: World) -> None:
    run = world.run()
    fork = run.fork(run_id="fork")
    fork.milestone("on its own")
    assert fork.verify().ok
    world.runs.erase("r", reason="asked to")
    run.attach(b"after it", type="note")
    run.milestone("after it")
    assert run.verify().ok
    assert fork.verify().ok
    uses = ask(world.store, Scan("default", "artifact-use", {"run": "fork"}))
    world.write(Delete(uses.documents[0].key))
    assert fork.verify().field == "artifacts"


@pytest.mark.parametrize(
    ("path", "change", "reason"),
    [
        ("manifest.json", {"config": {"ws_max_tokens": 5}}, "configuration"),
        ("manifest.json", {"pointers": {"artifacts": []}}, "artifacts"),
        ("episodes/", {"summary": "nothing was paid"}, "episodes"),
    ],
)
def test_a_pack_that_contradicts_its_ledger_is_refused(
    world: World, path: str, change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    made = world.run().export(tmp_path / "pack.zip")
    entries = contents(tmp_path / "pack.zip")
    name = next(name for name in entries if name.startswith(path))
    entries[name] = json.dumps({**json.loads(entries[name]), **change}).encode()
    write(tmp_path / "lie.zip", mended(entries))
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput, match=reason):
        ctx.runs.restore(tmp_path / "lie.zip", head=made.head)
