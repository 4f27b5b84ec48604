"""Operations of runs whose decision was made on a client: by a callback, or with a file of its own.

A client decides about the run as it saw it, and says what it saw. What does not fit any more is not done: `Undecided`
sends the question back.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from strongroom.codec import Json, encode
from strongroom.errors import InvalidInput
from strongroom.operations import Undecided
from strongroom.services.runs.ledger import GENESIS
from strongroom.services.runs.state import Ref, Stored
from strongroom.services.runs.updates import Ask, Request
from strongroom.services.runs.working_set import data
from strongroom.store import Range
from strongroom.values import Pack

_NAMED = re.compile(r"pack_[0-9a-f]{16} [0-9a-f]{64}")


class Decision(Struct, frozen=True):
    """What `update_with` was told by its callback, about a run after so many updates. None: nothing to do."""

    fields: dict[str, Any] | None
    seq: int


def decision(stored: Stored, request: Request | None) -> Json:
    """Say what was decided."""
    fields = None if request is None else {name: data(value) for name, value in request.fields.items()}
    return encode({"fields": fields, "seq": stored.seq})


def decided(made: Decision | None) -> Ask:
    """Ask for what was decided, if it is about the run as it is."""

    async def ask(stored: Stored) -> Request | None:
        if made is None or made.seq != stored.seq:
            raise Undecided
        return None if made.fields is None else Request(made.fields)

    return ask


async def require_written(ref: Ref, pack: Pack) -> Pack:
    """Return what is said of a pack, if it was made of this run's own ledger, or raise `InvalidInput`."""
    length = pack.head.length
    here = await ref.scope.get(Range(ref.ledger, length - 1, length)) if length else None
    chain = here.records[0].chain if here is not None and here.records else GENESIS
    if pack.run_id != ref.run_id or (chain or GENESIS).hex() != pack.head.chain:
        raise InvalidInput("this pack was not made of the run's ledger; nothing changed", path="head")
    if not _NAMED.fullmatch(f"{pack.pack_id} {pack.manifest_sha256}"):
        raise InvalidInput("a pack is named after its manifest; nothing changed", path="pack_id")
    return pack
