"""`strongroom doctor`: what is installed, what the store promises, and what could be better."""

from __future__ import annotations

import importlib.util
import os
import platform

import strongroom
from strongroom.cli.root import file_of
from strongroom.store import OUR_SECONDS, Store, in_words

# Extra, the module that shows it is there, and what it brings.
EXTRAS = (
    ("tokens", "splintr", "exact token counts"),
    ("server", "starlette", "strongroom serve"),
    ("postgres", "psycopg", "postgresql:// stores"),
    ("redis", "redis", "redis:// stores"),
    ("qdrant", "qdrant_client", "memories in Qdrant"),
    ("ann", "usearch", "vector search beyond 50,000 memories"),
    ("client", "httpx", "http:// addresses"),
    ("signing", "cryptography", "signed and encrypted resume packs"),
    ("config", "yaml", "strongroom.yaml"),
)


def diagnose(store: Store, address: str | None) -> tuple[dict[str, str], list[str]]:
    """Return facts, and advice for whatever falls short."""
    import apsw

    from strongroom.backends.sqlite import is_read_only
    from strongroom.backends.sqlite.encryption import header_of, kind_of

    facts = {
        "strongroom": strongroom.__version__,
        "python": f"{platform.python_version()} on {platform.system()}",
        "sqlite": apsw.sqlite_lib_version(),
        "store": hide_secrets(address) if address else "none yet",
        "durability": f"{store.durability.name}: may lose {store.durability.may_lose}",
        "repeats": repeats(store),
    }
    advice = []
    if address is None:
        advice.append("no store here yet: the first `strongroom.open('agent.db')` creates it; --url looks elsewhere")
        facts.pop("durability")
        facts.pop("repeats")
    elif not store.durability.survives_power_cut:
        advice.append(f"a power cut may lose {store.durability.may_lose}")
    if hasattr(store, "stats") and address is not None:
        stats = store.stats()
        facts["holds"] = f"{stats.documents:,} documents, {stats.records:,} records in {stats.streams:,} streams"
        facts["repeats"] += f"; {stats.receipts:,} receipts are kept now"
        sizes = (size(stats.file_bytes), size(stats.log_bytes), size(stats.free_bytes))
        facts["size"] = "{}, and {} in the log; {} of it free".format(*sizes)
        if stats.free_bytes > max(stats.file_bytes // 3, 1 << 20):
            advice.append("a third of the file is free space: `strongroom compact` gives it back")
        if stats.pending is not None:
            advice.append(f"{stats.pending}: `strongroom compact` tries to finish it")
        if stats.log_bytes > 256 << 20:
            advice.append("the log is large: does some process keep a read open?")
    file = None if address is None else file_of(address)
    if file is not None:
        encrypted = kind_of(header_of(file)) == "encrypted"
        facts["encryption"] = "ChaCha20-Poly1305, every page" if encrypted else "none: `strongroom encrypt` adds it"
    if file is not None and is_read_only(file):
        facts["access"] = "read-only: looking works, writing does not"
    if file is not None:
        folder = os.statvfs(file.resolve().parent)
        free = folder.f_bavail * folder.f_frsize
        facts["disk"] = f"{size(free)} free"
        if free < 1 << 30:
            advice.append("less than 1 GB free on this disk: commits fail cleanly when it is full")
    if os.environ.get("QDRANT_URL"):
        facts["qdrant"] = hide_secrets(os.environ["QDRANT_URL"])
    for extra, module, brings in EXTRAS:
        there = importlib.util.find_spec(module) is not None
        facts[f"extra {extra}"] = f"installed: {brings}" if there else f"pip install 'strongroom[{extra}]' for {brings}"
    return facts, advice


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


def hide_secrets(address: str) -> str:
    """Return an address without its password."""
    scheme, mark, rest = address.partition("://")
    if not mark or "@" not in rest:
        return address
    return f"{scheme}://***@{rest.rpartition('@')[2]}"
