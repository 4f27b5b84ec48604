"""Claims: tags that only one document of a kind can carry. What a commit claims, and whose claims it settles. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.store.commits import Commit, Delete, Put
from strongroom.store.names import Key

CLAIM = "="


class Claim(Struct, frozen=True, gc=False):
    """What one document of a kind can have for itself."""

    kind: str
    name: str
    value: str


def claims_of(commit: Commit) -> Sequence[Claim]:
    """Return what the commit's documents claim once it is applied; refuse one that contradicts itself."""
    for write in commit.writes:
        if type(write) is Put and write.tags:
            for name in write.tags:
                if name[:1] == CLAIM:
                    return _claims(commit)
    return ()


def _claims(commit: Commit) -> list[Claim]:
    last = {write.key: write for write in commit.writes if type(write) is Put or type(write) is Delete}
    holders: dict[Claim, Key] = {}
    for key, write in last.items():
        for name, value in write.tags.items() if type(write) is Put else ():
            if name[:1] == CLAIM and holders.setdefault(claim := Claim(key.kind, name, value), key) is not key:
                raise _contradiction(claim, holders[claim], key)
    return list(holders)


def settled_by(commit: Commit) -> set[Key]:
    """Return the documents whose tags the commit decides: what they claimed before stands in nobody's way."""
    return {write.key for write in commit.writes if type(write) is Put or type(write) is Delete}


def _contradiction(claim: Claim, one: Key, other: Key) -> InvalidInput:
    return InvalidInput(
        f"{claim.kind} {one.id!r} and {other.id!r} both claim {claim.name[1:]} {claim.value!r:.80} in one commit; "
        "nothing changed"
    )
