"""A server that searches by meaning: an embedder behind HTTP, Qdrant's own engine, and either of them away."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from strongroom.embedders.named import named
from strongroom.errors import InvalidInput, StrongroomError, Unavailable
from strongroom.server.meaning import meaning_of
from strongroom.server.settings import Settings, from_environment
from tests.hashed import hashed
from tests.server.serving import served

SYNONYMS = {"automobile": "car"}


class Service:
    """An OpenAI-compatible service of embeddings that can be switched off."""

    def __init__(self) -> None:
        self.up, self.keys = True, list[str | None]()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                service.keys.append(self.headers.get("Authorization"))
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                texts = [" ".join(SYNONYMS.get(word, word) for word in text.split()) for text in body["input"]]
                rows = [{"index": n, "embedding": list(map(float, row))} for n, row in enumerate(hashed(texts))]
                raw = json.dumps({"data": rows}).encode() if service.up else b"{}"
                self.send_response(200 if service.up else 400)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"http://127.0.0.1:{self.server.server_port}/v1#tiny"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize("qdrant", ["", ":memory:"])
def test_meaning_is_found_over_http_and_an_outage_loses_no_write(service: Service, qdrant: str) -> None:
    with served(embedder=service.name, embedder_key="secret", qdrant_url=qdrant) as server:
        http = httpx.Client(base_url=server.url, timeout=60)
        told = http.get("/ready").json()
        assert told["embedder"].startswith("http:tiny") or "tiny" in told["embedder"]
        assert told["index"] == ("qdrant" if qdrant else "local")
        added = http.post("/memories", json={"content": "car"})
        assert added.status_code == 200, added.text
        found = http.get("/memories/search", params={"q": "automobile", "mode": "vector"}).json()
        assert [hit["memory"]["content"] for hit in found["hits"]] == ["car"]
        assert set(service.keys) == {"Bearer secret"}
        service.up = False
        assert http.post("/memories", json={"content": "bicycle"}).json()["status"] == "active"
        both = http.get("/memories/search", params={"q": "bicycle"}).json()
        assert [hit["memory"]["content"] for hit in both["hits"]] == ["bicycle"] and "no vectors" in both["degraded"]
        assert http.get("/memories/search", params={"q": "bicycle", "mode": "vector"}).status_code == 503
        service.up = True
        again = http.get("/memories/search", params={"q": "bicycle", "mode": "vector"}).json()
        assert again["hits"][0]["memory"]["content"] == "bicycle" and again["degraded"] is None
        http.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"embedder": "nonsense"}, {"embedder": "no_such_module:thing"}, {"embedder": "json:no_such_thing"},
        {"embedder": "http://127.0.0.1:9/v1"}, {"qdrant_url": "http://127.0.0.1:9"},
        {"embedder": "tests.hashed:hashed", "qdrant_url": "http://127.0.0.1:9"}, {"embedder": "fastembed:none"},
    ],
)  # fmt: skip
def test_a_server_does_not_start_on_what_it_cannot_use(settings: dict[str, str]) -> None:
    with pytest.raises(StrongroomError):
        asyncio.run(meaning_of(Settings(**settings)))  # type: ignore[arg-type]


def test_an_embedder_is_named_by_module_and_object() -> None:
    assert named("tests.hashed:hashed").name == "tests.hashed:hashed"
    with pytest.raises(InvalidInput, match="wordllama, fastembed:MODEL"):
        named("x")


def test_what_is_in_the_environment_is_used() -> None:
    given = {"STRONGROOM_EMBEDDER": "wordllama", "QDRANT_URL": "http://q:6333", "QDRANT_COLLECTION": "c"}
    found = from_environment(given)
    assert (found.embedder, found.qdrant_url, found.qdrant_collection) == ("wordllama", "http://q:6333", "c")
    assert from_environment({"QDRANT_URL": "http://q:6333"}).qdrant_url == ""


def test_without_an_embedder_there_is_nothing_to_tell() -> None:
    with served() as server:
        assert httpx.get(f"{server.url}/ready").json() == {"status": "ready"}


@pytest.mark.parametrize("qdrant", ["", ":memory:"])
def test_an_embedder_that_is_away_is_told_since_when_and_how_much_waits(service: Service, qdrant: str) -> None:
    with served(embedder=service.name, qdrant_url=qdrant) as server, httpx.Client(base_url=server.url) as http:
        assert "embedder_failing_since" not in http.get("/ready").json()
        service.up = False
        for content in ("car", "bicycle"):
            assert http.post("/memories", json={"content": content}).json()["status"] == "active"
        http.get("/memories/search", params={"q": "car"})
        told = http.get("/durability").json()["meaning"]
        assert told["waiting"] >= 2 and told["embedder_failing"]["error"] and told.get("index_failing") is None
        first = http.get("/ready").json()
        assert (first["status"], first["embedder_failing_since"][:10]) == (
            "ready",
            told["embedder_failing"]["since"][:10],
        )
        http.get("/memories/search", params={"q": "car"})
        assert http.get("/ready").json() == first  # since the first failure, not the last
        service.up = True
        http.get("/memories/search", params={"q": "car", "mode": "vector"})
        assert "embedder_failing_since" not in http.get("/ready").json()
        told = http.get("/durability").json()["meaning"]
        assert (told["waiting"], told.get("embedder_failing")) == (0, None)


def test_a_prompt_over_http_says_that_the_embedder_is_down(service: Service) -> None:
    with served(embedder=service.name) as server, httpx.Client(base_url=server.url) as http:
        http.post("/memories", json={"content": "car"})
        asked = {"query": "car", "max_tokens": 400}
        assert http.post("/prompt", json=asked).json()["receipt"]["degraded"] is None
        service.up = False
        assert "no vectors" in http.post("/prompt", json=asked).json()["receipt"]["degraded"]


def test_an_index_that_is_away_is_told_and_loses_no_write(service: Service) -> None:
    with served(embedder=service.name, qdrant_url=":memory:") as server, httpx.Client(base_url=server.url) as http:
        index = server.app.state.meaning.index
        http.post("/memories", json={"content": "car"})
        http.get("/memories/search", params={"q": "car"})
        there, index.watched = index.watched, Away()
        assert http.post("/memories", json={"content": "bicycle"}).json()["status"] == "active"
        told = http.get("/durability").json()
        assert (
            told["name"] and told["meaning"]["waiting"] >= 1 and "no route" in told["meaning"]["index_failing"]["error"]
        )
        assert "index_failing_since" in http.get("/ready").json()
        found = http.get("/memories/search", params={"q": "bicycle"}).json()
        assert [hit["memory"]["content"] for hit in found["hits"]] == ["bicycle"] and found["degraded"]
        index.watched = there
        found = http.get("/memories/search", params={"q": "bicycle", "mode": "vector"}).json()
        assert found["hits"][0]["memory"]["content"] == "bicycle"
        assert http.get("/durability").json()["meaning"]["waiting"] == 0
        assert "index_failing_since" not in http.get("/ready").json()


class Away:
    """An index that nobody reaches."""

    kind = "qdrant"

    def __getattr__(self, name: str) -> Any:
        def away(*_: Any) -> Any:
            raise Unavailable("no route to it", reason="unreachable")

        return away


def test_a_server_without_an_embedder_says_so_to_whoever_asks_for_hybrid() -> None:
    with served() as server:
        headers = {"Authorization": f"Bearer {server.key()}"}

        def degraded(**more: str) -> Any:
            answer = httpx.get(f"{server.url}/memories/search", params={"q": "tea", **more}, headers=headers)
            return answer.json()["degraded"]

        assert (degraded(), degraded(mode="lexical")) == (None, None)
        assert degraded(mode="hybrid").startswith("no vectors, words alone decided: there is no embedder")
