"""Names of ours for what a framework names: its ids may be of any length and hold any character. Pure."""

from __future__ import annotations

from hashlib import blake2b

from strongroom.store import MAX_NAME


def digest(*parts: str) -> str:
    """Return a short word for texts: another one for other texts, and for the same ones divided otherwise."""
    whole = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(whole.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def session_name(framework: str, *parts: str) -> str:
    """Return the id of the session that a conversation of a framework is: readable, where its own id allows it."""
    name = "/".join((framework, *parts))
    plain = len(name) <= MAX_NAME and name.isprintable() and "/" not in "".join(parts) and all(parts)
    return name if plain else f"{framework}/{digest(*parts)}"
