"""Keys over HTTP: an admin makes and revokes those of its own space. A key is shown once, when it is made.

An admin of the server's own space (STRONGROOM_SPACE) may name another one: that is how a space gets its first key.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Any

from msgspec import Struct

from strongroom.errors import Conflict, NotFound
from strongroom.server.keys import Keys, Role, StoredKey
from strongroom.server.request import Request
from strongroom.server.responses import Refusal
from strongroom.server.router import Endpoints
from strongroom.store import used_otherwise
from strongroom.values import moment

endpoint = Endpoints("keys")


class KeyInfo(Struct, frozen=True):
    name: str
    space: str
    role: Role
    label: str
    created_at: datetime


class KeyPage(Struct, frozen=True):
    keys: list[KeyInfo]


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
    found = await _keys(request).list(space=_space(request, request.query.space))
    return KeyPage([_info(each) for each in found])


@endpoint("POST /keys", "admin", "Make a key, shown once")
async def create(request: Request[NewKey, None]) -> MadeKey:
    """Make a key. Under an Idempotency-Key it is made once; a repeat cannot be shown it again, and is refused."""
    wanted, id, space = request.content, request.commit_id, _space(request, request.content.space)
    name = None if id is None else sha256(id.encode()).hexdigest()[:12]
    try:
        text, stored = await _keys(request).create(space=space, role=wanted.role, label=wanted.label, name=name)
    except Conflict:
        first = None if name is None else await _keys(request).get(name)
        if (
            id is not None
            and first is not None
            and (first.space, first.role, first.label)
            != (
                space,
                wanted.role,
                wanted.label,
            )
        ):
            raise used_otherwise(id) from None
        told = "a key was made under this Idempotency-Key, and was shown then; revoke it and make another"
        raise Refusal(409, "key_made", told) from None
    return MadeKey(text, _info(stored))


@endpoint("DELETE /keys/{name}", "admin", "Revoke a key")
async def revoke(request: Request[None, SpaceQuery]) -> dict[str, bool]:
    name, space = request.path_params["name"], _space(request, request.query.space)
    if name not in [each.name for each in await _keys(request).list(space=space)]:
        raise NotFound(f"there is no key {name!r:.60}; nothing changed", kind="key", id=name)
    await _keys(request).revoke(name)
    request.app.state.gate.forget()
    return {"ok": True}


def _keys(request: Request[Any, Any]) -> Keys:
    return Keys(request.app.state.store)


def _space(request: Request[Any, Any], wanted: str | None) -> str:
    own = request.caller.space
    if wanted not in (None, own) and own != request.settings.space:
        raise Refusal(403, "forbidden", "keys of other spaces are for admins of the server's own; nothing changed")
    return own if wanted is None else wanted


def _info(stored: StoredKey) -> KeyInfo:
    return KeyInfo(stored.name, stored.space, stored.role, stored.label, moment(stored.created))
