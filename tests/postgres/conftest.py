"""What the Postgres tests share: a store, blocking and async, that blocking tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strongroom.backends.postgres import AsyncPostgresStore, PostgresStore
from strongroom.store import AsyncStore
from strongroom.testing import Driven
from tests.conftest import MODES
from tests.servers.postgres import fresh_schema


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[str]:
    """The address of a store that does not exist yet: these tests also create, change and drop tables."""
    with fresh_schema(postgres_url) as address:
        yield address


@pytest.fixture(params=MODES)
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Open stores, blocking and async; they are closed in the end."""
    opened: list[Any] = []

    def make(url: str, **options: Any) -> Any:
        async def open_async() -> AsyncStore:
            return await AsyncPostgresStore.open(url, **options)

        opened.append(PostgresStore(url, **options) if request.param == "blocking" else Driven(open_async))
        return opened[-1]

    yield make
    for store in opened:
        store.close()
