"""The registry: opaque ids that stand for call chains.

An id names one chain of one conversation: who started it, who was called, who they called. Chains are lists of names,
so a name may contain dots. Ids are random, and an id is found again only through the id it was called from, so two
conversations that take the same route never meet. A chain is made in one commit, however many of its steps are new;
whoever comes second finds the first.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from strongroom.arguments import checked
from strongroom.codec import Json, encode, pack
from strongroom.errors import CommitUnknown, Conflict, InvalidInput, NotFound
from strongroom.meant import Meant
from strongroom.operations import NOTHING, Operation, Plan, perform, step
from strongroom.scope import Scope
from strongroom.services.threads.plans import unchanged
from strongroom.store import EXISTS, MAX_NAME, Delete, Document, Expect, Get, Key, Put, Receipt, Scan, Write, new_id

CHAIN, CALL, FORGETTING = "chain", "call", "forgetting"
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


class Forgetting(Struct):
    """How far a chain has been forgotten: how many are, and whose calls may still be there. It survives a crash."""

    forgotten: int
    open: tuple[str, ...]


class Left(Struct, frozen=True):
    """That nothing is left to forget: how many were forgotten, and the version of the document that says so."""

    forgotten: int
    version: int


class Step(Struct, frozen=True):
    """A planned extension: the id it leads to, and what to check and write if it is new."""

    id: str
    expects: tuple[Expect, ...] = ()
    writes: tuple[Write, ...] = ()


def call_key(space: str, *, parent: str | None, name: str) -> Key:
    """Return where the id of a call from `parent` to `name` is kept."""
    return Key(space, CALL, sha256(encode([parent, name])).hexdigest())


def chain_key(space: str, id: str) -> Key:
    """Return where a chain is kept."""
    return Key(space, CHAIN, id)


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
            Put(chain_key(key.space, id), pack(link), {"parent": parent} if parent else {}),
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
class AsyncRegistry(Meant):
    """The call chains of one space.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         chain = await ctx.registry.get_or_create("console.router")
    ...         return (await ctx.registry.lookup(chain)).names
    >>> asyncio.run(main())
    ('console', 'router')
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def __repr__(self) -> str:
        return f"<registry of space {self.scope.space!r}>"

    async def root(self, name: str = "system", *, commit_id: str | None = None) -> str:
        """Return the id of the root of that name. The same one each time, in every process."""
        return await self._reach("registry.root", None, _checked((name,)), encode({"name": name}), commit_id)

    async def start(self, chain: str | Sequence[str], *, id: str | None = None, commit_id: str | None = None) -> str:
        """Begin a new conversation along a chain and return the chain's id. Never one that exists.

        An `id` that was made elsewhere becomes the chain's own; `Conflict` if it stands for a chain already.
        """
        names = _names(chain)

        async def attempt() -> Plan[str]:
            plan = plan_start(self.scope, names, id)
            return Plan(plan.expects, plan.writes, lambda _: plan.id, encode(plan.id), taken)

        def taken(conflict: Conflict) -> Conflict | None:
            return conflict if id is not None and conflict.key == self._key(id) else None

        # All that begins without an id of its own begins at one place, as nobody knows the id before.
        target = self.scope.key(CALL, "start") if id is None else self._key(id)
        content = encode({"chain": names, "id": id})
        return await perform(self.scope, Operation("registry.start", target, content, commit_id), attempt, _told)

    async def get_or_create(
        self, chain: str | Sequence[str], *, root: str | None = None, commit_id: str | None = None
    ) -> str:
        """Return the id of a chain within one conversation: the root's, if no other is named.

        A string is split at its dots; give a list if a name contains one.
        """
        names = _names(chain)
        try:
            base = root or await self.root()
        except CommitUnknown as problem:
            problem.commit_id = commit_id or new_id()  # the root is there or not; this chain was not begun yet
            raise
        return await self._reach("registry.get_or_create", base, names, encode({"chain": names}), commit_id)

    async def lookup(self, id: str) -> Chain:
        """Return the chain an id stands for."""
        link = _link(id, await self.scope.get(Get(self._key(id))))
        return Chain(id, link.names, link.parent)

    async def extend(self, id: str, name: str, *, commit_id: str | None = None) -> str:
        """Return the id of the chain that goes one call further, creating it the first time."""
        content = encode({"name": name})
        return await self._reach("registry.extend", id, _checked((name,)), content, commit_id, further=True)

    async def prune(self, id: str) -> Caller | None:
        """Say who gets a response given on this id, and on which thread. None: nobody called, it is a beginning.

        Nothing changes, so a response can be given again after a crash; `cleanup` forgets the chain.
        """
        chain = await self.lookup(id)
        if len(chain.names) < 2:
            return None
        return Caller(chain.names[-2], chain.parent or id)

    async def cleanup(self, id: str, *, commit_id: str | None = None) -> int:
        """Forget a chain and every chain called from it, and return how many. Their threads stay."""
        progress = self.scope.key(FORGETTING, id)

        async def attempt() -> Plan[int]:
            while (left := await step(self.scope, progress, lambda: self._forget_some(id))) is None:
                pass
            gone = (Delete(progress),) if left.version else ()
            forgotten = left.forgotten
            return Plan((Expect(progress, left.version),), gone, lambda _: forgotten, encode(forgotten))

        async def replay(receipt: Receipt) -> int:
            return int(await _told(receipt))

        operation = Operation("registry.cleanup", self._key(id), NOTHING, commit_id)
        return await perform(self.scope, operation, attempt, replay)

    async def _forget_some(self, id: str) -> Plan[Left | None]:
        """Plan to forget some more of a chain's calls, a caller always before those it called.

        So nobody can extend what is forgotten, and the calls that are found are all there are.
        """
        progress = self.scope.key(FORGETTING, id)
        known, document = await self.scope.read(Get(self._key(id)), Get(progress))
        state = Forgetting(0, ()) if document is None else msgspec.json.decode(document.value, type=Forgetting)
        rest, looked = list(state.open[:-PAGE]), state.open[-PAGE:]
        pages = await self.scope.get_all([Scan(self.scope.space, CHAIN, {"parent": one}, limit=PAGE) for one in looked])
        found = [child for page in pages for child in page.documents] + ([] if known is None else [known])
        if not found and not rest:
            left = Left(state.forgotten, 0 if document is None else document.version)
            return Plan((), (), lambda _: left)
        rest += [one for one, page in zip(looked, pages, strict=True) if page.next is not None]
        after = Forgetting(state.forgotten + len(found), (*rest, *[chain.key.id for chain in found]))
        gone = [Delete(key) for chain in found for key in (chain.key, self._call_of(chain))]
        still = [unchanged(progress, document), unchanged(self._key(id), known)]
        return Plan(still, (Put(progress, pack(after)), *gone), lambda _: None)

    async def _reach(
        self,
        operation: str,
        base: str | None,
        calls: tuple[str, ...],
        content: Json,
        commit_id: str | None,
        *,
        further: bool = False,
    ) -> str:
        """Go from one chain (None: from nowhere) call by call to another, and return its id.

        `further` says that the names of the chain go on from those of its base.
        """

        async def attempt() -> Plan[str]:
            expects: list[Expect] = []
            writes: list[Write] = []
            names: tuple[str, ...] = ()
            id = base
            for name in calls:
                key = call_key(self.scope.space, parent=id, name=name)
                known = None
                if not writes:  # else nobody can have called from what does not exist yet
                    known, caller = await self.scope.read(Get(key), Get(self._key(id or "-")))
                    if id is not None:
                        link = _link(id, caller, "; nothing changed")
                        names = link.names if further else names
                        expects = [Expect(self._key(id), EXISTS)]
                names = (*names, name)
                plan = plan_call(key, known, parent=id, names=names)
                expects += plan.expects or [unchanged(key, known)]
                writes += plan.writes
                id = plan.id
            reached = id or ""
            return Plan(expects, writes, lambda _: reached, encode(reached))

        target = self._key(base) if base else call_key(self.scope.space, parent=None, name=calls[0])
        return await perform(self.scope, Operation(operation, target, content, commit_id), attempt, _told)

    def _key(self, id: str) -> Key:
        return chain_key(self.scope.space, id)

    def _call_of(self, chain: Document) -> Key:
        return self.scope.key(CALL, msgspec.json.decode(chain.value, type=Link).call)


def _link(id: str, document: Document | None, so: str = "") -> Link:
    if document is None:
        raise NotFound(f"no chain has the id {id!r:.80}{so}", kind=CHAIN, id=id)
    return msgspec.json.decode(document.value, type=Link)


async def _told(receipt: Receipt) -> str:
    assert receipt.answer is not None
    return str(receipt.answer.load())


def _names(chain: str | Sequence[str]) -> tuple[str, ...]:
    return _checked(tuple(chain.split(".")) if isinstance(chain, str) else tuple(chain))


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise InvalidInput("a chain needs at least one name; nothing changed")
    for name in names:
        if type(name) is not str or not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise InvalidInput(
                f"a name in a chain must be 1 to {MAX_NAME} printable characters, not {name!r:.80}; nothing changed"
            )
    return names
