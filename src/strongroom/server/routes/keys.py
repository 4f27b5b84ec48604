"""Keys over HTTP: an admin makes and revokes those of its own space. A key is shown once, when it is made.

An admin of the server's own space (STRONGROOM_SPACE) may name another one: that is how a space gets its first key.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import NotFound
from strongroom.server.keys import Keys, Role, ShownError, StoredKey
from strongroom.server.request import Request
from strongroom.server.responses import Refusal
from strongroom.server.router import Endpoints
from strongroom.values import moment

endpoint = Endpoints("keys")


class KeyInfo(Struct, frozen=True):
    """`used_at` is what the worker that answers knows: when it last let the key in, None if not since it started."""

    name: str
    space: str
    role: Role
    label: str
    created_at: datetime
    used_at: datetime | None = None


class KeyPage(Struct, frozen=True):
    """`since` is when the worker that answers started, and with it `used_at`."""

    keys: list[KeyInfo]
    since: datetime


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    role: Role
    label: str = ""
    space: str | None = None


class MadeKey(Struct, frozen=True):
    """`key` is shown this once; the store keeps a hash of it."""

    key: str
    info: KeyInfo


class SpaceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    space: str | None = None


@endpoint("GET /keys", "admin", "List keys, without their secrets")
async def list_keys(request: Request[None, SpaceQuery]) -> KeyPage:
    found, gate = await _keys(request).list(space=_space(request, request.query.space)), request.app.state.gate
    return KeyPage([_info(each, gate.used_at(each.name)) for each in found], datetime.fromtimestamp(gate.since, UTC))


@endpoint("POST /keys", "admin", "Make a key, shown once")
async def create(request: Request[NewKey, None]) -> MadeKey:
    """Make a key. Under an Idempotency-Key it is made once; a repeat cannot be shown it again, and is refused."""
    wanted, space = request.content, _space(request, request.content.space)
    try:
        text, stored = await _keys(request).create(
            space=space, role=wanted.role, label=wanted.label, commit_id=_own_id(request)
        )
    except ShownError:
        told = "a key was made under this Idempotency-Key, and was shown then; revoke it and make another"
        raise Refusal(409, "key_made", told) from None
    return MadeKey(text, _info(stored))


@endpoint("DELETE /keys/{name}", "admin", "Revoke a key")
async def revoke(request: Request[None, SpaceQuery]) -> dict[str, bool]:
    name, space = request.path_params["name"], _space(request, request.query.space)
    found = await _keys(request).get(name)
    if found is not None and found.space != space:
        raise NotFound(f"there is no key {name!r:.60}; nothing changed", kind="key", id=name)
    await _keys(request).revoke(name, commit_id=_own_id(request, "revoke", name))
    request.app.state.gate.forget()
    return {"ok": True}


def _own_id(request: Request[Any, Any], *about: str) -> str | None:
    """Return the caller's id among those of all spaces: keys are kept together, and one person may be in several."""
    given = request.commit_id
    return None if given is None else f"key#{sha256(encode([request.caller.space, given, *about])).hexdigest()}"


def _keys(request: Request[Any, Any]) -> Keys:
    return Keys(request.app.state.store)


def _space(request: Request[Any, Any], wanted: str | None) -> str:
    own = request.caller.space
    if wanted not in (None, own) and own != request.settings.space:
        raise Refusal(403, "forbidden", "keys of other spaces are for admins of the server's own; nothing changed")
    return own if wanted is None else wanted


def _info(stored: StoredKey, used: float | None = None) -> KeyInfo:
    used_at = None if used is None else datetime.fromtimestamp(used, UTC)
    return KeyInfo(stored.name, stored.space, stored.role, stored.label, moment(stored.created), used_at)
