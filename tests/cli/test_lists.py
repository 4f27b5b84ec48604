"""What lists tell at a glance: which, whose, and since when; and of a thread what is there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import strongroom
from strongroom.cli.output import moment
from tests.cli.conftest import Type

LONG = "Find out where the parcel is that Ana was promised for Monday, and tell her"


@pytest.fixture
def owned(empty: Path) -> Path:
    """A folder with a store in which a run and a session are Ana's, and one of each nobody's."""
    with strongroom.open("agent.db") as ctx:
        ctx.runs.create(objective=LONG, user_id="ana").update(status="WAITING_INPUT")
        ctx.runs.create(objective="Build a scraper")
        ctx.sessions.open("support-2026-11-18", title=LONG, user_id="ana")
        ctx.sessions.open("other")
    return empty


def test_a_list_of_runs_says_whose_they_are_and_since_when(owned: Path, type_in: Type) -> None:
    with strongroom.open("agent.db") as ctx:
        hers, nobodys = ctx.runs.list()
    header, first, second = type_in("runs", "list").out.splitlines()
    assert header.split() == ["run", "status", "seq", "created", "(UTC)", "user", "objective"]
    assert first.split()[:6] == [hers.id, "WAITING_INPUT", "1", *moment(hers.created_at).split(), "ana"]
    assert second.startswith(nobodys.id)


def test_a_list_of_sessions_says_whose_they_are(owned: Path, type_in: Type) -> None:
    header, first, second = type_in("sessions", "list").out.splitlines()
    assert header.split() == ["session", "messages", "created", "(UTC)", "user", "title"]
    assert "  ana  " in first and "ana" not in second


def test_programs_are_told_whose_runs_are_and_since_when(owned: Path, type_in: Type) -> None:
    with strongroom.open("agent.db") as ctx:
        began = [run.created_at for run in ctx.runs.list()]
    told = type_in("runs", "list", "--json").json["runs"]
    assert [one["user_id"] for one in told] == ["ana", None]
    assert [one["created_at"] for one in told] == [at.isoformat().replace("+00:00", "Z") for at in began]


def test_programs_are_told_whose_sessions_are(owned: Path, type_in: Type) -> None:
    assert [one["user_id"] for one in type_in("sessions", "list", "--json").json["sessions"]] == ["ana", None]
    assert type_in("sessions", "show", "other", "--json").json["session"]["user_id"] is None


def test_one_run_says_since_when_it_is_there(owned: Path, type_in: Type) -> None:
    with strongroom.open("agent.db") as ctx:
        hers, _ = ctx.runs.list()
    assert moment(hers.created_at) in type_in("runs", "show", hers.id).out
    assert type_in("runs", "show", hers.id, "--json").json["created_at"]


@pytest.mark.parametrize("kind", ["runs", "sessions"])
def test_eighty_columns_fold_the_sentence_and_nothing_else(
    kind: str, owned: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = type_in(kind, "list").out.splitlines()
    monkeypatch.setenv("COLUMNS", "80")
    lines = type_in(kind, "list").out.splitlines()
    sentence = whole[0].index("objective" if kind == "runs" else "title")
    assert max(map(len, lines)) <= 80
    assert [line[:sentence].rstrip() for line in lines if line[:sentence].strip()] == [
        line[:sentence].rstrip() for line in whole
    ]


def test_a_narrow_terminal_loses_no_letter(owned: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    with strongroom.open("agent.db") as ctx:
        ctx.runs.create(objective="o", run_id="Q" * 60, user_id="Z" * 60)
    monkeypatch.setenv("COLUMNS", "50")
    out = type_in("runs", "list").out
    assert (out.count("Q"), out.count("Z")) == (60, 60)


@pytest.mark.parametrize("kind", ["runs", "sessions"])
def test_a_list_may_begin_with_the_newest(kind: str, owned: Path, type_in: Type) -> None:
    oldest, newest = type_in(kind, "list", "--json").json[kind]
    assert type_in(kind, "list", "--newest", "--json").json[kind] == [newest, oldest]
    page = type_in(kind, "list", "--newest", "--limit", "1", "--json").json
    assert page[kind] == [newest]
    after = type_in(kind, "list", "--newest", "--after", str(page["next"]), "--json").json
    assert after == {kind: [oldest], "next": None}


def test_events_of_a_type_that_there_is_not_are_refused_with_those_there_are(here: Path, type_in: Type) -> None:
    told = type_in("runs", "events", "scraper", "--type", "TOOLCALL")
    assert (told.code, told.out) == (1, "")
    assert "no event type 'TOOLCALL'; did you mean TOOL_CALL?; there are RUN_START, " in " ".join(told.err.split())


@pytest.fixture
def reborn(empty: Path) -> Path:
    with strongroom.open("agent.db") as ctx:
        for n in range(60):
            ctx.threads.append("t", n, from_id="ana")
        ctx.threads.delete("t")
        for word in ("back", "again"):
            ctx.threads.append("t", word, from_id="ana")
    return empty


@pytest.mark.parametrize(
    ("options", "indexes", "following"),
    [
        ((), [60, 61], None),
        (("--limit", "1"), [60], "60"),
        (("--after", "60"), [61], None),
        (("--after", "61"), [], None),
    ],
    ids=str,
)
def test_a_thread_that_ended_and_came_back_is_shown(
    reborn: Path, type_in: Type, options: tuple[str, ...], indexes: list[int], following: str | None
) -> None:
    told = type_in("threads", "show", "t", *options, "--json").json
    assert ([slot["index"] for slot in told["slots"]], told["next"]) == (indexes, following)


def test_the_newest_of_a_thread_that_ended_and_came_back_are_shown(reborn: Path, type_in: Type) -> None:
    assert [line.split()[-1] for line in type_in("threads", "tail", "t").out.splitlines()] == ["back", "again"]


def test_searches_show_the_others_and_say_what_is_damaged(here: Path, type_in: Type) -> None:
    with closing(sqlite3.connect(here / "agent.db")) as file:
        file.execute("UPDATE head SET sum = sum + 1 WHERE kind IN ('memory', 'file_text')")
        newest = "SELECT max(pos) FROM record JOIN head ON ref = pos >> 32 WHERE kind = 'message'"
        file.execute(f"UPDATE record SET sum = sum + 1 WHERE pos = ({newest})")
        file.commit()
    memory = type_in("--json", "memories", "list").json["damaged"][0]
    for command, named in (("memories", memory), ("files", "/notes/a.md"), ("sessions", "support[19]")):
        typed = type_in("--json", command, "search", "scraper")
        assert (typed.code, typed.json["degraded"]) == (0, f"1 cannot be read: {named}")
        assert f"not complete: 1 cannot be read: {named}" in type_in(command, "search", "scraper").out
    assert len(type_in("--json", "sessions", "search", "scraper").json["hits"]) == 5


def test_a_list_without_owners_says_how_to_see_those_of_everyone(type_in: Type, empty: Path) -> None:
    type_in("memories", "add", "likes tea", "--user", "ana")
    assert "--user or --project, or all with --everyone" in type_in("memories", "list").out
