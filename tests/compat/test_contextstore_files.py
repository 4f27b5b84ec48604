"""Files that ContextStore wrote: opened, imported, never touched."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import apsw
import pytest

import strongroom
from strongroom.compat.contextstore import SQLiteMemory
from strongroom.compat.importing_contextstore import Damage, import_contextstore
from tests.compat.contextstore_files import old_message, write_old_file
from tests.server.serving import served


def contents(path: Path, session_id: str) -> list[object]:
    return [message["content"] for message in asyncio.run(SQLiteMemory(path).load_context(session_id))]


def test_an_existing_file_opens_with_its_sessions_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    before = write_old_file(path, [("a", [old_message(1), old_message(2, "assistant")]), ("b", [old_message(3)])])
    history = asyncio.run(SQLiteMemory(path).load_context("a"))
    assert [(one["id"], one["role"], one["content"]) for one in history] == [
        ("m1", "user", "text 1"),
        ("m2", "assistant", "text 2"),
    ]
    assert history[0]["timestamp"] == "2024-01-01T00:00:01+00:00"
    assert contents(path, "b") == ["text 3"]
    assert path.read_bytes() == before


def test_an_existing_file_is_imported_once(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    before = write_old_file(path, [("a", [old_message(1)]), ("b", [])])
    memory = SQLiteMemory(path)
    asyncio.run(memory.append_context("a", [{"role": "user", "content": "new"}]))
    asyncio.run(memory.delete_session("b"))
    memory.close()
    again = SQLiteMemory(path)
    assert [one["content"] for one in asyncio.run(again.load_context("a"))] == ["text 1", "new"]
    with pytest.raises(ValueError, match="does not exist"):
        asyncio.run(again.append_context("b", []))
    assert path.read_bytes() == before


def test_a_damaged_row_is_told_and_loses_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "chat.db"
    text = json.dumps([old_message(number) for number in range(9)])
    damaged = text[: text.index("text 5")] + '"' + text[text.index("text 5") :]
    before = write_old_file(path, [("bad", "{not json"), ("half", damaged), ("good", [old_message(1)])])
    with caplog.at_level(logging.WARNING):
        assert contents(path, "bad") == []
    assert contents(path, "half") == [f"text {number}" for number in range(5)]
    assert contents(path, "good") == ["text 1"]
    assert ["'bad'" in record.getMessage() for record in caplog.records] == [True, False]
    assert path.read_bytes() == before


def test_bytes_that_are_not_utf8_do_not_stop_an_import(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    text = json.dumps([old_message(1)]).encode().replace(b"text", b"t\xffxt")
    write_old_file(path, [("a", text), ("b", [old_message(2)])])
    report = import_contextstore(path, dry_run=True)
    assert (report.sessions, report.messages, [one.session_id for one in report.damaged]) == (2, 2, ["a"])


def test_a_crash_in_an_import_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chat.db"
    write_old_file(path, [("a", [old_message(1)]), ("b", [old_message(2)])])

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crash)
        with pytest.raises(KeyboardInterrupt):
            SQLiteMemory(path)
    assert not path.with_name("chat.db.strongroom").exists()
    assert contents(path, "b") == ["text 2"]


def test_a_new_file_is_a_store_itself(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "chat.db")
    asyncio.run(memory.save_context("a", [{"role": "user", "content": "x"}]))
    memory.close()
    with strongroom.open(tmp_path / "chat.db") as ctx:
        assert [message.content for message in ctx.sessions.get("a").load()] == ["x"]


def test_a_dry_run_reports_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    write_old_file(path, [("a", [old_message(1), old_message(2)]), ("b", "[1, 2")])
    with strongroom.open(tmp_path / "agent.db") as ctx:
        report = import_contextstore(path, ctx, dry_run=True)
        assert not ctx.sessions.list()
    assert (report.dry_run, report.sessions, report.messages) == (True, 2, 4)
    assert [one.session_id for one in report.damaged] == ["b"]


def test_an_import_keeps_sessions_that_are_there_already(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    write_old_file(path, [("a", [old_message(1)]), ("b", [old_message(2)])])
    with strongroom.open(tmp_path / "agent.db") as ctx:
        ctx.sessions.open("a").append({"role": "user", "content": "mine"})
        report = import_contextstore(path, ctx)
        assert (report.sessions, report.messages, report.skipped) == (1, 1, ("a",))
        assert [message.content for message in ctx.sessions.get("a").load()] == ["mine"]
        assert [message.content for message in ctx.sessions.get("b").load()] == ["text 2"]


class Ended(Exception):
    """The process ended here."""


@pytest.mark.parametrize("commits", range(4))
def test_an_import_that_is_ended_anywhere_goes_on_where_it_was(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int
) -> None:
    path = tmp_path / "old.db"
    write_old_file(path, [("a", [old_message(1), old_message(2)]), ("b", [old_message(3)])])
    with strongroom.open(address) as ctx:
        real, left = ctx.store.commit, iter(range(commits))

        def commit(wanted: Any) -> Any:
            if next(left, None) is None:
                raise Ended
            return real(wanted)

        with monkeypatch.context() as patch, pytest.raises(Ended):
            patch.setattr(ctx.store, "commit", commit)
            import_contextstore(path, ctx)
        assert import_contextstore(path, ctx).skipped == ("a",)[: commits // 2]
        assert import_contextstore(path, ctx).skipped == ("a", "b")
        assert [one.content for one in ctx.sessions.get("a").load()] == ["text 1", "text 2"]
        assert [one.content for one in ctx.sessions.get("b").load()] == ["text 3"]


def test_an_imported_session_says_where_it_came_from(address: str, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    write_old_file(path, [("a", [old_message(1)]), ("b", [])])
    with strongroom.open(address) as ctx:
        import_contextstore(path, ctx)
        assert [(one.id, one.messages) for one in ctx.sessions.list(tags={"from": "contextstore"})] == [
            ("a", 1),
            ("b", 0),
        ]


def test_a_message_that_is_too_large_is_told_and_the_others_of_its_session_come(address: str, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    large = {"id": "m2", "content": {"data": "x" * (17 << 20), "role": "user"}}
    write_old_file(path, [("a", [old_message(1), large, old_message(3)])])
    with strongroom.open(address) as ctx:
        [damage] = import_contextstore(path, ctx).damaged
        assert "message 1 cannot be stored: a record of" in damage.reason
        assert [one.content for one in ctx.sessions.get("a").load()] == ["text 1", "text 3"]


def test_a_session_that_a_server_does_not_take_is_named_every_time_and_the_others_come(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    long = [{"id": f"m{number}", "role": "user", "content": "x" * 3000} for number in range(100)]
    write_old_file(path, [("a", long), ("b", [old_message(1)])])
    limits: Any = {"snapshots": str(tmp_path / "s"), "max_body_bytes": 100_000}
    with served("memory://", **limits) as server, strongroom.connect(server.url) as ctx:
        for _ in range(2):
            told = import_contextstore(path, ctx)
            assert [one.session_id for one in told.damaged] == ["a"], told
        assert [one.content for one in ctx.sessions.get("b").load()] == ["text 1"]


def test_what_was_hidden_of_an_imported_session_does_not_come_again(address: str, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    write_old_file(path, [("a", [old_message(1)])])
    with strongroom.open(address) as ctx:
        import_contextstore(path, ctx)
        ctx.sessions.get("a").pop()
        assert import_contextstore(path, ctx).skipped == ("a",)
        assert ctx.sessions.get("a").load() == []


def test_an_empty_session_of_somebody_else_stays_as_it_is(address: str, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    write_old_file(path, [("a", [old_message(1)])])
    with strongroom.open(address) as ctx:
        ctx.sessions.open("a")
        assert import_contextstore(path, ctx).skipped == ("a",)
        assert ctx.sessions.get("a").load() == []


def test_a_session_with_two_rows_keeps_the_one_its_readers_saw(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    write_old_file(path, [("a", [old_message(1)]), ("a", [old_message(2)]), ("a", [old_message(1)])])
    report = import_contextstore(path, dry_run=True)
    assert (report.sessions, report.messages, len(report.damaged)) == (1, 1, 1)
    assert contents(path, "a") == ["text 1"]


def test_ids_that_are_no_ids_are_given_anew_and_told(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    rows = [{"id": one, "content": {"n": place}} for place, one in enumerate([1, "x", "x", None])]
    write_old_file(path, [("a", rows)])
    history = asyncio.run(SQLiteMemory(path).load_context("a"))
    assert [one["content"]["n"] for one in history] == [0, 1, 2, 3]
    assert [one["id"] for one in history[:2]] == ["1", "x"]
    assert len({one["id"] for one in history}) == 4
    report = import_contextstore(path, dry_run=True)
    assert report.damaged == (Damage("a", "message 2 had the id 'x', which is taken or no id; it has a new one"),)


def test_numbers_that_json_does_not_have_come_over_as_their_names(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    write_old_file(path, [("a", '[{"content": {"score": NaN}}]')])
    assert contents(path, "a") == [{"score": "NaN"}]


def test_a_session_whose_name_cannot_be_kept_is_told_and_the_others_come(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    write_old_file(path, [("two\nlines", [old_message(1)]), ("", [old_message(2)]), ("good", [old_message(3)])])
    assert contents(path, "good") == ["text 3"]
    report = import_contextstore(path, dry_run=True)
    assert (report.sessions, [one.session_id for one in report.damaged]) == (1, ["two\nlines", ""])


def test_a_file_with_a_torn_page_gives_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    rows = [(f"s{number}", [old_message(one) for one in range(30)]) for number in range(20)]
    before = bytearray(write_old_file(path, rows))
    place = len(before) * 2 // 3 // 4096 * 4096
    before[place : place + 4096] = bytes(4096)
    path.write_bytes(before)
    report = import_contextstore(path, dry_run=True)
    assert report.sessions > 0
    assert report.damaged
    assert len(contents(path, "s0")) == 30
    assert path.read_bytes() == before


def test_another_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello")
    with pytest.raises(strongroom.SchemaMismatch, match="ContextStore"):
        import_contextstore(other, dry_run=True)
    with pytest.raises(strongroom.NotFound, match="no file"):
        import_contextstore(tmp_path / "missing.db", dry_run=True)
    with pytest.raises(strongroom.SchemaMismatch):
        SQLiteMemory(other)
    assert other.read_text() == "hello"


def test_opening_an_old_file_leaves_nothing_but_the_store_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    write_old_file(path, [("a", [old_message(1)])])
    memory = SQLiteMemory(path)
    assert contents(path, "a") == ["text 1"]
    memory.close()
    left = {each.name.removeprefix("chat.db.strongroom") for each in tmp_path.iterdir()} - {"chat.db"}
    assert left <= {"", "-wal", "-shm", "-queue"}
    assert not [each for each in tmp_path.iterdir() if "partial" in each.name]


def test_a_row_that_names_no_session_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE tb_context (id INTEGER PRIMARY KEY, session_id TEXT, context_json TEXT)")
    connection.execute("INSERT INTO tb_context VALUES (1, NULL, '[]'), (2, 'a', NULL)")
    connection.close()
    assert (contents(path, "None"), contents(path, "a")) == ([], [])
    assert import_contextstore(path, dry_run=True).sessions == 1


def test_the_folder_of_a_database_is_made(tmp_path: Path) -> None:
    path = tmp_path / "not" / "there" / "chat.db"
    asyncio.run(SQLiteMemory(path).save_context("a", [{"role": "user", "content": "x"}]))
    assert contents(path, "a") == ["x"]


def test_no_folder_is_made_where_no_database_may_be(tmp_path: Path) -> None:
    memory = SQLiteMemory(tmp_path / "not" / "there" / "chat.db", create_db=False)
    with pytest.raises(strongroom.Unavailable, match="create_db is False"):
        asyncio.run(memory.load_context("a"))
    assert not (tmp_path / "not").exists()
