"""The client of chat endpoints, against a server that speaks both protocols: well, badly and with bad intentions."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strongroom import models
from strongroom.errors import InvalidInput, Unavailable
from strongroom.models import ChatModel
from tests.model_server import KEY, Alarms, ModelServer, completion, send, serving

MESSAGES = [{"role": "system", "content": "Answer in JSON."}, {"role": "user", "content": "What is tea?"}]
Make = Callable[..., ChatModel]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving() as running:
        yield running


@pytest.fixture(params=["openai", "anthropic"])
def make(request: pytest.FixtureRequest, server: ModelServer) -> Make:
    maker = models.openai if request.param == "openai" else models.anthropic

    def made(**options: Any) -> ChatModel:
        return maker("small-1", **{"url": server.url, "api_key": KEY, "pause": lambda _: None, **options})

    return made


def test_the_text_of_the_answer_is_returned(make: Make, server: ModelServer) -> None:
    server.text = '{"a": "leaf"}'
    assert make()(MESSAGES) == '{"a": "leaf"}'


def test_an_openai_request_is_what_the_protocol_says(server: ModelServer) -> None:
    models.openai("small-1", url=server.url, api_key=KEY, options={"temperature": 0})(MESSAGES)
    [(path, headers, body)] = server.requests
    assert (path, headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    wanted = {"model": "small-1", "messages": MESSAGES, "response_format": {"type": "json_object"}, "temperature": 0}
    assert body == wanted


def test_an_anthropic_request_is_what_the_protocol_says(server: ModelServer) -> None:
    models.anthropic("small-1", url=server.url, api_key=KEY)(MESSAGES)
    [(path, headers, body)] = server.requests
    assert (path, headers["x-api-key"], headers["anthropic-version"]) == ("/v1/messages", KEY, "2023-06-01")
    assert body == {"model": "small-1", "max_tokens": 4096, "system": "Answer in JSON.", "messages": MESSAGES[1:]}


def test_an_option_of_none_takes_a_field_away(server: ModelServer) -> None:
    models.openai("small-1", url=server.url, options={"response_format": None})(MESSAGES)
    [(_, headers, body)] = server.requests
    assert "response_format" not in body
    assert "authorization" not in headers


def test_what_may_pass_is_tried_again(make: Make, server: ModelServer) -> None:
    paused: list[float] = []
    server.replies += [
        lambda request, _: send(request, 429, {"error": "busy"}, retry_after="2"),
        lambda request, _: send(request, 529, {"error": "overloaded"}),
    ]
    assert make(pause=paused.append)(MESSAGES) == '{"memories": []}'
    assert paused == [2.0, 1.0]


def test_what_will_not_pass_is_told_at_once_without_the_key(make: Make, server: ModelServer) -> None:
    server.replies.append(lambda request, _: send(request, 401, {"error": f"the key {KEY} is wrong"}))
    with pytest.raises(Unavailable, match="HTTP 401") as problem:
        make()(MESSAGES)
    assert KEY not in str(problem.value)
    assert KEY not in repr(make())
    assert len(server.requests) == 1


def test_a_service_that_is_away_is_told(make: Make) -> None:
    with pytest.raises(Unavailable, match="did not answer in 2 attempts"):
        make(url="http://127.0.0.1:9/v1", attempts=2)(MESSAGES)


def test_a_redirect_is_not_followed(make: Make, server: ModelServer) -> None:
    server.replies.append(lambda request, _: send(request, 307, b"", location=f"{server.url}/elsewhere"))
    with pytest.raises(Unavailable, match="HTTP 307"):
        make()(MESSAGES)
    assert len(server.requests) == 1


def test_an_answer_without_end_is_not_read_to_its_end(make: Make, server: ModelServer) -> None:
    def endless(request: Any, _: Any) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(b" " * 65_536)

    server.replies.append(endless)
    with pytest.raises(Unavailable, match="more than"):
        make()(MESSAGES)


def test_an_answer_that_drips_is_given_up_in_time(
    make: Make, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.replies.append(Alarms(monkeypatch).dripping(b"HTTP/1.1 200 OK\r\n\r\n", b" "))
    with pytest.raises(Unavailable, match="in time"):
        make(timeout_seconds=60)(MESSAGES)


def test_headers_that_drip_are_given_up_in_time(
    make: Make, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.replies += [Alarms(monkeypatch).dripping(b"HTTP/1.1 200 OK\r\n", b"x-")] * 2
    with pytest.raises(Unavailable, match="2 attempts: timed out"):
        make(timeout_seconds=60, attempts=2)(MESSAGES)


def test_a_compressed_answer_is_refused(make: Make, server: ModelServer) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    server.replies.append(lambda request, _: send(request, 200, bomb, content_encoding="gzip"))
    with pytest.raises(Unavailable, match="compressed"):
        make()(MESSAGES)


WRONG: list[Any] = [b"", b"not JSON", b"[" * 100_000, [], {}, {"choices": []}, {"choices": [{"message": {}}]},
         {"choices": [{"message": {"content": 7}}]}, {"content": "text"}, {"content": []}, {"content": [{"type": 1}]},
         {"choices": None, "content": None}]  # fmt: skip


@pytest.mark.parametrize("body", WRONG, ids=range(len(WRONG)))
def test_an_answer_of_another_shape_is_unavailable(make: Make, server: ModelServer, body: Any) -> None:
    server.replies.append(lambda request, _: send(request, 200, body))
    with pytest.raises(Unavailable):
        make()(MESSAGES)


def test_an_answer_that_was_cut_off_is_not_taken_for_whole(make: Make, server: ModelServer) -> None:
    def cut(request: Any, _: Any) -> None:
        raw = json.dumps(completion(request.path, '{"memories": []'))
        send(request, 200, raw.replace('"stop"', '"length"').replace("end_turn", "max_tokens").encode())

    server.replies.append(cut)
    with pytest.raises(Unavailable, match="cut off"):
        make()(MESSAGES)


@pytest.mark.parametrize("wrong", [{"url": "ftp://host"}, {"url": f"https://me:{KEY}@host/v1"}, {"timeout_seconds": 0}])
def test_wrong_settings_are_refused_and_show_no_secret(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as problem:
        models.openai("small-1", **wrong)
    assert KEY not in str(problem.value)


async def test_a_model_that_raises_what_no_future_carries_is_not_waited_for() -> None:
    with pytest.raises(Unavailable, match="raised StopIteration"):
        await models.ask(lambda messages: next(iter(())), MESSAGES, threads=True)


def test_models_have_names(server: ModelServer) -> None:
    ours = models.named(f"{server.url}#small-1", KEY)
    theirs = models.named(f"anthropic+{server.url}#small-2")
    assert isinstance(ours, ChatModel)
    assert isinstance(theirs, ChatModel)
    assert (ours.protocol, ours.name, theirs.protocol, theirs.name) == ("openai", "small-1", "anthropic", "small-2")
    assert models.named("builtins:len") is len


@pytest.mark.parametrize("name", ["", "gpt", "https://host/v1", "no.such.module:thing", "builtins:nothing", "sys:path"])
def test_what_names_no_model_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="model"):
        models.named(name)


def test_a_key_of_one_company_is_not_sent_to_another_address(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    models.openai("small-1", url=server.url)(MESSAGES)
    assert KEY not in str(server.requests)
