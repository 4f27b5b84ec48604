"""The commands about a store as a whole, also when they are typed a second time."""

from __future__ import annotations

import json
from pathlib import Path

import strongroom
from strongroom.codec import encode
from strongroom.store import Commit, Get, Key, Put, new_id
from tests.cli.conftest import Type


def test_a_copy_onto_something_else_is_refused_and_changes_nothing(here: Path, type_in: Type) -> None:
    with strongroom.open("other.db") as ctx:
        ctx.runs.create(objective="of somebody else", run_id="other")
    typed = type_in("copy", "agent.db", "other.db")
    assert typed.code == 1
    assert "not empty" in typed.err and "nothing was copied" in typed.err
    with strongroom.open("other.db") as ctx:
        assert [run.id for run in ctx.runs.list()] == ["other"]
        assert list(ctx.sessions.list()) == []


def test_a_copy_typed_twice_is_refused_the_second_time(here: Path, type_in: Type) -> None:
    assert type_in("copy", "agent.db", "other.db").code == 0
    typed = type_in("copy", "agent.db", "other.db")
    assert (typed.code, "not empty" in typed.err) == (1, True)
    assert type_in("check", "--url", "other.db").code == 0


def test_a_store_is_not_copied_onto_itself(here: Path, type_in: Type) -> None:
    assert type_in("copy", "agent.db", "agent.db").code == 1
    assert type_in("check").code == 0


def test_check_finds_a_run_that_is_not_what_its_ledger_says(here: Path, type_in: Type) -> None:
    with strongroom.open("agent.db", space="acme") as ctx:
        ctx.runs.create(objective="honest", run_id="forged")
        key = Key("acme", "run", "forged")
        [found] = ctx.store.read([Get(key)])
        value = encode(json.loads(found.value.replace(b"honest", b"forged")))
        ctx.store.commit(Commit(new_id(), (), (Put(key, value, found.tags),)))
    typed = type_in("check")
    assert typed.code == 3
    assert "run 'forged' in 'acme': the working set is not what the ledger leads to" in typed.out
    assert "all good" not in typed.out
    told = type_in("check", "--json")
    assert (told.code, told.json["ok"], told.json["runs"]) == (3, False, 2)


def test_check_typed_twice_says_the_same(here: Path, type_in: Type) -> None:
    assert type_in("check") == type_in("check")
