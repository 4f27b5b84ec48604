"""`strongroom import mem0` from stores that mem0 itself filled: Qdrant's local files, and Postgres with pgvector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import strongroom
from strongroom.adapters.mem0 import Memory
from strongroom.adapters.mem0.importing import import_memories
from tests.adapters.mem0.own import own_memory
from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.filterwarnings("ignore")  # those of mem0's own making

OWNERS: list[dict[str, str]] = [{"user_id": "ana"}, {"agent_id": "a7"}, {"user_id": "ana", "run_id": "r1"}]


def source(kind: str, folder: Path, request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    """Return how mem0 is told of a vector store, and what we call it."""
    if kind == "qdrant":
        return {"path": str(folder / "qdrant"), "on_disk": True}, str(folder / "qdrant")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.new_database()
    with psycopg.connect(server.superuser(url.rpartition("/")[2]), autocommit=True) as con:
        con.execute("CREATE EXTENSION vector")
    return {"connection_string": url}, url


@pytest.fixture(params=["qdrant", "pgvector"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, list[Any]]]:
    """A store that mem0 filled, and what mem0 finds in it."""
    config, url = source(request.param, tmp_path, request)
    theirs = own_memory(request.param, config, tmp_path / "history.db")
    for number, owner in enumerate(OWNERS):
        said = {"role": "user", "content": f"Likes tea ü {number}", "name": "ana"}
        theirs.add(
            [said, {"role": "assistant", "content": f"Noted {number}"}], infer=False, metadata={"n": number}, **owner
        )
    first, second = theirs.get_all(filters={"user_id": "ana"})["results"][:2]
    theirs.update(first["id"], "Likes coffee")
    theirs.delete(second["id"])
    found = [one for owner in OWNERS[:2] for one in theirs.get_all(filters=owner)["results"]]
    if request.param == "qdrant":
        theirs.vector_store.client.close()
    else:
        theirs.vector_store.connection_pool.close()
    yield url, found
    theirs.close()


def told(one: dict[str, Any]) -> dict[str, Any]:
    names = ("id", "memory", "hash", "metadata", "created_at", "user_id", "agent_id", "run_id", "role", "actor_id")
    return {name: one.get(name) for name in names}


def test_what_mem0_knew_is_known_under_its_ids(filled: tuple[str, list[Any]], address: str) -> None:
    url, theirs = filled
    with strongroom.open(address) as ctx:
        came = import_memories(url, ctx)
        assert (came.memories, came.skipped, came.pending, came.refused) == (5, 0, 0, [])
        ours = Memory(ctx)
        kept = [one for owner in OWNERS[:2] for one in ours.get_all(filters=owner)["results"]]
        assert sorted(map(told, kept), key=str) == sorted(map(told, theirs), key=str)
        again = import_memories(url, ctx)
        assert (again.memories, again.skipped, again.refused) == (5, 5, [])
