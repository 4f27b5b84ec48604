"""What a server is told: where the data is, who may come in, and how much they may ask for."""

from __future__ import annotations

import ipaddress
import os
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from strongroom.errors import InvalidInput

MIB = 1024 * 1024


class Settings(Struct, frozen=True, kw_only=True):
    """Limits are per request unless they say otherwise; each is a refusal with a stable code, never a crash."""

    url: str = "agent.db"
    space: str = "default"  # the space of callers on this machine while there are no keys
    no_keys: bool = False  # whether this machine is served again once all keys are revoked
    max_body_bytes: int = 8 * MIB
    max_bodies_bytes: int = 256 * MIB  # of all requests being answered, in each worker
    max_answer_bytes: int = 8 * MIB  # of stored content; one thing alone may be larger
    max_pack_bytes: int = 256 * MIB  # packed, and unpacked
    requests_per_second: float = 500.0  # per key, averaged over bursts of ten seconds
    max_streams: int = 256  # followers at the same time, per key
    max_sessions: int = 64  # of assistants of the older family, per key
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_keys_url: str = ""
    allowed_origins: tuple[str, ...] = ()  # of web pages that may call this server from a browser
    mcp_sessions: bool = True  # whether older assistants get a session, which only the process that made it knows
    embedder: str = ""  # what meaning is searched with: see `strongroom.embedders.named`
    embedder_key: str = ""
    qdrant_url: str = ""
    qdrant_collection: str = ""
    snapshots: str = "snapshots"  # where POST /runs/{id}/snapshot writes packs
    backups: str = "backups"  # where POST /upkeep/backup writes copies of a SQLite store


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read settings from STRONGROOM_* variables."""
    return Settings(
        url=environment.get("STRONGROOM_URL") or Settings().url,
        snapshots=environment.get("STRONGROOM_SNAPSHOTS") or Settings().snapshots,
        backups=environment.get("STRONGROOM_BACKUPS", Settings().backups),
        space=environment.get("STRONGROOM_SPACE", Settings().space),
        no_keys=environment.get("STRONGROOM_NO_KEYS", "") == "1",
        mcp_sessions=environment.get("STRONGROOM_MCP_SESSIONS", "1") != "0",
        max_body_bytes=_number(environment, "STRONGROOM_MAX_BODY_BYTES", Settings().max_body_bytes),
        max_bodies_bytes=_number(environment, "STRONGROOM_MAX_BODIES_BYTES", Settings().max_bodies_bytes),
        max_answer_bytes=_number(environment, "STRONGROOM_MAX_ANSWER_BYTES", Settings().max_answer_bytes),
        max_pack_bytes=_number(environment, "STRONGROOM_MAX_PACK_BYTES", Settings().max_pack_bytes),
        requests_per_second=_number(environment, "STRONGROOM_REQUESTS_PER_SECOND", int(Settings().requests_per_second)),
        max_streams=_number(environment, "STRONGROOM_MAX_STREAMS", Settings().max_streams),
        max_sessions=_number(environment, "STRONGROOM_MAX_SESSIONS", Settings().max_sessions),
        embedder=environment.get("STRONGROOM_EMBEDDER", ""),
        embedder_key=environment.get("STRONGROOM_EMBEDDER_KEY", ""),
        qdrant_url=environment.get("QDRANT_URL", "") if environment.get("STRONGROOM_EMBEDDER") else "",
        qdrant_collection=environment.get("QDRANT_COLLECTION", ""),
        jwt_issuer=environment.get("STRONGROOM_JWT_ISSUER", ""),
        jwt_audience=environment.get("STRONGROOM_JWT_AUDIENCE", ""),
        jwt_keys_url=environment.get("STRONGROOM_JWT_KEYS_URL", ""),
        allowed_origins=parse_origins(environment.get("STRONGROOM_ALLOWED_ORIGINS", "")),
    )


def parse_origins(text: str) -> tuple[str, ...]:
    """Return the origins of a setting: exact ones, or `*` alone."""
    given = [part.strip() for part in text.split(",") if part.strip()]
    return ("*",) if given == ["*"] else tuple(dict.fromkeys(_origin(part) for part in given))


def _origin(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and text == f"{parts.scheme}://{parts.netloc}"
        if good and "@" not in parts.netloc and "*" not in text and (parts.port is None or parts.port > 0):
            return text.lower()
    except ValueError:
        pass
    raise InvalidInput(
        "STRONGROOM_ALLOWED_ORIGINS must be origins such as https://app.example or http://localhost:3000, separated by "
        f"commas and without a path (or * alone), not {text!r:.80}"
    )


def folders(settings: Settings) -> list[str]:
    """Return where this server keeps things, which is nobody else's business."""
    known = [Path(settings.snapshots), Path(settings.backups), Path(tempfile.gettempdir())]
    scheme, mark, _ = settings.url.partition("://")
    if not mark or scheme in ("sqlite", "file"):
        known.append(file_of(settings.url).parent)
    return [str(path) for each in known for path in (each, each.resolve()) if path.is_absolute()]


def file_of(url: str) -> Path:
    """Return the file of a SQLite store's address."""
    _, mark, rest = url.partition("://")
    return Path(unquote(rest.removeprefix("/")) if mark else url)


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name)
    if text is None:
        return default
    if not text.isdecimal() or int(text) == 0:
        raise InvalidInput(f"{name} must be a whole number above 0, not {text!r:.40}")
    return int(text)


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Tell whether an address can only be reached from this machine."""
    if host == "localhost":
        return True
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
