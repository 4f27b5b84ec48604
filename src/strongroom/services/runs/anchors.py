"""Sealed heads: what a ledger was at a moment, kept where whoever can write the store can not.

A hash chain has no key: somebody who can write the whole file can write a whole new chain. An anchor is the head of a
ledger, on a line of a file of the user's choice and perhaps signed; a chain that was rewritten does not go through it.

| what was done | found with anchors |
|---|---|
| an event up to the anchored length was changed, taken out, or put in | yes |
| the end of the ledger was cut off, below an anchored length | yes |
| events were added after the last anchor by somebody with the right to write | no: that is what writing is |
| events after the last anchor were rewritten | no: anchor more often |
| lines were taken out of the file of anchors | no: keep it where it can only grow |
| a line was changed or invented, and the key was not stolen | yes, if `public_key` is given |
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from strongroom.codec import encode, parse
from strongroom.errors import InvalidInput
from strongroom.files import add_line, read_lines
from strongroom.services.runs import signing
from strongroom.services.runs.ledger import GENESIS
from strongroom.services.runs.state import Ref
from strongroom.store import Tail
from strongroom.values import Anchor, Head, iso, moment

Place = str | os.PathLike[str]


class Seal(Struct):
    """Where the heads of a context's runs go whenever a milestone is made (nowhere, unless somebody says so)."""

    path: Place | None = None
    signing_key: bytes | None = None


class Kept(Struct, frozen=True):
    """What a file of anchors says of one run: heads, or why it can not be relied on; and the lines left out."""

    heads: tuple[Head, ...] = ()
    problem: str = ""
    note: str = ""


async def head(ref: Ref) -> Head:
    """Return a ledger's length and hash."""
    tail = await ref.scope.get(Tail(ref.ledger, 1))
    chain = tail.records[0].chain if tail.records else None
    return Head(tail.length, (chain or GENESIS).hex())


async def anchor(ref: Ref, path: Place | None, signing_key: bytes | None) -> Anchor:
    """Seal a ledger's head, and add it to a file; it is on disk when this returns."""
    now = await head(ref)
    told = {
        "space": ref.scope.space,
        "run": ref.run_id,
        "length": now.length,
        "chain": now.chain,
        "time": iso(moment(ref.scope.clock())),
    }
    signature = None if signing_key is None else signing.sign(told, signing_key, signing.ANCHOR)
    line = encode({**told, "signature": signature})
    if path is not None:
        add_line(path, line)
    return msgspec.json.decode(line, type=Anchor)


def kept(ref: Ref, anchors: Place | Sequence[Anchor], public_key: bytes | None) -> Kept:
    """Return what anchors say of a run."""
    known, note = _from_file(anchors) if isinstance(anchors, (str, os.PathLike)) else (tuple(anchors), "")
    if not all(isinstance(one, Anchor) for one in known):
        raise InvalidInput("anchors must be a path, or a list of what run.anchor returned")
    own = [one for one in known if (one.space, one.run) == (ref.scope.space, ref.run_id)]
    for one in own:
        told = msgspec.to_builtins(one)
        if told["signature"] is None:
            del told["signature"]
        wrong = signing.problem(told, public_key, signing.ANCHOR)
        if wrong:
            return Kept(problem=f"the anchor of length {one.length} can not be relied on: {wrong}", note=note)
    if not own:
        return Kept(problem="no anchor speaks of this run", note=note)
    return Kept(tuple(Head(one.length, one.chain) for one in own), note=note)


def _from_file(path: Place) -> tuple[tuple[Anchor, ...], str]:
    """Return the anchors in a file, and which lines are none: what a process that was killed left of its last one."""
    found, torn = [], []
    for number, line in enumerate(read_lines(path), 1):
        try:
            found.append(msgspec.convert(parse(line), Anchor))
        except (InvalidInput, msgspec.ValidationError):
            torn.append(str(number))
    return tuple(found), f"line {', '.join(torn[:10])} of the anchors is torn and was left out" if torn else ""
