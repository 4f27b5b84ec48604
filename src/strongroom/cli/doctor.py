"""`strongroom doctor` and `strongroom version`: what is installed, what the store promises, what could be better."""

from __future__ import annotations

import importlib.util
import os
import platform
from typing import Any

import apsw
import msgspec
from msgspec import Struct

import strongroom
from strongroom.backends.sqlite.encryption import header_of, kind_of
from strongroom.bridge import Inline, run
from strongroom.cli.output import as_json, facts, hide_secrets, holds, say, show, wants_json
from strongroom.cli.root import address, cli, file_of, is_server, is_there, opened, searching, space
from strongroom.client.retry import Request
from strongroom.errors import StrongroomError
from strongroom.files import is_read_only
from strongroom.meaning import meaning as wanted
from strongroom.scope import Scope
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.values import SearchHealth
from strongroom.store import OUR_SECONDS, Store, in_words

# Extra, the modules that show that all of it is there, and what it brings. Some come with other packages too.
EXTRAS = (
    ("tokens", ("splintr",), "exact token counts"),
    ("server", ("starlette", "uvicorn", "httpx", "swagger_ui"), "strongroom serve"),
    ("postgres", ("psycopg", "psycopg_pool", "pgvector"), "postgresql:// stores"),
    ("redis", ("redis",), "redis:// stores"),
    ("qdrant", ("qdrant_client",), "memories in Qdrant"),
    ("ann", ("usearch",), "vector search beyond 50,000 memories"),
    ("client", ("httpx",), "http:// addresses"),
    ("signing", ("cryptography",), "signed and encrypted resume packs"),
    ("config", ("yaml",), "strongroom.yaml"),
)


@cli.command()
def version() -> None:
    """Print versions of Strongroom and what it stands on."""
    known = {
        "strongroom": strongroom.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }
    show(known, ["", ""], list(known.items()))


@cli.command()
def doctor() -> None:
    """Tell what is here, what it promises, and what could be better."""
    url = address()
    exists = is_there(url)
    with opened(url if exists else "memory://") as store:
        known, advice = diagnose(store, url if exists else None)
        told, more = meaning(store, url)
        known, advice = known | told, [*advice, *more]
    if wants_json():
        as_json({"facts": known, "advice": advice})
        return
    facts(known)
    for line in advice:
        say("[yellow]hint[/]  {}", line)
    if not advice:
        say("[green]nothing to improve[/]")


def diagnose(store: Store, url: str | None) -> tuple[dict[str, str], list[str]]:
    """Return facts, and advice for whatever falls short."""
    known = {
        "strongroom": strongroom.__version__,
        "python": f"{platform.python_version()} on {platform.system()}",
        "sqlite": apsw.sqlite_lib_version(),
        "store": hide_secrets(url) if url else "none yet",
        "durability": f"{store.durability.name}: may lose {store.durability.may_lose}",
        "repeats": repeats(store),
    }
    advice = []
    if url is None:
        advice.append("no store here yet: the first `strongroom.open('agent.db')` creates it; --url looks elsewhere")
        known.pop("durability")
        known.pop("repeats")
    elif not store.durability.survives_power_cut:
        advice.append(f"a power cut may lose {store.durability.may_lose}")
    if hasattr(store, "stats") and url is not None:
        stats = store.stats()
        known["holds"] = holds(stats)
        known["repeats"] += f"; {stats.receipts:,} receipts are kept now"
        sizes = (size(stats.file_bytes), size(stats.log_bytes), size(stats.free_bytes))
        known["size"] = "{}, and {} in the log; {} of it free".format(*sizes)
        if stats.free_bytes > max(stats.file_bytes // 3, 1 << 20):
            advice.append("a third of the file is free space: `strongroom compact` gives it back")
        if stats.pending is not None:
            advice.append(f"{stats.pending}: `strongroom compact` tries to finish it")
        if stats.log_bytes > 256 << 20:
            advice.append("the log is large: does some process keep a read open?")
    file = None if url is None else file_of(url)
    if file is not None:
        encrypted = kind_of(header_of(file)) == "encrypted"
        known["encryption"] = "ChaCha20-Poly1305, every page" if encrypted else "none: `strongroom encrypt` adds it"
    if file is not None and is_read_only(file):
        known["access"] = "read-only: looking works, writing does not"
    if file is not None:
        folder = os.statvfs(file.resolve().parent)
        free = folder.f_bavail * folder.f_frsize
        known["disk"] = f"{size(free)} free"
        if free < 1 << 30:
            advice.append("less than 1 GB free on this disk: commits fail cleanly when it is full")
    for extra, modules, brings in EXTRAS:
        there = all(importlib.util.find_spec(module) is not None for module in modules)
        known[f"extra {extra}"] = f"installed: {brings}" if there else f"pip install 'strongroom[{extra}]' for {brings}"
    return known, advice


def meaning(store: Store, url: str) -> tuple[dict[str, str], list[str]]:
    """Return what memories are searched by meaning with, and advice for what of it does not work now.

    A server is asked how it is with it; otherwise what the environment or `strongroom.yaml` names is tried.
    """
    named_here = searching()
    qdrant = named_here.get("qdrant_url") or os.environ.get("QDRANT_URL")
    try:
        if is_server(url):
            found = _of_server(store)
        elif named_here:
            made, scope = wanted(**named_here), Scope(Inline(store), space())
            found = run(AsyncMemories(scope, embedder=made.embedder, index=made.index).health())
        else:
            found = SearchHealth()
    except StrongroomError as problem:
        return {"embedder": named_here.get("embedder", "")}, [f"memories cannot be searched by meaning: {problem}"]
    told = {} if qdrant is None or is_server(url) else {"qdrant": hide_secrets(qdrant)}
    if found.embedder is None:
        unused = ["QDRANT_URL is set and STRONGROOM_EMBEDDER is not: memories are searched by words"] if told else []
        return told, unused
    told |= {"embedder": found.embedder, "index": str(found.index)}
    if found.waiting and (is_server(url) or found.index != "local"):  # here, a local one is not even begun
        told["index"] += f"; {found.waiting:,} changes of memories wait for the next search"
    failing = (("embedder", found.embedder_failing), ("index", found.index_failing))
    return told, [
        f"the {part} fails since {each.since:%Y-%m-%d %H:%M:%S} UTC, so words alone decide: {each.error}"
        for part, each in failing
        if each is not None
    ]


def _of_server(store: Any) -> SearchHealth:
    page = msgspec.json.decode(store.send(Request("/durability", method="GET")), type=_Page)
    return page.meaning or SearchHealth()


class _Page(Struct, frozen=True):
    meaning: SearchHealth | None = None


def repeats(store: Store) -> str:
    """Return how long a repeat is safe."""
    kept = getattr(store, "kept_seconds", None)
    if kept is None:
        return "ids that callers chose are remembered as long as whoever writes there was told to"
    return f"ids that callers chose are remembered for {in_words(kept)}, ours for {in_words(OUR_SECONDS)}"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} GB"
