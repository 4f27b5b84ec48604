"""The registry: opaque ids that stand for call chains.

An id names one chain of one conversation: who started it, who was called, who they called. Chains are lists of names,
so a name may contain dots. Ids are random, and an id is found again only through the id it was called from, so two
conversations that take the same route never meet. Every step is one commit; whoever comes second finds the first.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from strongroom.arguments import checked
from strongroom.codec import encode, pack
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.store import EXISTS, MAX_NAME, Commit, Delete, Document, Expect, Get, Key, Put, Scan, Write, new_id

CHAIN, CALL = "chain", "call"
PAGE = 256


class Chain(Struct, frozen=True):
    """A call chain: its names, the one called last at the end, and the id it was called from."""

    id: str
    names: tuple[str, ...]
    parent: str | None = None

    def __str__(self) -> str:
        return ".".join(self.names)


class Caller(Struct, frozen=True):
    """Where a response goes: who called, and the id of the thread they called on."""

    name: str
    thread_id: str


class Link(Struct):
    """The stored form of a chain. `call` is the id of the document that leads here from the parent."""

    names: tuple[str, ...]
    parent: str | None
    call: str


class Step(Struct, frozen=True):
    """A planned extension: the id it leads to, and what to check and write if it is new."""

    id: str
    expects: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()


def call_key(space: str, *, parent: str | None, name: str) -> Key:
    """Return where the id of a call from `parent` to `name` is kept."""
    return Key(space, CALL, sha256(encode([parent, name])).hexdigest())


def plan_call(key: Key, known: Document | None, *, parent: str | None, names: tuple[str, ...]) -> Step:
    """Decide the id of a call: the one it already has, or a fresh one with what to write for it."""
    if known is not None:
        return Step(known.value.load()["id"])
    id = secrets.token_hex(16)
    link = Link(names, parent, key.id)
    return Step(
        id,
        (Expect(key, 0),),
        (
            Put(key, encode({"id": id})),
            Put(Key(key.space, CHAIN, id), pack(link), {"parent": parent} if parent else {}),
        ),
    )


def plan_start(scope: Scope, names: tuple[str, ...], id: str | None) -> Step:
    """Decide the ids along a chain that nobody has called before, and what to write for them."""
    expects: list[Expect] = []
    writes: list[Write] = []
    parent: str | None = None
    for end in range(1, len(names) + 1):
        fresh = id if id and end == len(names) else secrets.token_hex(16)
        call = None if parent is None else call_key(scope.space, parent=parent, name=names[end - 1])
        link = Put(
            scope.key(CHAIN, fresh),
            pack(Link(names[:end], parent, fresh if call is None else call.id)),
            {"parent": parent} if parent else {},
        )
        expects.append(Expect(link.key, 0))
        writes += [link] if call is None else [link, Put(call, encode({"id": fresh}))]
        parent = fresh
    assert parent is not None
    return Step(parent, tuple(expects), tuple(writes))


@checked
class AsyncRegistry:
    """The call chains of one space."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def root(self, name: str = "system") -> str:
        """Return the id of the root of that name. The same one each time, in every process."""
        return await self._call(None, _checked((name,)))

    async def start(self, chain: str | Sequence[str], *, id: str | None = None) -> str:
        """Begin a new conversation along a chain and return the chain's id. Never one that exists.

        An `id` that was made elsewhere becomes the chain's own; `Conflict` if it stands for a chain already.
        """
        names = _names(chain)
        plan = plan_start(self.scope, names, id)
        await self.scope.store.commit(Commit(new_id(), plan.expects, plan.writes))
        return plan.id

    async def get_or_create(self, chain: str | Sequence[str], *, root: str | None = None) -> str:
        """Return the id of a chain within one conversation: the root's, if no other is named.

        A string is split at its dots; give a list if a name contains one.
        """
        names = _names(chain)
        return await self._walk(root or await self.root(), names, 0)

    async def lookup(self, id: str) -> Chain:
        """Return the chain an id stands for."""
        [document] = await self.scope.store.read([Get(self._key(id))])
        if document is None:
            raise NotFound(f"no chain has the id {id!r:.80}", kind=CHAIN, id=id)
        link = msgspec.json.decode(document.value, type=Link)
        return Chain(id, link.names, link.parent)

    async def extend(self, id: str, name: str) -> str:
        """Return the id of the chain that goes one call further, creating it the first time."""
        chain = await self.lookup(id)
        return await self._call(id, (*chain.names, *_checked((name,))))

    async def prune(self, id: str) -> Caller | None:
        """Say who gets a response given on this id, and on which thread. None: nobody called, it is a beginning.

        Nothing changes, so a response can be given again after a crash; `cleanup` forgets the chain.
        """
        chain = await self.lookup(id)
        if len(chain.names) < 2:
            return None
        return Caller(chain.names[-2], chain.parent or id)

    async def cleanup(self, id: str) -> int:
        """Forget a chain and every chain called from it, and return how many. Their threads stay."""
        [document] = await self.scope.store.read([Get(self._key(id))])
        writes: list[Write] = []
        if document is not None:
            link = msgspec.json.decode(document.value, type=Link)
            writes = [Delete(self._key(id)), Delete(self.scope.key(CALL, link.call))]
            # The parent goes first: from now on nobody can extend it, so the children found below are all there are.
            await self.scope.store.commit(Commit(new_id(), (), tuple(writes)))
        forgotten = 1 if writes else 0
        while True:
            [page] = await self.scope.store.read([Scan(self.scope.space, CHAIN, {"parent": id}, limit=PAGE)])
            for child in page.documents:
                forgotten += await self.cleanup(child.key.id)
            if page.next is None:
                return forgotten

    async def _walk(self, id: str, names: tuple[str, ...], done: int) -> str:
        for end in range(done + 1, len(names) + 1):
            id = await self._call(id, names[:end])
        return id

    async def _call(self, parent: str | None, names: tuple[str, ...]) -> str:
        key = call_key(self.scope.space, parent=parent, name=names[-1])
        alive = () if parent is None else (Expect(self._key(parent), EXISTS),)
        while True:
            [known] = await self.scope.store.read([Get(key)])
            step = plan_call(key, known, parent=parent, names=names)
            if not step.writes:
                return step.id
            try:
                await self.scope.store.commit(Commit(new_id(), (*alive, *step.expects), step.writes))
                return step.id
            except Conflict as lost:
                if alive and lost.key == alive[0].key:
                    raise NotFound(f"no chain has the id {parent!r:.80}; nothing changed", kind=CHAIN) from None

    def _key(self, id: str) -> Key:
        return self.scope.key(CHAIN, id)


def _names(chain: str | Sequence[str]) -> tuple[str, ...]:
    return _checked(tuple(chain.split(".")) if isinstance(chain, str) else tuple(chain))


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise InvalidInput("a chain needs at least one name; nothing changed")
    for name in names:
        if type(name) is not str or not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise InvalidInput(f"a name in a chain must be 1 to {MAX_NAME} printable characters, not {name!r:.80}")
    return names
