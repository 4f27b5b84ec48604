"""The client: `connect("http://...")` gives the same `Context` as `open("agent.db")`, over a server.

Reading goes over the port: questions are sent and answered, and everything above it (runs, sessions, memories, threads,
the registry) is the very same code. Writing is asked for: an operation travels as its name and its arguments, and the
server makes it with the same service, under the key's own name and rights. Callbacks run here, errors are the same
exceptions, and what lost its connection is repeated under its id, which changes nothing if it had arrived.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

from strongroom.arguments import checked
from strongroom.blocking import Context
from strongroom.bridge import Inline
from strongroom.context import AsyncContext, Opening
from strongroom.scope import Scope

__all__ = ["aconnect", "connect"]


@checked
def connect(
    url: str,
    *,
    key: str | None = None,
    retry_seconds: float | None = None,
    ca_file: str | os.PathLike[str] | None = None,
) -> Context:
    """Connect to a server for blocking code. `key` says who you are and which space you see.

    `retry_seconds` is how long to keep trying when the server cannot be reached or is busy: 15 unless you say, but only
    five where nothing has answered yet, and not at all where TLS is refused. `ca_file` holds the certificates (PEM) of
    an authority of your own; without it SSL_CERT_FILE names one, and without that the public ones are believed.
    """
    store = _stores().HttpStore(url, key=key, retry_seconds=retry_seconds, ca_file=ca_file)
    return Context(AsyncContext(Scope(Inline(store), store.space)))


@checked
def aconnect(
    url: str,
    *,
    key: str | None = None,
    retry_seconds: float | None = None,
    ca_file: str | os.PathLike[str] | None = None,
) -> Opening:
    """Connect to the same server for async code: await this, or enter it with `async with`.

    The options are those of `connect`.
    """
    stores = _stores()

    async def opened() -> AsyncContext:
        store = await stores.AsyncHttpStore.open(url, key=key, retry_seconds=retry_seconds, ca_file=ca_file)
        return AsyncContext(Scope(store, store.space))

    return Opening(opened(), "strongroom.aconnect")


def _stores() -> ModuleType:
    """Return the stores, which need an extra that somebody who only asks for help may not have."""
    return import_module("strongroom.client.store")
