"""A request sent again under the same Idempotency-Key does nothing more; something else under it is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from docs.recording import STEP, STORY, TOLD, USUAL, prepare, resolved

from strongroom.backends.memory import MemoryStore
from strongroom.bridge import OnLoop
from strongroom.errors import CommitUnknown
from strongroom.server.app import use_store
from strongroom.server.routes import ENDPOINTS
from strongroom.store import Commit, Receipt, new_id
from tests.server.conftest import client
from tests.server.serving import served
from tests.server.test_roles import name

# Not of the story: a key is shown once, upkeep goes on beside the requests (`test_keys`, `test_upkeep`), prompts read,
# and what a browser keeps is no write (`test_cookies`).
ONCE = {
    "POST /keys", "POST /upkeep/check", "POST /upkeep/backup", "POST /prompt", "POST /sign-in", "POST /sign-out",
}  # fmt: skip
WRITING = {name(each) for each in ENDPOINTS if each.method != "GET" and each.group != "store"} - ONCE
PORT = {name(endpoint) for endpoint in ENDPOINTS if endpoint.method != "GET" and endpoint.group == "store"}
# What the story does not tell: every switch of a body is thrown once, and a key is revoked. Last, because after the
# first key nobody comes in without one.
WHOLE = {"session_id": "whole"}
MORE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("POST /sessions/{session_id}/messages", {"path": WHOLE, "body": {"messages": [{"role": "user", "content": "a"}]}}),
    ("POST /sessions/{session_id}/erase", {"path": WHOLE, "body": {"all": True}}),
    ("PUT /files", {"body": {"path": "/all/a.md", "text": "a"}}),
    ("POST /files/delete", {"body": {"path": "/all", "recursive": True}}),
    ("POST /memories", {"body": {"content": "likes tea", "user_id": "u2", "memory_id": "tea-2"}}),
    ("POST /memories/erase", {"body": {"memory_id": "tea-2", "derived": True}}),
    ("POST /keys", {"body": {"role": "admin"}}),
    ("POST /keys", {"body": {"role": "reader"}}),
    ("DELETE /keys/{name}", {"path": {"name": "$name"}}),
)
UPLOAD = "POST /runs/restore"  # a file and no JSON: not part of the story

# Something else to ask of the same target, wherever a body can say it.
OTHERWISE: dict[str, dict[str, Any]] = {
    "POST /runs": {"objective": "Something else"},
    "PATCH /runs/{run_id}": {"patch": {"status": "DONE"}},
    "POST /runs/{run_id}/events": {"payload": {"tool_name": "other", "arguments": {}}},
    "POST /runs/{run_id}/milestone": {"reason": "another one"},
    "POST /runs/{run_id}/fork": {"seq": 0},
    "POST /runs/{run_id}/rollback": {"seq": 1},
    "POST /runs/{run_id}/erase": {"reason": "another one"},
    "POST /runs/boot": {"objective": "Something else"},
    "POST /runs/{run_id}/step/update": {"patch": {**STEP, "set": {"next_action": "something else"}}},
    "POST /runs/{run_id}/memory/propose": {"mcrs": [{**TOLD, "content": "something else"}]},
    "POST /runs/resume/load": {"pack_path": "$pack_path"},
    "POST /runs/{run_id}/resume/snapshot": {"pointers": {"ticket": "T-1"}},
    "POST /memories/propose": {"requests": [{**TOLD, "content": "something else"}]},
    "POST /memories/batches/{batch_id}/commit": {"reviewer": "bob"},
    "POST /memories/batches/{batch_id}/reject": {"reason": "another one"},
    "POST /memories/revoke": {"reason": "another one"},
    "POST /memories": {"content": "something else"},
    "PATCH /memories/{memory_id}": {"content": "something else"},
    "POST /memories/{memory_id}/delete": {"reason": "another one"},
    "POST /memories/erase": {"reason": "another one"},
    "POST /people/erase": {"reason": "another one"},
    "POST /sessions": {"title": "Something else"},
    "POST /sessions/{session_id}/messages": {"messages": [{"role": "user", "content": "Something else"}]},
    "PUT /sessions/{session_id}/messages": {"messages": [{"role": "user", "content": "Something else"}]},
    "POST /sessions/{session_id}/truncate": {"message_id": "m2"},
    "POST /sessions/{session_id}/erase": {"message_ids": ["m2"]},
    "POST /threads/{thread_id}/slots": {"payload": {"text": "something else"}},
    "POST /threads/{thread_id}/erase": {"stop": 2},
    "PUT /files": {"text": "something else"},
    "POST /files/restore": {"version": 2},
    "POST /files/rename": {"to": "/elsewhere.md"},
    "POST /files/delete": {"recursive": True},
}
# The body says nothing but the target, or nothing that changes what is done.
NOTHING_ELSE = {
    "POST /runs/{run_id}/memory/commit",
    "POST /runs/{run_id}/snapshot",
    "POST /memories/sweep",
    "POST /sessions/{session_id}/restore",
    "DELETE /sessions/{session_id}",
    "DELETE /threads/{thread_id}",
    "DELETE /keys/{name}",
    "POST /files/erase",
    "POST /threads/dead/{letter_id}/retry",
}


@pytest.fixture
def http(tmp_path: Path) -> Iterator[httpx.Client]:
    with served(str(tmp_path / "agent.db"), snapshots=str(tmp_path / "s")) as server, client(server.url) as made:
        server.do(prepare(server.app.state.store))
        yield made


class Asked(NamedTuple):
    """A request of the story."""

    name: str
    path: str
    content: dict[str, Any]
    key: dict[str, str]
    known: dict[str, Any]

    def send(self, http: httpx.Client, **changed: Any) -> httpx.Response:
        content = self.content if not changed else {"json": {**self.content["json"], **changed}}
        return http.request(self.name.split()[0], self.path, headers=self.key, **content)


def played(http: httpx.Client) -> Iterator[Asked]:
    """Play the recorded story, and tell of each request that writes before it is sent, under a key of its own."""
    known: dict[str, Any] = {}
    for place, (asked, given) in enumerate((*STORY, *MORE)):
        method, path = asked.split()
        whole = path.format(**resolved({**USUAL, **given.get("path", {})}, known))
        content = {"json": resolved(given["body"], known)} if "body" in given else {}
        key = {"Idempotency-Key": f"once: {place}"} if asked in WRITING else {}
        if asked in WRITING:
            yield Asked(asked, whole, content, key, known)
        answer = http.request(method, whole, params=given.get("query"), headers=key, **content)
        assert answer.status_code == 200, answer.text
        known |= answer.json() if isinstance(answer.json(), dict) else {}
        if asked == "POST /keys":
            http.headers.setdefault("Authorization", f"Bearer {known['key']}")
            known |= known["info"]


def test_every_switch_of_a_body_is_thrown_in_a_request_that_is_repeated() -> None:
    switches = {
        (name(each), field.encode_name)
        for each in ENDPOINTS
        if name(each) in WRITING and each.body is not None
        for field in msgspec.structs.fields(each.body)
        if field.type is bool
    }
    thrown = {
        (asked, field) for asked, given in (*STORY, *MORE) for field, to in given.get("body", {}).items() if to is True
    }
    assert switches == thrown


@pytest.mark.parametrize(
    "asked",
    sorted(
        name(each)
        for each in ENDPOINTS
        if each.method != "GET" and each.body is None and each.accepts == "application/json"
    ),
)
def test_what_a_body_says_where_none_is_read_is_refused_and_not_ignored(http: httpx.Client, asked: str) -> None:
    method, path = asked.split()
    answer = http.request(method, path.replace("{", "").replace("}", ""), json={"actor": "x"})
    assert (answer.status_code, answer.json()["details"]) == (422, {"path": "body"})


def test_every_request_that_writes_is_answered_as_before_under_its_key(http: httpx.Client) -> None:
    different, seen = [], set()
    for asked in played(http):
        first, second = asked.send(http), asked.send(http)
        seen.add(asked.name)
        if (first.status_code, first.content) != (second.status_code, second.content):
            different.append((asked.name, first.text, second.text))
    assert different == []
    assert seen == WRITING - {UPLOAD}


def test_every_request_that_asks_for_something_else_under_a_key_is_refused(http: httpx.Client) -> None:
    wrong, seen = [], set()
    for asked in played(http):
        if asked.name in OTHERWISE and asked.name not in seen:
            seen.add(asked.name)
            first = asked.send(http)
            answer = asked.send(http, **resolved(OTHERWISE[asked.name], asked.known))
            if (answer.status_code, answer.json().get("details")) != (422, {"path": "Idempotency-Key"}):
                wrong.append((asked.name, answer.status_code, answer.text))
            assert asked.send(http).content == first.content
    assert wrong == []
    assert seen == OTHERWISE.keys() == WRITING - NOTHING_ELSE - {UPLOAD}


def test_a_pack_is_restored_once_under_its_key(http: httpx.Client) -> None:
    for run in "ab":
        http.post("/runs", json={"objective": run, "run_id": run})
    one, other = (http.get(f"/runs/{run}/pack").content for run in "ab")

    def upload(pack: bytes, run_id: str = "new") -> httpx.Response:
        headers = {"Idempotency-Key": "k", "Content-Type": "application/zip"}
        return http.post("/runs/restore", params={"run_id": run_id}, content=pack, headers=headers)

    assert upload(one).status_code == 200
    assert upload(one).content == upload(one).content
    assert upload(other).json()["details"] == {"path": "Idempotency-Key"}
    assert upload(other, "newer").json()["ws"]["objective"] == "b"


@pytest.mark.parametrize("asked", sorted(PORT))
def test_the_port_takes_no_key_because_its_commits_have_ids(http: httpx.Client, asked: str) -> None:
    method, path = asked.split()
    answer = http.request(method, path, headers={"Idempotency-Key": "k"}, content=b"")
    assert (answer.status_code, "an id of its own" in answer.json()["error"]) == (422, True)


def test_two_callers_may_choose_the_same_key(tmp_path: Path) -> None:
    with served(str(tmp_path / "agent.db")) as server:
        for _ in range(2):
            with client(server.url, server.key(role="writer")) as http:
                slot = {"payload": 1, "from_id": "a"}
                for _ in range(2):
                    http.post("/threads/t/slots", json=slot, headers={"Idempotency-Key": "k"})
        with client(server.url, server.key(role="reader")) as http:
            assert http.get("/threads/t/slots").json()["length"] == 2


@pytest.mark.parametrize("payload", [1, 2])
def test_an_id_of_somebody_whose_key_was_revoked_is_in_nobodys_way(tmp_path: Path, payload: int) -> None:
    """Whether the next one asks for the same thing or another, it is done, and answered for itself."""
    once = {"Idempotency-Key": "k"}
    with served(str(tmp_path / "agent.db")) as server:
        gone = server.key(role="writer")
        with client(server.url, gone) as http:
            first = http.post("/threads/t/slots", json={"payload": 1, "from_id": "a"}, headers=once).json()
        with client(server.url, server.key()) as admin:
            admin.delete(f"/keys/{gone.removeprefix('srk_').partition('.')[0]}")
        with client(server.url, gone) as http:
            assert http.post("/threads/t/slots", json={"payload": 1, "from_id": "a"}, headers=once).status_code == 401
        with client(server.url, server.key(role="writer")) as http:
            asked = {"payload": payload, "from_id": "b"}
            answers = [http.post("/threads/t/slots", json=asked, headers=once).json() for _ in range(2)]
            assert (first["index"], [answer["index"] for answer in answers]) == (0, [1, 1])
            assert http.get("/threads/t/slots").json()["length"] == 2


class Losing(OnLoop):
    """A store that makes a commit and then does not know whether it did."""

    lost = 0

    async def commit(self, commit: Commit) -> Receipt:
        made = await super().commit(commit)
        if self.lost:
            self.lost -= 1
            raise CommitUnknown("the line is dead", reason="io", commit_id=commit.id)
        return made


@pytest.mark.parametrize("key", ["mine", None])
def test_an_unknown_outcome_names_what_to_repeat_with(key: str | None) -> None:
    store = Losing(MemoryStore())
    with served() as server, client(server.url) as http:
        use_store(server.app, store)

        def record(key: str | None) -> httpx.Response:
            headers = {} if key is None else {"Idempotency-Key": key}
            payload = {"tool_name": "t", "arguments": {}}
            return http.post("/runs/r/events", json={"type": "TOOL_CALL", "payload": payload}, headers=headers)

        http.post("/runs", json={"objective": "o", "run_id": "r"})
        store.lost = 1
        unknown = record(key)
        assert (unknown.status_code, unknown.json()["code"]) == (503, "commit_unknown")
        named = unknown.json()["details"]["commit_id"]
        assert key is None or named == key
        assert record(named).json()["sequence_id"] == record(named).json()["sequence_id"]
        assert len(http.get("/runs/r/events").json()["events"]) == 2


def test_a_repeat_is_answered_as_the_first_whatever_happened_since(http: httpx.Client) -> None:
    def ask(path: str, body: dict[str, Any], *, method: str = "POST") -> bytes:
        return http.request(method, path, json=body, headers={"Idempotency-Key": f"{method} {path}"}).content

    asked: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("/runs", {"objective": "o", "run_id": "r"}, "POST"),
        ("/runs/r", {"patch": {"status": "BUSY"}, "expected_seq": 0}, "PATCH"),
        ("/runs/r/fork", {}, "POST"),
        ("/runs/r/milestone", {"reason": "first"}, "POST"),
        ("/runs/r/rollback", {"seq": 0, "expected_seq": 1}, "POST"),
        ("/runs/r/events", {"type": "TOOL_CALL", "payload": {"tool_name": "t", "arguments": {}}}, "POST"),
        ("/threads/t/slots", {"payload": 1, "from_id": "a"}, "POST"),
        ("/sessions/s/messages", {"messages": [{"role": "user", "content": "Hello"}]}, "POST"),
    )
    first = [ask(path, body, method=method) for path, body, method in asked]
    http.patch("/runs/r", json={"patch": {"status": "DONE"}, "expected_seq": 2})
    http.post("/threads/t/slots", json={"payload": 2, "from_id": "a"})
    http.post("/runs/r/milestone", json={"reason": "second"})
    assert [ask(path, body, method=method) for path, body, method in asked] == first


def test_one_session_is_opened_however_often_it_is_asked_for(http: httpx.Client) -> None:
    ids = {http.post("/sessions", json={}, headers={"Idempotency-Key": "k"}).json()["id"] for _ in range(2)}
    assert len(ids) == len(http.get("/sessions").json()["sessions"]) == 1


def test_a_key_for_one_thing_says_nothing_about_another(http: httpx.Client) -> None:
    keyed = {"Idempotency-Key": "k"}
    runs = [http.post("/runs", json={"objective": "o", "run_id": each}).json()["run_id"] for each in "ab"]
    made = [http.post(f"/runs/{run}/milestone", json={"reason": run}, headers=keyed).json() for run in runs]
    assert [each["episode"]["reason"] for each in made] == runs
    patch = {"patch": {"status": "BUSY"}, "expected_seq": 0}
    done = [http.patch(f"/runs/{run}", json=patch, headers=keyed).json() for run in runs]
    assert [each["ws"]["run_id"] for each in done] == runs


def test_messages_take_an_id_of_the_form_that_an_unknown_outcome_names(http: httpx.Client) -> None:
    key = {"Idempotency-Key": f"~{new_id()}"}
    for _ in range(2):
        answer = http.post(
            "/sessions/fresh/messages", json={"messages": [{"role": "user", "content": "a"}]}, headers=key
        )
        assert answer.status_code == 200, answer.text
    assert len(http.get("/sessions/fresh/messages").json()["messages"]) == 1


def test_a_patch_that_sets_nothing_is_answered_as_before_whatever_changed_since(http: httpx.Client) -> None:
    http.post("/runs", json={"objective": "o", "run_id": "r"})

    def step() -> httpx.Response:
        patch = {"_schema_version": "2.1", "expected_seq": 0, "set": {}}
        return http.post("/runs/r/step/update", json={"patch": patch}, headers={"Idempotency-Key": "k"})

    first = step()
    http.patch("/runs/r", json={"patch": {"status": "BUSY"}, "expected_seq": 1})
    assert (first.json()["ws"]["_update_seq"], step().json()["ws"]) == (1, first.json()["ws"])


def test_one_key_keeps_a_snapshot_of_each_run(http: httpx.Client) -> None:
    for run in "ab":
        http.post("/runs", json={"objective": run, "run_id": run, "task_id": "t"})
    keyed = {"Idempotency-Key": "k"}
    kept = [http.post(f"/runs/{run}/snapshot", headers=keyed).json()["pack_path"] for run in "ab"]
    loaded = [http.post("/runs/resume/load", json={"pack_path": one, "new_run_id": f"new-{one}"}) for one in kept]
    assert [each.json()["ws"]["objective"] for each in loaded] == ["a", "b"]


def test_a_repeated_snapshot_is_one_file(http: httpx.Client) -> None:
    http.post("/runs", json={"objective": "o", "run_id": "r"})
    kept = {http.post("/runs/r/snapshot", headers={"Idempotency-Key": "k"}).json()["pack_path"] for _ in range(2)}
    assert len(kept) == 1


def test_a_snapshot_is_kept_of_a_task_with_a_name_of_many_bytes(http: httpx.Client) -> None:
    http.post("/runs", json={"objective": "o", "run_id": "r", "task_id": "\u6f22" * 80})
    kept = http.post("/runs/r/snapshot").json()["pack_path"]
    assert http.post("/runs/resume/load", json={"pack_path": kept, "new_run_id": "n"}).status_code == 200
