"""API keys: made once, shown once, stored as a hash.

A key reads `srk_<name>.<secret>`: the name finds its document, 256 random bits of secret prove it. Such secrets need no
slow hash (nobody can guess them); SHA-256 keeps a stolen database from being a stolen key ring.

Roles are sets of rights, not a ladder: whoever proposes a memory must not be the one who approves it.
"""

from __future__ import annotations

import hmac
import os
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Struct

from strongroom.codec import encode, pack
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.scope import Scope, now
from strongroom.store import EXISTS, MAX_NAME, AsyncStore, Commit, Delete, Document, Expect, Get, Key, Put, Scan, new_id

SPACE = "strongroom:keys"  # a space of its own; no key opens it, because keys name ordinary spaces
KIND = "key"
MADE = Key(SPACE, "keys", "made")  # its version counts the keys ever made, so that one cheap read tells of a new one

Role = Literal["reader", "writer", "reviewer", "admin"]
Right = Literal["read", "write", "review", "admin"]

RIGHTS: dict[str, frozenset[Right]] = {
    "reader": frozenset({"read"}),
    "writer": frozenset({"read", "write"}),
    "reviewer": frozenset({"read", "review"}),
    "admin": frozenset({"read", "write", "review", "admin"}),
}


class StoredKey(Struct, frozen=True):
    """What is kept of a key."""

    name: str
    digest: str
    space: str
    role: Role
    created: int
    label: str = ""


class Caller(Struct, frozen=True):
    """Who is asking, on whose behalf, and what they may do."""

    name: str
    space: str
    role: Role

    def may(self, right: Right) -> bool:
        return right in RIGHTS[self.role]


class ShownError(Exception):
    """A key was made under this id, and shown then."""


class Keys:
    """The keys of a store."""

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._scope = Scope(store, SPACE)

    async def create(
        self, *, space: str, role: str, label: str = "", commit_id: str | None = None
    ) -> tuple[str, StoredKey]:
        """Make a key. The text is returned this once and cannot be had again; under an id that made one, `ShownError`.

        No name is given twice, not even one of a key that was revoked: what its owner did stays under it.
        """
        if role not in RIGHTS:
            raise InvalidInput(f"a role must be one of {', '.join(RIGHTS)}, not {role!r:.40}; nothing was created")
        Key(space, KIND, "-")
        if len(label) > MAX_NAME:
            raise InvalidInput(f"a label has at most {MAX_NAME} characters; nothing was created")
        if space.startswith("strongroom:"):
            raise InvalidInput("spaces that begin with 'strongroom:' are Strongroom's own; nothing was created")
        name, secret = os.urandom(6).hex(), os.urandom(32).hex()
        stored = StoredKey(name, _digest(secret), space, msgspec.convert(role, Role), now(), label)
        put = Put(_key(name), pack(stored), {"space": space})
        made = Commit(
            commit_id or new_id(),
            (Expect(_key(name), 0),),
            (put, Put(MADE, pack({}))),
            digest=sha256(encode([space, role, label])).digest()[:16],
            keep=commit_id is not None,
        )
        if (await self._store.commit(made)).repeated:
            raise ShownError
        return f"srk_{name}.{secret}", stored

    async def get(self, name: str) -> StoredKey | None:
        """Return what is known of a key, without its secret."""
        document = await self._scope.get(Get(_key(name)))
        return None if document is None else _load(document)

    async def list(self, *, space: str | None = None) -> list[StoredKey]:
        """Return what is known of every key, without the secrets."""
        found: list[StoredKey] = []
        after = None
        while True:
            page = await self._scope.get(Scan(SPACE, KIND, {"space": space} if space else {}, after))
            found += [_load(document) for document in page.documents]
            after = page.next
            if after is None:
                return found

    async def revoke(self, name: str, *, commit_id: str | None = None) -> None:
        """Make a key useless from now on. Under an id that revoked it, that is so already."""
        id, keep = commit_id or new_id(), commit_id is not None
        try:
            await self._store.commit(Commit(id, (Expect(_key(name), EXISTS),), (Delete(_key(name)),), keep=keep))
        except Conflict as problem:
            raise NotFound(f"there is no key {name!r}; nothing changed", kind="key", id=name) from problem

    async def any(self) -> bool:
        """Tell whether any key exists; as long as none does, only this machine may come in."""
        return bool((await self._scope.get(Scan(SPACE, KIND, limit=1))).documents)

    async def made(self) -> int:
        """Return how many keys were ever made."""
        found = await self._scope.get(Get(MADE))
        return 0 if found is None else int(found.version)

    async def find(self, text: str) -> Caller | None:
        """Return whose key this is, or None. Takes the same time whether the name or the secret is wrong."""
        name, _, secret = text.removeprefix("srk_").partition(".")
        document: Document | None = None
        if name.isalnum() and len(name) <= 64:
            document = await self._scope.get(Get(_key(name)))
        stored = _load(document) if document is not None else StoredKey("", _digest(""), "-", "reader", 0)
        right = hmac.compare_digest(stored.digest, _digest(secret)) and document is not None
        return Caller(stored.name, stored.space, stored.role) if right else None


def _key(name: str) -> Key:
    return Key(SPACE, KIND, name)


def _digest(secret: str) -> str:
    return sha256(b"strongroom key\0" + secret.encode()).hexdigest()


def _load(document: Document) -> StoredKey:
    return msgspec.json.decode(document.value, type=StoredKey)
