"""What the tests of vector indexes share."""

from __future__ import annotations

import os

import psycopg
import pytest

from tests.servers.postgres import ROLE


@pytest.fixture(scope="session")
def vector_url(postgres_url: str, request: pytest.FixtureRequest) -> str:
    """The address of a database with the `vector` extension, which only an administrator may add."""
    if "STRONGROOM_TEST_POSTGRES" not in os.environ:
        server = request.getfixturevalue("postgres_server")
        with psycopg.connect(server.superuser(ROLE), autocommit=True) as con:
            con.execute("CREATE EXTENSION IF NOT EXISTS vector")
    return postgres_url
