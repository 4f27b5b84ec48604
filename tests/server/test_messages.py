"""What errors over HTTP say, and what they keep to themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.server.request import understand
from strongroom.server.responses import Tidy
from strongroom.server.settings import Settings, folders
from tests.server.conftest import client
from tests.server.serving import served


class Inner(Struct, forbid_unknown_fields=True):
    size: Literal["small", "large"] | None = None


class Outer(Struct):
    many: tuple[Inner, ...] = ()
    named: dict[str, list[Inner]] = {}


@pytest.fixture
def run(alone: httpx.Client) -> str:
    made: str = alone.post("/runs", json={"objective": "x"}).json()["run_id"]
    assert alone.patch(f"/runs/{made}", json={"expected_seq": 0, "patch": {"status": "BUSY"}}).status_code == 200
    return made


def test_a_lost_race_carries_its_facts(alone: httpx.Client, run: str) -> None:
    lost = alone.patch(f"/runs/{run}", json={"expected_seq": 0, "patch": {"status": "DONE"}})
    told = lost.json()
    assert lost.status_code == 409
    assert (told["ok"], told["error"]) == (False, "Conflict: State has changed. Reload and retry.")
    assert (told["code"], told["expected"], told["actual"]) == ("conflict", 0, 1)
    assert told["id"] == lost.headers["x-request-id"]
    assert told["details"]["expected"] == 0
    assert lost.headers["etag"] == '"1"'


def test_a_run_that_is_there_already_is_named_where_reloading_would_not_help(alone: httpx.Client, run: str) -> None:
    lost = alone.post("/runs", json={"objective": "x", "run_id": run})
    told = lost.json()
    assert (lost.status_code, told["code"]) == (409, "conflict")
    assert run in told["error"] and "retry" not in told["error"]


def test_every_other_lost_race_does_too(alone: httpx.Client, run: str) -> None:
    patch = {"_schema_version": "2.1", "expected_seq": 0, "set": {"status": "DONE"}}
    for lost in (
        alone.post(f"/runs/{run}/step/update", json={"patch": patch}),
        alone.post(f"/runs/{run}/rollback", json={"seq": 0, "expected_seq": 0}),
        alone.post("/runs", json={"objective": "x", "run_id": run}),
    ):
        assert lost.status_code == 409
        assert lost.json().keys() >= {"ok", "error", "code", "id", "expected", "actual"}


def test_events_of_a_type_that_there_is_not_are_refused_with_those_there_are(alone: httpx.Client, run: str) -> None:
    refused = alone.get(f"/runs/{run}/events", params={"types": "TOOLCALL"})
    assert refused.status_code == 422
    assert "no event type 'TOOLCALL'; did you mean TOOL_CALL?; there are RUN_START, " in refused.json()["error"]


@pytest.mark.parametrize("body", [{"ptch": {}}, {"status": "BUSY", "expected_seq": 1}, {"expected_seq": "one"}])
def test_the_fields_of_an_update_are_named_when_one_is_wrong(alone: httpx.Client, run: str, body: Any) -> None:
    refused = alone.patch(f"/runs/{run}", json=body)
    assert refused.status_code == 422
    for name in ("patch", "expected_seq", "append", "remove", "status", "next_action", "sliding_context"):
        assert name in refused.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "values"),
    [
        ("GET", "/runs?status=busy", None, "BOOT, BUSY, DONE, FAILED, IDLE, PAUSED, WAITING_INPUT"),
        ("GET", "/memories?status=bogus", None, "active, any, deprecated, erased, expired, revoked, superseded"),
        ("POST", "/keys", {"role": "boss"}, "admin, reader, reviewer, writer"),
        ("POST", "/prompt", {"format": "claude"}, "anthropic, gemini, openai, responses"),
    ],
)
def test_the_values_of_a_choice_are_named_when_it_is_none_of_them(
    alone: httpx.Client, method: str, path: str, body: Any, values: str
) -> None:
    refused = alone.request(method, path, json=body)
    assert refused.status_code == 422
    assert refused.json()["error"].removesuffix("; nothing changed").endswith(f"`; allowed: {values}")


def test_the_fields_of_an_object_within_are_named_when_one_is_wrong() -> None:
    for wrong, words in (
        ({"many": [{"sise": "small"}]}, "; allowed fields: size"),
        ({"many": [{"size": "huge"}]}, "; allowed: large, small"),
        ({"named": {"a": [{"size": "huge"}]}}, "; allowed: large, small"),
        ({"many": 5}, "; allowed fields: many, named"),
    ):
        with pytest.raises(InvalidInput, match=rf"{words}; nothing changed"):
            understand(Outer, wrong, "body", strict=True)


@pytest.mark.parametrize("name", ["stauts", "actor"])
def test_the_fields_of_a_working_set_are_named_when_one_is_wrong(alone: httpx.Client, run: str, name: str) -> None:
    refused = alone.patch(f"/runs/{run}", json={"expected_seq": 1, "patch": {name: "x"}})
    assert refused.status_code == 422
    assert name in refused.json()["error"]
    for field in ("status", "current_stage", "next_action", "last_action_summary", "blockers", "pinned_context"):
        assert field in refused.json()["error"]


UNREADABLE = ["{", '{"a": 1, "a": 2}', '{"a": NaN}', "[" * 200 + "]" * 200, '"\\ud800"', b"\xff"]


@pytest.mark.parametrize("body", UNREADABLE)
def test_a_write_whose_body_cannot_be_read_says_that_nothing_changed(alone: httpx.Client, body: str | bytes) -> None:
    refused = alone.post("/runs", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422
    assert refused.json()["error"].endswith("; nothing changed")


@pytest.mark.parametrize("body", UNREADABLE)
def test_a_read_whose_body_cannot_be_read_says_nothing_of_changes(alone: httpx.Client, body: str | bytes) -> None:
    refused = alone.post("/prompt", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 422
    assert "nothing changed" not in refused.text


def test_only_writes_say_that_nothing_changed(alone: httpx.Client, run: str) -> None:
    for path in ("/runs?limit=0", "/runs?colour=red", "/runs/none", "/runs/none/events", f"/runs/{run}/at?seq=99"):
        refused = alone.get(path)
        assert refused.status_code >= 400
        assert "nothing changed" not in refused.text
    assert "nothing changed" in alone.post("/runs", json={"objectve": "x"}).text


@pytest.fixture
def spoilt(tmp_path: Path) -> Iterator[httpx.Client]:
    """A server whose file was taken away while it runs, in a folder with a space in its name."""
    folder = tmp_path / "my secret folder"
    folder.mkdir()
    with served(str(folder / "agent.db")) as started, client(started.url) as http:
        assert http.post("/runs", json={"objective": "x"}).status_code == 200
        (folder / "agent.db").rename(folder / "gone.db")
        yield http


def test_no_folder_of_the_server_is_told(spoilt: httpx.Client) -> None:
    refused = spoilt.post("/runs", json={"objective": "x"})
    assert (refused.status_code, refused.json()["code"]) == (500, "damaged")
    assert "agent.db was deleted" in refused.text
    assert "my secret folder" not in refused.text


def test_folders_are_those_of_the_settings(tmp_path: Path) -> None:
    known = folders(Settings(url=f"sqlite:///{tmp_path / 'a.db'}", snapshots=str(tmp_path / "s")))
    assert {str(tmp_path), str(tmp_path / "s")} <= set(known)
    assert Tidy(known)(f"{tmp_path}/s/x.zip and {tmp_path}/a.db; nothing changed", reads=True) == "x.zip and a.db"
    assert Tidy(folders(Settings(url="postgresql://db/x")))("postgresql://db/x", reads=False) == "postgresql://db/x"
