"""What a client says of a commit that something else than the server answered, or nobody: that it is unknown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import strongroom
from strongroom.client.retry import Request, Retry
from strongroom.client.store import AsyncHttpStore, HttpStore
from strongroom.errors import Closed, CommitUnknown, SchemaMismatch, StrongroomError, Unavailable
from strongroom.protocol import wire
from strongroom.store import Commit, Delete, Durability, Find, Get, Key

PATIENCE_SECONDS = 60  # a limit for what hangs, not for what is slow
UNKNOWN = "; the commit may or may not have happened, which a repeat with the same id tells"
KEY = Key("default", "note", "a")
COMMIT = Commit("mine", (), (Delete(KEY),))
ABOUT = wire.dump(wire.About("default", Durability("durable", True, True, "nothing"), True, "admin"))
Answer = Callable[[httpx.Request], Any]


def asked(patience: float = 15.0, commit_id: str | None = "mine") -> Retry:
    return Retry(Request("/store/perform", b"", commit_id=commit_id), patience, lambda: 0.0)


# ---- deciding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (500, b"Internal Server Error"),
        (500, b'{"code": 500, "message": "a gateway speaks JSON too"}'),
        (501, b""),
        (503, b"upstream connect error or disconnect/reset before headers"),
        (520, b""),
        (524, b"<html>A timeout occurred</html>"),
        (599, b""),
    ],
)
def test_what_something_in_between_answered_may_have_happened(status: int, content: bytes) -> None:
    with pytest.raises(CommitUnknown) as told:
        asked(0.0).answered(status, {}, content)
    assert (told.value.commit_id, told.value.reason) == ("mine", "connection")


@pytest.mark.parametrize("status", [502, 503, 504, 520, 522, 524, 530])
def test_what_did_not_reach_the_server_or_not_in_time_is_tried_again(status: int) -> None:
    assert asked().answered(status, {}, b"<html>") is not None


@pytest.mark.parametrize("status", [500, 501, 505, 511])
def test_what_a_repeat_would_only_get_again_is_told_at_once(status: int) -> None:
    with pytest.raises(CommitUnknown):
        asked().answered(status, {}, b"<html>")


def test_a_bad_gateway_is_told_without_a_word_of_nothing_changed() -> None:
    with pytest.raises(CommitUnknown) as told:
        asked(0.0).answered(502, {}, b"<html>")
    assert str(told.value) == f"something in between answered 502{UNKNOWN}"


def test_a_server_that_stops_at_the_second_try_does_not_vouch_for_the_first() -> None:
    now = 0.0
    life = Retry(Request("/store/perform", b"", commit_id="mine"), 15.0, lambda: now)
    life.lost(OSError(), sent=True)
    now = 20.0
    with pytest.raises(CommitUnknown) as told:
        life.answered(503, {}, b'{"code": "closed", "error": "the server is stopping; nothing changed"}')
    assert str(told.value) == f"the server is stopping{UNKNOWN}"


@pytest.mark.parametrize(
    "status", [301, 302, 307, 400, 401, 403, 404, 405, 408, 409, 410, 413, 418, 422, 451, 460, 499]
)
def test_whoever_turns_a_request_away_may_have_turned_its_answer_away(status: int) -> None:
    with pytest.raises(CommitUnknown) as told:
        asked().answered(status, {}, b"<html>")
    assert str(told.value) == f"this is not a Strongroom server (it answered {status}){UNKNOWN}"


def test_a_proxy_that_asks_for_patience_gets_it() -> None:
    assert asked().answered(429, {}, b"<html>") is not None


@pytest.mark.parametrize("status", [302, 404, 413])
def test_a_read_that_is_turned_away_was_no_servers(status: int) -> None:
    with pytest.raises(SchemaMismatch) as told:
        asked(commit_id=None).answered(status, {}, b"<html>")
    assert str(told.value) == f"this is not a Strongroom server (it answered {status})"


def test_a_read_hears_nothing_about_changes() -> None:
    with pytest.raises(Unavailable) as told:
        asked(0.0, commit_id=None).answered(500, {}, b"Internal Server Error")
    assert str(told.value) == "something in between answered 500"


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"\xff", b'{"code": "conflict", "error": "x", "details": {"key": ["a"]}}']
)
def test_however_strange_an_error_is_it_is_one_of_ours(content: bytes) -> None:
    with pytest.raises(StrongroomError):
        asked(0.0).answered(500, {}, content)


# ---- a client that is answered by somebody else ---------------------------------------------------------------------


def page(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=b"<html>maintenance</html>")


def no_gzip(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"<html>"))


def another(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=wire.dump({"id": 7, "versions": "many"}))


def deep(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=b"\x91" * 100_000)


def empty(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200)


STRANGERS = [page, no_gzip, another, deep, empty]


class Between(httpx.MockTransport):
    """Answers as a server what is asked first, and everything else by a function."""

    def __init__(self, answer: Any) -> None:
        super().__init__(
            lambda asked: httpx.Response(200, content=ABOUT) if asked.url.path == "/store" else answer(asked)
        )


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], None]]:
    """Have whoever connects be answered by a function, but for the first question."""

    def use(answer: Answer) -> None:
        for kind in (httpx.Client, httpx.AsyncClient):
            plain: Any = kind.__init__

            def made(self: Any, *, plain: Any = plain, **given: Any) -> None:
                plain(self, **given, transport=Between(answer))

            monkeypatch.setattr(kind, "__init__", made)

    yield use


@pytest.mark.parametrize("answer", STRANGERS)
def test_a_commit_that_another_program_answered_is_unknown(behind: Callable[[Answer], None], answer: Answer) -> None:
    behind(answer)
    with pytest.raises(CommitUnknown) as told:
        HttpStore("http://there").commit(COMMIT)
    assert told.value.commit_id == "mine" and str(told.value).endswith(UNKNOWN)


@pytest.mark.parametrize("answer", STRANGERS)
async def test_an_async_commit_that_another_program_answered_is_unknown(
    behind: Callable[[Answer], None], answer: Answer
) -> None:
    behind(answer)
    store = await AsyncHttpStore.open("http://there")
    with pytest.raises(CommitUnknown) as told:
        await store.commit(COMMIT)
    assert told.value.commit_id == "mine" and str(told.value).endswith(UNKNOWN)


@pytest.mark.parametrize("answer", STRANGERS)
async def test_an_operation_that_another_program_answered_is_unknown(
    behind: Callable[[Answer], None], answer: Answer
) -> None:
    behind(answer)
    with pytest.raises(CommitUnknown) as told:
        strongroom.connect("http://there").threads.append("t", 1, from_id="a", commit_id="mine")
    assert told.value.commit_id == "mine"
    with pytest.raises(CommitUnknown):
        await (await strongroom.aconnect("http://there")).threads.append("t", 1, from_id="a")


def test_an_operation_that_is_answered_with_no_receipt_is_unknown(behind: Callable[[Answer], None]) -> None:
    behind(lambda _: httpx.Response(200, content=b"\xc0"))
    with pytest.raises(CommitUnknown) as told:
        strongroom.connect("http://there").threads.append("t", 1, from_id="a", commit_id="mine")
    assert told.value.commit_id == "mine"


@pytest.mark.parametrize("answer", STRANGERS)
async def test_a_read_that_another_program_answered_is_a_mismatch(
    behind: Callable[[Answer], None], answer: Answer
) -> None:
    behind(answer)
    store, other = HttpStore("http://there"), await AsyncHttpStore.open("http://there")
    for ask in (
        lambda: store.read([Get(KEY)]),
        lambda: store.search(Find("default", "note", ("word",))),
        lambda: store.wait(KEY, 0, 1.0),
    ):
        with pytest.raises(SchemaMismatch) as told:
            ask()
        assert told.value.reason == "http"
    for wait in (
        lambda: other.read([Get(KEY)]),
        lambda: other.search(Find("default", "note", ("word",))),
        lambda: other.wait(KEY, 0, 1.0),
    ):
        with pytest.raises(SchemaMismatch):
            await wait()


def test_an_address_that_answers_what_cannot_be_read_is_that_of_no_server() -> None:
    told = Retry(Request("/store"), 1.0, server="http://there").garbled(httpx.DecodingError("bad gzip"))
    assert str(told).startswith("http://there is not the address of a Strongroom server")


def test_an_address_that_leads_elsewhere_is_that_of_no_server() -> None:
    with pytest.raises(SchemaMismatch, match=r"http://there is not the address of .*\(it answered 301\)"):
        Retry(Request("/store"), 1.0, server="http://there").answered(301, {"location": "https://there"}, b"")


# ---- a client that is closed ----------------------------------------------------------------------------------------


def test_what_was_closed_before_an_answer_came_is_unknown(behind: Callable[[Answer], None]) -> None:
    lost, closed = threading.Event(), threading.Event()

    def hang_up(_: httpx.Request) -> httpx.Response:
        lost.set()
        assert closed.wait(PATIENCE_SECONDS)
        raise httpx.ReadError("hung up after it was made")

    behind(hang_up)
    ctx = strongroom.connect("http://there")
    told: list[BaseException] = []

    def ask() -> None:
        with pytest.raises(StrongroomError) as raised:
            ctx.threads.append("t", 1, from_id="a", commit_id="mine")
        told.append(raised.value)

    asking = threading.Thread(target=ask)
    asking.start()
    assert lost.wait(PATIENCE_SECONDS)
    ctx.close()
    closed.set()
    asking.join(PATIENCE_SECONDS)
    [unknown] = told
    assert isinstance(unknown, CommitUnknown) and unknown.commit_id == "mine"
    assert str(unknown) == f"this connection was closed before an answer came{UNKNOWN}"


async def test_what_was_closed_before_an_answer_came_is_unknown_to_async_code(
    behind: Callable[[Answer], None],
) -> None:
    lost, closed = asyncio.Event(), asyncio.Event()

    async def hang_up(_: httpx.Request) -> httpx.Response:
        lost.set()
        await closed.wait()
        raise httpx.ReadError("hung up after it was made")

    behind(hang_up)
    store = await AsyncHttpStore.open("http://there")
    asking = asyncio.create_task(store.commit(COMMIT))
    await lost.wait()
    await store.close()
    closed.set()
    with pytest.raises(CommitUnknown):
        await asking


def test_what_was_closed_before_it_was_sent_changed_nothing(behind: Callable[[Answer], None]) -> None:
    behind(page)
    store = HttpStore("http://there")
    store.close()
    with pytest.raises(Closed, match="nothing changed"):
        store.commit(COMMIT)
