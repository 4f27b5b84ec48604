"""What a server's settings mean for what it acknowledges. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from strongroom.backends.redis.failures import Refused
from strongroom.errors import Unavailable
from strongroom.store import Durability

_FAILOVER = "a failover to a replica that was behind loses what it had not received, which is noticed"

DURABLE = Durability("durable", True, True, f"nothing; {_FAILOVER}")
RELAXED = Durability("relaxed", True, False, f"up to about one second of commits on a power cut; {_FAILOVER}")
UNSYNCED = Durability("volatile", True, False, "on a power cut, whatever the operating system had not yet written")
VOLATILE = Durability("volatile", False, False, "everything since the last snapshot, when the server stops")
UNKNOWN = Durability("volatile", False, False, "unknown: the server does not tell its settings, so expect the least")


# What to ask a node. A managed server may forbid CONFIG; INFO still tells about eviction. WAITAOF for nobody and with
# no time to wait tells whether the server has the command.
SETTINGS = (
    ("CONFIG", "GET", "appendonly"),
    ("CONFIG", "GET", "appendfsync"),
    ("CONFIG", "GET", "maxmemory-policy"),
    ("INFO",),
    ("WAITAOF", 0, 0, 1),
)


class Settings(Struct, frozen=True):
    """What a node says about itself. An empty text: it does not tell."""

    appendonly: str = ""
    appendfsync: str = ""
    eviction: str = ""
    clustered: bool = False
    can_wait: bool = False


def parse_settings(replies: Sequence[Any]) -> Settings:
    """Read the replies to `SETTINGS`."""
    appendonly, appendfsync, eviction = (_value(reply) for reply in replies[:3])
    facts = _facts(replies[3])
    return Settings(
        appendonly,
        appendfsync,
        eviction or facts.get("maxmemory_policy", ""),
        facts.get("cluster_enabled") == "1",
        # With appendfsync no the server never syncs of its own accord, so there would be nothing to wait for.
        appendonly == "yes" and appendfsync == "everysec" and not isinstance(replies[4], Refused),
    )


def durability_of(settings: Settings, *, waits: bool) -> Durability:
    """Return the class that a node with these settings deserves. `waits`: every commit waits for its disk."""
    if not settings.appendonly:
        return UNKNOWN
    if settings.appendonly != "yes":
        return VOLATILE
    if settings.appendfsync == "always" or waits:
        return DURABLE
    return RELAXED if settings.appendfsync == "everysec" else UNSYNCED


def weakest(classes: Sequence[Durability]) -> Durability:
    """Return what can be promised over several nodes."""
    return max(classes, key=_RANKS.index)


def check_settings(settings: Settings, durability: Durability, *, require_durable: bool, shown: str) -> None:
    """Raise `Unavailable` if the server would drop data, or promises less than was asked for."""
    if settings.eviction not in ("", "noeviction"):
        raise Unavailable(
            f"{shown} evicts data when its memory is full (maxmemory-policy {settings.eviction}); set it to noeviction "
            "(nothing was changed)",
            reason="evicting",
        )
    if require_durable and durability.name != "durable":
        raise Unavailable(
            f"{shown} is not durable: it may lose {durability.may_lose}. Set appendonly yes and appendfsync always, "
            "or open it without require_durable (nothing was changed)",
            reason="not_durable",
        )


_RANKS = (DURABLE, RELAXED, UNSYNCED, VOLATILE, UNKNOWN)


def _value(reply: Any) -> str:
    known = isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], bytes)
    return reply[1].decode(errors="replace") if known else ""


def _facts(reply: Any) -> dict[str, str]:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else ""
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value for name, _, value in lines}
