"""Embedders: any function will do, what comes back is checked, and a service may stumble."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from strongroom.bridge import run
from strongroom.embedders import Embedder, Fingerprint
from strongroom.embedders.fastembed import fastembed
from strongroom.embedders.http import http
from strongroom.embedders.sentence_transformers import sentence_transformers
from strongroom.errors import InvalidInput, Unavailable
from tests.hashed import hashed
from tests.model_server import Alarms, serving


def plain(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


async def waiting(texts: list[str]) -> list[list[float]]:
    return plain(texts)


class Object:
    async def __call__(self, texts: list[str]) -> list[list[float]]:
        return plain(texts)


@pytest.mark.parametrize(
    "function",
    [
        plain,
        waiting,
        Object(),
        lambda texts: waiting(texts),
        lambda texts: np.array(plain(texts)),
        lambda texts: (row for row in plain(texts)),
        lambda texts: tuple(map(tuple, plain(texts))),
    ],
)
async def test_any_function_from_texts_to_vectors_is_an_embedder(function: Any) -> None:
    matrix = await Embedder(function, name="f").embed(["abc", "de"], threads=True)
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("function", [waiting, Object(), lambda texts: waiting(texts)])
def test_an_async_function_is_refused_by_the_blocking_api(function: Any) -> None:
    with pytest.raises(InvalidInput, match="is async"):
        run(Embedder(function, name="f").embed(["abc"], threads=False))


@pytest.mark.parametrize(
    "answer",
    [
        [[1.0, 2.0]],
        [[1.0, 2.0], [1.0]],
        [[1.0, float("nan")], [1.0, 2.0]],
        [[1.0, float("inf")], [1.0, 2.0]],
        [[], []],
        [1.0, 2.0],
        [["a", "b"], ["c", "d"]],
        None,
        [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]],
        [[10**400, 1], [1, 1]],
        [[1e300, 1.0], [1.0, 1.0]],
    ],
)
def test_vectors_that_cannot_be_right_are_a_failure_of_the_embedder(answer: Any) -> None:
    with pytest.raises(Unavailable):
        run(Embedder(lambda texts: answer, name="f", dimension=2).embed(["a", "b"], threads=False))


def test_the_dimension_is_found_out_once_and_then_demanded() -> None:
    answers: Iterator[Any] = iter([[[1.0, 2.0]], [[1.0, 2.0, 3.0]]])
    embedder = Embedder(lambda texts: next(answers), name="f")
    assert run(embedder.fingerprint(threads=False)) == Fingerprint("f", "", 2)
    with pytest.raises(Unavailable, match="2 dimensions but returned 3"):
        run(embedder.embed(["a"], threads=False))


def test_texts_go_in_batches_and_come_back_in_order() -> None:
    sizes: list[int] = []

    def counted(texts: list[str]) -> Any:
        sizes.append(len(texts))
        return plain(texts)

    texts = ["x" * n for n in range(1, 11)]
    matrix = run(Embedder(counted, name="f", batch_size=4).embed(texts, threads=False))
    assert sizes == [4, 4, 2]
    np.testing.assert_allclose(matrix[:, 0] / matrix[:, 1], range(1, 11), rtol=1e-5)


def test_a_function_that_fails_is_reported_as_unavailable() -> None:
    def broken(texts: list[str]) -> Any:
        raise RuntimeError("no model")

    with pytest.raises(Unavailable, match="no model"):
        run(Embedder(broken, name="f").embed(["a"], threads=False))


@pytest.mark.parametrize("threads", [True, False])
async def test_a_function_that_raises_what_no_future_carries_is_not_waited_for(threads: bool) -> None:
    def empty(texts: list[str]) -> Any:
        return next(iter(()))

    with pytest.raises(Unavailable, match="raised StopIteration"):
        await Embedder(empty, name="f").embed(["a"], threads=threads)


def test_a_vector_of_zeros_stays_one() -> None:
    matrix = run(Embedder(lambda texts: [[0.0, 0.0]], name="f").embed(["a"], threads=False))
    assert matrix.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("what", [lambda texts: plain(texts), 7, None])
def test_an_embedder_needs_a_function_with_a_name(what: Any) -> None:
    with pytest.raises(InvalidInput):
        Embedder(what)


def test_a_named_function_names_its_embedder() -> None:
    assert Embedder(plain).name == "tests.test_embedders.plain"


# ---- over HTTP ------------------------------------------------------------------------------------------------------


class Service:
    """A stand-in for an embedding service: answers with what it was told to, in turn, then with vectors."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.refusals: list[tuple[int, dict[str, str]]] = []
        self.body: bytes | None = None
        self.requests: list[tuple[dict[str, Any], dict[str, str]]] = []


@pytest.fixture
def service() -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.requests.append((asked, dict(self.headers)))
            status, headers = told.refusals.pop(0) if told.refusals else (200, {})
            rows = [{"index": n, "embedding": hashed([text], 8)[0].tolist()} for n, text in enumerate(asked["input"])]
            body = told.body or (json.dumps({"data": rows[::-1]}).encode() if status == 200 else b"not now")
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told = Service(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


def embed(embedder: Embedder, texts: Sequence[str]) -> Any:
    return run(embedder.embed(texts, threads=False))


def test_a_service_is_asked_in_batches_and_its_answers_are_put_in_order(service: Service) -> None:
    embedder = http("small", url=service.url, api_key="secret", batch_size=2)
    matrix = embed(embedder, ["red", "green", "blue"])
    expected = hashed(["red", "green", "blue"], 8)
    np.testing.assert_allclose(matrix, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert [asked["input"] for asked, _ in service.requests] == [["red", "green"], ["blue"]]
    assert service.requests[0][0]["model"] == "small"
    assert service.requests[0][1]["Authorization"] == "Bearer secret"


def test_a_busy_service_is_asked_again_after_the_pause_it_wishes_for(service: Service) -> None:
    pauses: list[float] = []
    service.refusals = [(429, {"Retry-After": "7"}), (503, {}), (500, {})]
    assert embed(http("small", url=service.url, pause=pauses.append), ["red"]).shape == (1, 8)
    assert pauses == [7.0, 1.0, 2.0]


def test_a_service_that_stays_busy_is_given_up(service: Service) -> None:
    service.refusals = [(503, {})] * 3
    with pytest.raises(Unavailable, match="3 attempts"):
        embed(http("small", url=service.url, attempts=3, pause=lambda _: None), ["red"])


def test_a_refusal_that_will_not_pass_is_reported_at_once(service: Service) -> None:
    service.refusals = [(401, {})]
    with pytest.raises(Unavailable, match="HTTP 401") as refused:
        embed(http("small", url=service.url, api_key="secret"), ["red"])
    assert len(service.requests) == 1
    assert "secret" not in str(refused.value)


def test_a_redirect_is_not_followed(service: Service) -> None:
    service.refusals = [(307, {"Location": service.url + "/elsewhere"})]
    with pytest.raises(Unavailable, match="HTTP 307"):
        embed(http("small", url=service.url, api_key="secret"), ["red"])
    assert len(service.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"data": [{"index": 1, "embedding": [1]}]}', b'{"data": 7}'])
def test_an_answer_without_embeddings_is_reported(service: Service, body: bytes) -> None:
    service.body = body
    with pytest.raises(Unavailable, match="no embeddings"):
        embed(http("small", url=service.url), ["red"])


@pytest.mark.parametrize("status", [200, 401])
def test_an_answer_that_drips_is_given_up_in_time(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        server.replies.append(Alarms(monkeypatch).dripping(f"HTTP/1.1 {status} So\r\n\r\n".encode(), b" "))
        with pytest.raises(Unavailable, match="in time"):
            embed(http("small", url=server.url, timeout_seconds=60), ["red"])


def test_headers_that_drip_are_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        server.replies.append(Alarms(monkeypatch).dripping(b"HTTP/1.1 200 OK\r\n", b"x-"))
        with pytest.raises(Unavailable, match="in time"):
            embed(http("small", url=server.url, timeout_seconds=60), ["red"])


def test_a_service_that_says_nothing_in_time_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        server.replies += [Alarms(monkeypatch).dripping()] * 2
        with pytest.raises(Unavailable, match="2 attempts: timed out"):
            embed(http("small", url=server.url, timeout_seconds=60, attempts=2, pause=lambda _: None), ["red"])


def test_a_service_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="2 attempts"):
        embed(http("small", url="http://127.0.0.1:9", attempts=2, pause=lambda _: None), ["red"])


def test_only_web_addresses_are_asked() -> None:
    with pytest.raises(InvalidInput):
        http("small", url="file:///etc")


# ---- models on this machine -----------------------------------------------------------------------------------------


def test_fastembed_is_asked_for_passages_and_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    class TextEmbedding:
        def __init__(self, model: str) -> None:
            assert model == "tiny"

        def passage_embed(self, texts: list[str]) -> Any:
            return (np.array([1.0, 0.0]) for _ in texts)

        def query_embed(self, texts: list[str]) -> Any:
            return (np.array([0.0, 1.0]) for _ in texts)

    monkeypatch.setitem(sys.modules, "fastembed", SimpleNamespace(TextEmbedding=TextEmbedding))
    embedder = fastembed("tiny")
    assert embed(embedder, ["a"]).tolist() == [[1.0, 0.0]]
    assert run(embedder.embed(["a"], threads=False, purpose="query")).tolist() == [[0.0, 1.0]]
    assert embedder.name == "fastembed:tiny"


def test_sentence_transformers_is_asked_for_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    class SentenceTransformer:
        def __init__(self, model: str, *, revision: str | None) -> None:
            assert (model, revision) == ("tiny", "abc")

        def encode(self, texts: list[str], **options: Any) -> Any:
            assert options["convert_to_numpy"]
            return np.ones((len(texts), 4))

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=SentenceTransformer))
    assert embed(sentence_transformers("tiny", revision="abc"), ["a", "b"]).shape == (2, 4)


@pytest.mark.parametrize(
    ("module", "make"), [("fastembed", fastembed), ("sentence_transformers", sentence_transformers)]
)
def test_a_missing_extra_is_named(module: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unavailable, match="pip install"):
        make("tiny")
