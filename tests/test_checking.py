"""`check` finds what the store finds, and what `verify` finds, in every space of every kind of store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from msgspec.structs import replace

import strongroom
from strongroom.blocking import Context
from strongroom.bridge import Inline, run
from strongroom.checking import check
from strongroom.codec import encode
from strongroom.context import AsyncContext
from strongroom.copying import copy
from strongroom.errors import Damaged, InvalidInput, StoreError
from strongroom.opening import open_store
from strongroom.scope import Scope
from strongroom.services.packs.staging import Staging
from strongroom.services.runs.state import POINTER
from strongroom.store import Append, Commit, Delete, Entry, ExportItem, Get, Key, Put, Store, new_id
from strongroom.unfinished import MARK
from tests.server.serving import served


def context(store: Store, space: str) -> Context:
    return Context(AsyncContext(Scope(Inline(store), space)))


def furnish(store: Store) -> None:
    for space in ("acme", "zeta"):
        ctx = context(store, space)
        for name in ("one", "two"):
            run = ctx.runs.create(objective=name, run_id=name)
            run.update(status="BUSY")
            run.record("TOOL_CALL", {"tool_name": "fetch", "arguments": {}})
        ctx.sessions.open("talk").append({"role": "user", "content": "hello"})


def tamper(store: Any, run_id: str, change: Callable[[Any], Any]) -> None:
    """Write another state past the services, with every checksum right."""
    import json

    key = Key("zeta", "run", run_id)
    [found] = store.read([Get(key)])
    value = json.loads(found.value)
    change(value)
    store.commit(Commit(new_id(), (), (Put(key, encode(value), found.tags),)))


def finish(state: Any) -> None:
    state["working_set"]["status"] = "DONE"


def test_a_sound_store_is_all_good(store: Store) -> None:
    furnish(store)
    found = check(store)
    assert (found.ok, found.problems, found.runs) == (True, (), 4)
    assert found.documents >= 6 and found.streams >= 4 and found.records >= 14


def test_what_was_deleted_is_counted_as_tombstones_alone(store: Store) -> None:
    keys = [Key("acme", "note", name) for name in ("kept", "gone")]
    store.commit(Commit(new_id(), (), tuple(Put(key, encode(1)) for key in keys)))
    store.commit(Commit(new_id(), (), (Append(Key("acme", "talk", "gone"), (Entry("SAID", encode(1)),)),)))
    store.commit(Commit(new_id(), (), (Delete(keys[1]), Delete(Key("acme", "talk", "gone")))))
    found = check(store)
    assert (found.documents, found.streams, found.tombstones, found.records) == (1, 0, 2, 0)


def test_a_copy_counts_what_its_source_counts(store: Store) -> None:
    source = open_store("memory://")
    furnish(source)
    source.commit(Commit(new_id(), (), (Delete(Key("zeta", "session", "talk")),)))
    copy(source, cast("Any", store))
    one, other = check(source), check(store)
    told = [(each.documents, each.streams, each.tombstones, each.records, each.runs) for each in (one, other)]
    assert told[0] == told[1]


def test_what_a_copy_under_way_notes_is_not_counted(store: Store) -> None:
    store.commit(Commit(new_id(), (), (Put(MARK, encode(1)),)))
    found = check(store)
    assert (found.documents, found.tombstones, found.unfinished) == (0, 0, True)


def test_an_empty_store_is_all_good(store: Store) -> None:
    assert check(store).ok


def test_a_state_that_its_ledger_does_not_lead_to_is_found_in_any_space(store: Store) -> None:
    furnish(store)
    tamper(store, "two", finish)
    found = check(store)
    assert not found.ok
    assert found.problems == ("run 'two' in 'zeta': the working set is not what the ledger leads to",)
    assert found.runs == 4


def test_a_ledger_whose_run_is_gone_is_found_in_any_space(store: Store) -> None:
    furnish(store)
    store.commit(Commit(new_id(), (), (Delete(Key("zeta", "run", "one")),)))
    found = check(store)
    assert found.problems == ("run 'one' in 'zeta': its ledger is there, and the run itself is gone",)


def test_the_only_run_of_a_space_is_missed(store: Store) -> None:
    context(store, "acme").runs.create(objective="o", run_id="r")
    store.commit(Commit(new_id(), (), (Delete(Key("acme", "run", "r")),)))
    assert check(store).problems == ("run 'r' in 'acme': its ledger is there, and the run itself is gone",)


def test_what_our_own_operations_leave_of_runs_is_all_good(store: Store, tmp_path: Path) -> None:
    ctx = context(store, "acme")
    run = ctx.runs.create(objective="o", run_id="r", user_id="ana")
    run.export(tmp_path / "r.zip")
    run.fork(seq=0, run_id="forked")
    ctx.runs.restore(tmp_path / "r.zip", run_id="restored")
    ctx.runs.create(objective="o", run_id="erased")
    ctx.runs.erase("erased", reason="asked to", actor="ana")
    ctx.export(tmp_path / "all.zip")
    context(store, "zeta").restore(tmp_path / "all.zip")
    ctx.erase(user_id="ana")
    found = check(store)
    assert (found.ok, found.runs) == (True, 8), found.problems


def test_a_restored_run_that_is_gone_is_named_once(store: Store, tmp_path: Path) -> None:
    ctx = context(store, "acme")
    ctx.runs.create(objective="o", run_id="r").export(tmp_path / "r.zip")
    ctx.runs.restore(tmp_path / "r.zip", run_id="restored")
    store.commit(Commit(new_id(), (), (Delete(Key("acme", "run", "restored")),)))
    assert check(store).problems == ("run 'restored' in 'acme': its ledger is there, and the run itself is gone",)


def test_the_ledger_of_a_run_that_is_being_restored_is_no_finding(store: Store) -> None:
    staged = Staging(Scope(Inline(store), "acme"), "r")
    run(staged.append(Key("acme", "ledger", "coming"), Entry("RUN_START", encode(1))))
    run(staged._flush())
    assert check(store).ok


@pytest.mark.parametrize("value", [None, {"streams": 1}, {"streams": [[[], {}]]}])
def test_a_note_of_a_staging_that_is_none_does_not_end_a_check(value: Any) -> None:
    store = open_store("memory://")
    store.commit(Commit(new_id(), (), (Put(Key("acme", "staging", "s"), encode(value)),)))
    store.commit(Commit(new_id(), (), (Append(Key("acme", "ledger", "r"), (Entry(POINTER, encode(value)),)),)))
    assert check(store).problems == ("run 'r' in 'acme': its ledger is there, and the run itself is gone",)


def test_an_event_slipped_in_is_named(store: Store) -> None:
    furnish(store)
    forged = Entry("TOOL_CALL", encode({"forged": True}), commitment=b"x" * 32)
    store.commit(Commit(new_id(), (), (Append(Key("acme", "ledger", "one"), (forged,)),)))
    [problem] = check(store).problems
    assert problem.startswith("run 'one' in 'acme': ") and problem.endswith("(event 4)")


def test_a_run_that_cannot_be_read_does_not_hide_the_others(store: Store) -> None:
    furnish(store)
    tamper(store, "one", lambda state: state.clear())
    tamper(store, "two", finish)
    found = check(store)
    assert [problem[:18] for problem in found.problems] == ["run 'one' in 'zeta", "run 'two' in 'zeta"]


def test_half_a_copy_is_not_all_good(store: Store) -> None:
    class Breaking:
        def load(self, items: list[ExportItem]) -> None:
            raise StoreError("broke")

        def unload(self, after: str | None, limit: int) -> Any:
            return cast("Any", store).unload(after, limit)

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    source = open_store("memory://")
    furnish(source)
    with pytest.raises(StoreError):
        copy(source, Breaking())
    assert "a copy into this store was interrupted" in check(store).problems[0]


def test_a_record_that_is_gone_from_the_middle_is_found() -> None:
    from strongroom.backends.memory import MemoryStore, Stream

    store = MemoryStore()
    furnish(store)
    ledger = store._things[Key("acme", "ledger", "one")]
    assert isinstance(ledger, Stream)
    ledger.records[1] = replace(ledger.records[1], chain=b"y" * 32)
    del ledger.records[0]
    problems = check(store).problems
    assert any("ledger 'one' in 'acme'" in problem for problem in problems)
    assert any("run 'one' in 'acme'" in problem for problem in problems)


def test_a_server_is_checked_where_its_store_is(tmp_path: Any) -> None:
    refused = pytest.raises(InvalidInput, match="where it is")
    with served(str(tmp_path / "agent.db")) as server, strongroom.connect(server.url) as ctx, refused:
        check(ctx.store)


Change = Callable[[apsw.Connection], object]


def _statement(sql: str) -> Change:
    return lambda con: con.execute(sql).fetchall()


_DAMAGES: dict[str, Change] = {
    "a record": _statement("UPDATE record SET text = 'jello' WHERE text = 'hello' AND pos >> 32 < 9"),
    "a record that is no text": _statement(
        "UPDATE record SET text = CAST(x'e86c6c6f' AS TEXT) WHERE text = 'hello' AND pos >> 32 < 9"
    ),
    "a document": _statement("UPDATE head SET version = 9 WHERE kind = 'session' AND space = 'acme'"),
    "a document that is no text": _statement(
        "UPDATE head SET text = CAST(x'e86c6c6f' AS TEXT) WHERE kind = 'session' AND space = 'acme'"
    ),
    "a run": _statement("UPDATE head SET version = 9 WHERE kind = 'run' AND id = 'one' AND space = 'acme'"),
}


def _damaged(path: Path, change: Change) -> Store:
    """Return a store whose run `two` in `zeta` is no longer what its ledger says, where something else is damaged."""
    with strongroom.open(path) as ctx:
        furnish(ctx.store)
        tamper(ctx.store, "two", finish)
    con = apsw.Connection(str(path))
    change(con)
    con.close()
    return open_store(path)


@pytest.mark.parametrize("change", _DAMAGES.values(), ids=_DAMAGES)
def test_a_damaged_row_hides_no_finding_on_a_run(tmp_path: Path, change: Change) -> None:
    found = check(_damaged(tmp_path / "agent.db", change))
    assert "run 'two' in 'zeta': the working set is not what the ledger leads to" in found.problems


@pytest.mark.parametrize("change", _DAMAGES.values(), ids=_DAMAGES)
def test_a_damaged_row_is_named_beside_the_findings_on_runs(tmp_path: Path, change: Change) -> None:
    problems = check(_damaged(tmp_path / "agent.db", change)).problems
    assert any("'acme'" in problem for problem in problems)


@pytest.mark.parametrize("change", _DAMAGES.values(), ids=_DAMAGES)
def test_a_damaged_row_hides_no_space(tmp_path: Path, change: Change) -> None:
    found = check(_damaged(tmp_path / "agent.db", change))
    assert sorted(size.space for size in found.spaces) == ["acme", "zeta"]


def test_every_run_beside_a_damaged_row_is_looked_at(tmp_path: Path) -> None:
    assert check(_damaged(tmp_path / "agent.db", _DAMAGES["a record"])).runs == 4


def test_the_runs_beside_a_run_that_is_damaged_are_looked_at(tmp_path: Path) -> None:
    assert check(_damaged(tmp_path / "agent.db", _DAMAGES["a run"])).runs == 3


def test_more_damage_than_is_told_hides_no_finding_on_a_run(tmp_path: Path) -> None:
    def damage(con: apsw.Connection) -> None:
        con.execute("UPDATE head SET version = version + 1 WHERE kind = 'note'")

    path = tmp_path / "agent.db"
    with strongroom.open(path) as ctx:
        notes = tuple(Put(Key("acme", "note", str(n)), encode(n)) for n in range(150))
        ctx.store.commit(Commit(new_id(), (), notes))
    found = check(_damaged(path, damage))
    assert found.problems[-1] == "run 'two' in 'zeta': the working set is not what the ledger leads to"


def test_no_more_than_a_hundred_problems_are_told(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    with strongroom.open(path) as ctx:
        notes = tuple(Put(Key("acme", "note", str(n)), encode(n)) for n in range(150))
        ctx.store.commit(Commit(new_id(), (), notes))
    found = check(_damaged(path, _statement("UPDATE head SET version = version + 1 WHERE kind = 'note'")))
    assert len(found.problems) == 100


def test_where_a_store_cannot_say_what_comes_behind_damage_it_is_said_that_no_runs_were_looked_at_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ending(after: str | None, limit: int) -> Any:
        raise Damaged("the file ends here", reason="corrupt")

    store = open_store("memory://")
    monkeypatch.setattr(store, "unload", ending)
    [problem] = check(store).problems
    assert "was not looked at, nor the runs" in problem
