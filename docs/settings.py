"""What can be set, as tables for the reference: options of opening and connecting, variables of the environment.

Which stores have an option, and with which default, is read from the stores themselves; `tests/test_site.py` holds the
tables to the signatures and to the sources.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from strongroom.backends.memory import MemoryStore
from strongroom.backends.postgres import PostgresStore
from strongroom.backends.redis import RedisStore
from strongroom.backends.sqlite import open_file
from strongroom.meaning import OPTIONS

STORES: dict[str, Callable[..., Any]] = {
    "a file": open_file,
    "`memory://`": MemoryStore,
    "`postgresql://`": PostgresStore,
    "`redis://`": RedisStore,
}
OPENING = {
    "address": "a path, `sqlite:///path`, `memory://`, `postgresql://...`, `redis://...` or `rediss://...`",
    "space": "the tenant: nothing of another space can be seen or changed",
    "read_only": "write nothing, and need no right to; of a file that is there, and without the options of writers",
    "durability": "`durable`: fsync before every acknowledgement; `relaxed`: a power cut may lose the newest commits",
    "key": "encrypts the file: a passphrase, 32 bytes, or a function that fetches one of them",
    "repeats": "how long a commit id of yours is remembered: a `timedelta`, `12h`, `90d` or `forever`",
    "timeout_seconds": "how long to wait for a lock or a server",
    "max_record_bytes": "the most that one record may have; more is refused",
    "max_connections": "how many connections to the server a process has at most",
    "prefix": "what every key on the server begins with, so that several stores can share one",
    "require_durable": "refuse a server that may lose acknowledged commits",
    "wait_aof": "each commit waits until the server's log is on its disk",
    "embedder": "what is searched by meaning with: a function, an `Embedder`, or a name as for `STRONGROOM_EMBEDDER`",
    "embedder_key": "the key of an embedding service",
    "qdrant_url": "an index by meaning that processes share; without one, each holds its own",
    "qdrant_collection": "its collection",
}
CONNECTING = {
    "url": "where `strongroom serve` listens: `http://...` or `https://...`",
    "key": "who you are and which space you see: from `strongroom keys create`, or a token of your identity provider",
    "retry_seconds": "how long to keep trying when the server cannot be reached or is busy; 15 unless you say, but "
    "five only until a server has answered once",
    "ca_file": "the certificates (PEM) of an authority of your own; without it `SSL_CERT_FILE` names them, and without "
    "that the public ones are believed",
}
VARIABLES = {
    "STRONGROOM_URL": "where the data is: a path, `postgresql://`, `redis://`, or the address of a server",
    "STRONGROOM_SPACE": "the tenant; of a server, the space of callers without a key",
    "STRONGROOM_CONFIG": "the file to read instead of `strongroom.yaml`",
    "STRONGROOM_REPEATS": "how long ids that callers chose are remembered: `12h`, `90d`, `forever`; 30 days without it",
    "STRONGROOM_API_KEY": "the key of a server, for the command line and `strongroom mcp`",
    "STRONGROOM_ACTOR": "who ledgers and reviews name, instead of the login name",
    "STRONGROOM_DEBUG": "`1`: the command line shows tracebacks",
    "STRONGROOM_DEMO_FAST": "`1`: the demo does not pause",
    "STRONGROOM_BACKEND_MAX_THREADS": "as every key of `strongroom.yaml`: `STRONGROOM_`, its section, its name",
    "STRONGROOM_KEY": "the key of an encrypted file",
    "STRONGROOM_KEY_FILE": "a file that holds it",
    "STRONGROOM_KEY_COMMAND": "a command that prints it",
    "STRONGROOM_NEW_KEY": "the new key of `rekey`, `encrypt`, `backup --new-key`; `_FILE` and `_COMMAND` as above",
    "STRONGROOM_NEW_KEY_FILE": "see above",
    "STRONGROOM_NEW_KEY_COMMAND": "see above",
    "STRONGROOM_PACK_KEY": "the key of an encrypted pack; `_FILE` and `_COMMAND` as above",
    "STRONGROOM_ALLOWED_ORIGINS": "web pages that may call the server, separated by commas; none without it",
    "STRONGROOM_BACKUPS": "the folder for backups that the server makes (`backups`)",
    "STRONGROOM_SNAPSHOTS": "the folder for packs that the server keeps (`snapshots`)",
    "STRONGROOM_EMBEDDER": "what servers, commands and `config.load()` search by meaning with; see the server's page",
    "STRONGROOM_EMBEDDER_KEY": "the key of an embedding service",
    "STRONGROOM_MODEL": "the model that `strongroom learn` asks",
    "STRONGROOM_MODEL_KEY": "the key of its service",
    "STRONGROOM_JWT_ISSUER": "who issues tokens (OIDC)",
    "STRONGROOM_JWT_AUDIENCE": "for whom they are issued",
    "STRONGROOM_JWT_KEYS_URL": "where the issuer's keys are",
    "STRONGROOM_MAX_ANSWER_BYTES": "of stored content in one answer of the server (8 MiB)",
    "STRONGROOM_MAX_BODIES_BYTES": "of all bodies at once, in each worker (256 MiB)",
    "STRONGROOM_MAX_BODY_BYTES": "of one body (8 MiB)",
    "STRONGROOM_MAX_PACK_BYTES": "of one pack (256 MiB)",
    "STRONGROOM_MAX_SESSIONS": "open sessions of assistants of the older family, of a key (64)",
    "STRONGROOM_MAX_STREAMS": "followers at the same time, of a key (256)",
    "STRONGROOM_REQUESTS_PER_SECOND": "of a key (500)",
    "STRONGROOM_MCP_SESSIONS": "`0`: no sessions for assistants of the older family",
    "STRONGROOM_NO_KEYS": "`1`: serve this machine without a key again, once all keys are revoked",
    "QDRANT_URL": "an index by meaning that all workers share; with STRONGROOM_EMBEDDER",
    "QDRANT_COLLECTION": "its collection",
    "AOS_RUNS_ROOT": "for those who come from AoS Context: the folder of `strongroom.db`",
    "AOS_TEST_MODE": "for those who come from AoS Context",
}


def opening() -> str:
    """Return the table of the options of `open` and `aopen`: what each is for, and its default in each store."""
    rows = "\n".join(f"| `{name}` | {meaning} | {'; '.join(_stores(name))} |" for name, meaning in OPENING.items())
    return f"| option | meaning | which stores have it, and its default there |\n|---|---|---|\n{rows}\n"


def connecting(function: Callable[..., Any]) -> str:
    """Return the table of the options of `connect` and `aconnect`."""
    given = inspect.signature(function).parameters
    rows = "\n".join(f"| `{name}` | {meaning} | {_default(given[name])} |" for name, meaning in CONNECTING.items())
    return f"| option | meaning | default |\n|---|---|---|\n{rows}\n"


def _stores(name: str) -> Iterator[str]:
    """Yield where an option can be given, with its default. What is equal everywhere is said once."""
    if name in ("address", "space"):
        yield "all: needed" if name == "address" else "all: `'default'`"
        return
    if name in OPTIONS:
        yield "all: `None`"
        return
    having = {
        store: _default(given)
        for store, make in STORES.items()
        if (given := inspect.signature(make).parameters.get(name)) is not None
    }
    if len(set(having.values())) == 1:
        yield f"{'all' if len(having) == len(STORES) else ', '.join(having)}: {next(iter(having.values()))}"
    else:
        yield from (f"{store}: {default}" for store, default in having.items())


def _default(given: inspect.Parameter) -> str:
    value = given.default
    if value is given.empty:
        return "needed"
    if isinstance(value, timedelta):
        return f"{value.days} days"
    return f"{value:,}" if type(value) is int else f"`{value!r}`"
