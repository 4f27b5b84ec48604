"""Generated calls with a key of every role: no answer holds anything of another space, none is over its bound.

Two spaces hold the same things under the same names; what the other one says carries a canary. `make fuzz` makes more
calls.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from strongroom.protocol import wire
from strongroom.server.openapi import describe
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from strongroom.store import Find, Get, Key, Range, ReceiptOf, Scan, Tail
from tests.server import packed
from tests.server.conftest import ROLES, client
from tests.server.samples import MCR, request
from tests.server.serving import Served, served
from tests.server.test_roles import name

packed.register()
FLOOR_SECONDS = 0.001  # below that it is not a request's work that is measured
CANARY = "zq9canary7"
MOST = 200_000
SLACK = 100_000  # what stands around what is stored: names, times, hashes
CALLS = int(os.environ.get("STRONGROOM_CALLS", "250"))
CALLED = [each for each in ENDPOINTS if each.media != "text/event-stream" and each.right is not None]
KINDS = ("run", "ledger", "episode", "message", "session", "thread", "thread_info", "memory", "memory_batch", "key")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("walls")
    with served(str(folder / "agent.db"), snapshots=str(folder / "s"), max_answer_bytes=MOST) as started:
        for space, word in (("ours", "plain"), ("theirs", CANARY)):
            with client(started.url, started.key(space)) as http:
                _fill(http, word)
        started.app.middleware_stack = Worked(started.app.middleware_stack)
        yield started


class Worked:
    """Notes how long each request kept the server's event loop at work. Processor time, not the clock: whatever else
    this machine does, it is the same."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._thread = 0
        self._collecting = 0.0  # garbage, of which the tests make most
        self.seconds: list[tuple[float, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._thread = threading.get_ident()
        gc.callbacks.append(self._collect)
        start, self._collecting = time.thread_time(), 0.0
        await self._app(scope, receive, send)
        gc.callbacks.remove(self._collect)
        spent = time.thread_time() - start - self._collecting
        self.seconds.append((spent, f"{scope['method']} {scope['path']}"))

    def _collect(self, phase: str, _: Any) -> None:
        if threading.get_ident() == self._thread:
            self._collecting += time.thread_time() * (1 if phase == "stop" else -1)


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(describe(ENDPOINTS))


@pytest.fixture(scope="module")
def callers(server: Served) -> Iterator[dict[str, httpx.Client]]:
    made = {role: client(server.url, server.key("ours", role)) for role in ROLES}
    yield made
    for one in made.values():
        one.close()


def _fill(http: httpx.Client, word: str) -> None:
    text = f"{word} " + "x" * 20_000
    http.post("/runs", json={"objective": word, "run_id": "known"})
    for _ in range(20):
        told = {"tool_name": "t", "ok": True, "result": text}
        http.post("/runs/known/events", json={"type": "TOOL_RESULT", "payload": told})
        http.post("/sessions/known/messages", json={"messages": [{"role": "user", "content": text}]})
        http.post("/threads/known/slots", json={"payload": text, "from_id": word})
    request = {**MCR, "memory_id": "known", "content": f"the colour of {word} is green"}
    http.post("/memories/propose", json={"requests": [request], "batch_id": "known"})
    http.post("/memories/batches/known/commit", json={"reviewer": "ana"})
    http.post("/runs/known/snapshot", headers={"Idempotency-Key": "known"})


def _check(answer: Any, endpoint: Endpoint) -> None:
    assert answer.status_code < 500, answer.text
    assert CANARY.encode() not in answer.content
    assert len(answer.content) < MOST + SLACK or endpoint.media == "application/zip"


@pytest.mark.parametrize("endpoint", CALLED, ids=name)
def test_no_role_gets_past_its_walls(endpoint: Endpoint, schema: Any, callers: dict[str, httpx.Client]) -> None:
    operation = schema[endpoint.path][endpoint.method]

    @settings(
        max_examples=ceil(CALLS / len(CALLED)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE), known=st.booleans())
    def call(case: Any, known: bool) -> None:
        if known:
            case.path_parameters = dict.fromkeys(case.path_parameters or {}, "known")
        for role in ROLES:
            key = callers[role].headers["Authorization"]
            answer = case.call(base_url=str(callers[role].base_url), headers={"Authorization": key}, timeout=60)
            _check(answer, endpoint)

    call()


SPACES = st.sampled_from(["ours", "ours", "ours", "theirs", "strongroom:keys"])
NAMES = st.builds(Key, SPACES, st.sampled_from(KINDS), st.sampled_from(["known", "main"]))
SMALL = st.none() | st.integers(0, 30) | st.just(2**50)
ASKED = st.lists(
    st.builds(Get, NAMES)
    | st.builds(Range, NAMES, st.integers(0, 30), SMALL, SMALL)
    | st.builds(Tail, NAMES, SMALL, SMALL, SMALL)
    | st.builds(Scan, SPACES, st.sampled_from(KINDS), limit=st.integers(0, 2**40), reverse=st.booleans())
    | st.builds(ReceiptOf, SPACES, st.sampled_from(["known", "http:x:known"])),
    max_size=30,
)
SOUGHT = st.builds(Find, SPACES, st.sampled_from(KINDS), st.just(("plain", "green")), st.none() | st.just("known"))
READ, SEARCH = (next(each for each in ENDPOINTS if each.path == path) for path in ("/store/read", "/store/search"))


@settings(max_examples=ceil(CALLS / 5), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(asked=ASKED, sought=SOUGHT, role=st.sampled_from(ROLES))
def test_the_port_has_the_same_walls(
    callers: dict[str, httpx.Client], asked: list[Any], sought: Find, role: str
) -> None:
    media = {"Content-Type": wire.MEDIA}
    for endpoint, content in ((READ, wire.dump_questions(asked)), (SEARCH, wire.dump(sought))):
        _check(callers[role].post(endpoint.path, content=content, headers=media), endpoint)


def test_no_request_takes_a_hundred_times_the_work_of_the_median(
    server: Served, callers: dict[str, httpx.Client]
) -> None:
    """All that were made above, and each endpoint about things that are there, with every role's key."""
    worked = server.app.middleware_stack
    assert isinstance(worked, Worked)
    ids = dict.fromkeys(("run_id", "session_id", "thread_id", "memory_id", "batch_id"), "known")
    for endpoint in CALLED:
        for http in callers.values():
            request(http, endpoint, ids=ids, space="ours")
    usual = max(median(seconds for seconds, _ in worked.seconds), FLOOR_SECONDS)
    assert len(worked.seconds) >= len(CALLED) * len(ROLES)
    assert [each for each in worked.seconds if each[0] > 100 * usual] == []


def test_the_canary_is_there_to_be_found(server: Served) -> None:
    with client(server.url, server.key("theirs")) as http:
        for path in ("/runs", "/sessions/known/messages", "/threads/known/slots", "/memories/known"):
            assert CANARY in http.get(path).text


KEYS = [(space, role) for space in ("ours", "theirs") for role in ROLES]
OTHERS = {"ours": CANARY.encode(), "theirs": b"of plain is"}


def test_generated_calls_with_every_key_at_once_stay_within_their_walls(server: Served, schema: Any) -> None:
    """Eight calls at a time, to any endpoints, one with each role's key of each space."""
    keys = [{"Authorization": f"Bearer {server.key(space, role)}"} for space, role in KEYS]

    @settings(max_examples=ceil(CALLS / 125), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data())
    def call(data: st.DataObject) -> None:
        endpoints = [data.draw(st.sampled_from(CALLED)) for _ in KEYS]
        cases = [data.draw(schema[each.path][each.method].as_strategy()) for each in endpoints]
        for case in cases:
            if data.draw(st.booleans()):
                case.path_parameters = dict.fromkeys(case.path_parameters or {}, "known")

        def ask(number: int) -> Any:
            return cases[number].call(base_url=server.url, headers=keys[number], timeout=60)

        for (space, role), endpoint, answer in zip(KEYS, endpoints, at_once.map(ask, range(len(KEYS))), strict=True):
            assert answer.status_code < 500, (role, name(endpoint), answer.text)
            assert OTHERS[space] not in answer.content, (role, name(endpoint))
            assert len(answer.content) < MOST + SLACK or endpoint.media == "application/zip"

    with ThreadPoolExecutor(len(KEYS)) as at_once:
        call()


def test_all_roles_of_two_spaces_at_once_stay_within_their_walls(server: Served) -> None:
    """Every endpoint about things that are there, with eight keys at the same time: what one is told is its own.

    The last one here: they erase and delete, too.
    """
    ids = dict.fromkeys(("run_id", "session_id", "thread_id", "memory_id", "batch_id"), "known")
    wrong: list[str] = []

    def work(space: str, role: str) -> None:
        with client(server.url, server.key(space, role)) as http:
            for endpoint in CALLED:
                status, content = request(http, endpoint, ids=ids, space=space)
                if status >= 500 or OTHERS[space] in content:
                    wrong.append(f"{space} {role} {name(endpoint)}: {status}")

    for _ in range(ceil(CALLS / 2500)):
        threads = [threading.Thread(target=work, args=key) for key in KEYS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
