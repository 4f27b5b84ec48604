"""What is erased is gone from indexes outside of the store, too: points in Qdrant, rows and their bytes in Postgres."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from qdrant_client import QdrantClient

import strongroom
from strongroom.embedders import Embedder, unit
from strongroom.vectors.pgvector import PgvectorMemories
from strongroom.vectors.qdrant import QdrantMemories
from tests.missing import not_here
from tests.servers.postgres import PostgresServer

SECRET = [0.123456, 0.654321, 0.271828, 0.314159]
CANARY = unit(np.asarray([SECRET], np.float32))[0].astype("<f4").tobytes()


def embed(texts: Any) -> list[list[float]]:
    return [SECRET if "secret" in text else [1.0, 2.0, 3.0, 4.0] for text in texts]


def filled(memories: Any) -> list[str]:
    made = [memories.add(f"my secret {n}", user_id="u1").id for n in range(3)]
    memories.add("tea", user_id="u2")
    memories.index()
    return made


def test_no_point_is_left_in_qdrant_but_those_of_others() -> None:
    client = QdrantClient(":memory:")
    with strongroom.open("memory://") as ctx:
        index = QdrantMemories(client=client)
        memories = ctx.memories.using(embedder=Embedder(embed, name="toy"), index=index)
        mine = filled(memories)
        before = points(client, index)
        assert all(id in before for id in mine) and "0.1235" in before
        assert memories.erase(user_id="u1").complete
        left = points(client, index)
        assert not any(id in left for id in mine)
        assert "0.1235" not in left


def points(client: QdrantClient, index: QdrantMemories) -> str:
    """Return all that Qdrant holds, as text, its vectors at their full length."""
    found, _ = client.scroll(index.collection, with_payload=True, with_vectors=True, limit=100)
    vectors: list[Any] = [point.vector for point in found]
    length = float(np.linalg.norm(SECRET))
    return str([point.payload for point in found]) + str(
        [[f"{value * length:.4f}" for value in row] for row in vectors]
    )


def test_no_byte_of_a_vector_is_left_in_the_tables_of_postgres_after_a_vacuum(postgres_server: PostgresServer) -> None:
    address = postgres_server.new_database()
    database = address.rpartition("/")[2]
    with psycopg.connect(postgres_server.superuser(database), autocommit=True) as con:
        if con.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone() is None:
            not_here("pgvector", "this Postgres does not have the extension vector")
        con.execute("CREATE EXTENSION vector")
    with strongroom.open("memory://") as ctx:
        index = PgvectorMemories(address)
        memories = ctx.memories.using(embedder=Embedder(embed, name="toy"), index=index)
        mine = filled(memories)
        vacuum(postgres_server, database)
        assert bytes_in(postgres_server.data, CANARY) >= 3 and bytes_in(postgres_server.data, mine[0].encode()) > 0
        assert memories.erase(user_id="u1").complete
        vacuum(postgres_server, database)
        assert bytes_in(postgres_server.data, CANARY) == 0
        assert not any(bytes_in(postgres_server.data, id.encode()) for id in mine)
        index.close()


def vacuum(server: PostgresServer, database: str) -> None:
    with psycopg.connect(server.superuser(database), autocommit=True) as con:
        con.execute("VACUUM FULL")
        con.execute("CHECKPOINT")


def bytes_in(folder: Path, wanted: bytes) -> int:
    return sum(file.read_bytes().count(wanted) for file in (folder / "base").rglob("*") if file.is_file())
