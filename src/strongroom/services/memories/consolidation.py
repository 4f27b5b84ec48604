"""Consolidating what an owner has: memories that are alike, a model's answer about them, and one commit of both.

Memories that may repeat or contradict each other are found without a model: each of the newest is looked for by its own
words (and meaning, if there is an embedder) among those of the same owner, whatever their age. So a call costs as many
searches as it looks at memories, and one question to the model, however much the owner has.

Which groups a model was asked about is a document for each owner: digests of the ids, the newest so many. It is written
in the commit that stages the proposals, on condition that it is as it was read. So nobody is asked about the same group
twice, whatever a reviewer made of the answer; a group that another memory joins is another group. Of two that ask at
once one commits, and the other is told that everything is left.

The model is asked before anything is decided, outside of every attempt. What it suggests is made into requests inside
of the attempt, of the memories as they are then. A group of which one changed or was erased while the model thought is
left as it is: what was said of the others may hold words of that one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

import strongroom.models as models
from strongroom.codec import Json, encode, pack
from strongroom.operations import Operation, Plan, Undecided, made_here, perform, repeated
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.decisions import expired
from strongroom.services.memories.extraction import MOST_FOUND, Whose
from strongroom.services.memories.keys import load
from strongroom.services.memories.learning import Staging, believed
from strongroom.services.memories.policy import Policy
from strongroom.services.memories.search import Search
from strongroom.services.memories.suggestions import Change, belongs, question, requests_of, suggested
from strongroom.services.memories.values import Consolidated, Memory
from strongroom.store import Expect, Get, Key, Put, Receipt, Scan, Write
from strongroom.values import moment

MOST_MEMORIES = 200
MOST_GROUPS = 16
MOST_ALIKE = 8  # in one group
MAX_TEXT_CHARS = 2_000  # what is longer is left alone
MAX_CHARS = 40_000  # of all memories that a model is shown at once
MOST_JUDGED = 1_000

Group = Annotated[tuple[str, ...], Meta(min_length=2, max_length=MOST_ALIKE)]


class Judged(Struct, frozen=True):
    """The value of the document that says which groups of an owner's memories a model was asked about."""

    groups: tuple[str, ...] = ()


class Suggestions(Struct, frozen=True):
    """What a model made of some groups of memories: of what state of things, which groups, and the changes."""

    version: int
    memories: int = 0
    groups: Annotated[tuple[Group, ...], Meta(max_length=MOST_GROUPS)] = ()
    left: int = 0
    next: str | None = None
    changes: Annotated[tuple[Change, ...], Meta(max_length=MOST_FOUND)] = ()
    refused: Annotated[tuple[str, ...], Meta(max_length=MOST_FOUND + 1)] = ()
    degraded: str | None = None


class Consolidation:
    """The consolidator of one owner's memories."""

    def __init__(self, scope: Scope, policy: Policy, search: Search, owner: Whose, proposer: str) -> None:
        self._scope, self._policy, self._search = scope, policy, search
        self._owner, self._proposer = owner, proposer
        self._tag = keys.owner(owner.user_id, owner.project_id)
        self._key = Key(scope.space, keys.JUDGED, keys.digest(owner.scope, self._tag))

    async def consolidate(
        self, model: models.Model, limit: int, after: str | None, staging: Staging, commit_id: str | None, threads: bool
    ) -> Consolidated:
        """Read, ask, commit. A repeat by its id asks nobody."""
        operation = self.operation(after, commit_id)

        async def decide() -> Json:
            made = await self._asked(model, limit, after, threads)
            told = self._policy.told
            return encode({**(told.load() if told is not None else {}), "suggestions": msgspec.to_builtins(made)})

        made = None
        if made_here(self._scope) and not (commit_id is not None and await repeated(self._scope, operation)):
            made = await self._asked(model, limit, after, threads)
        return await self.record(operation, made, staging, decide)

    def operation(self, after: str | None, commit_id: str | None) -> Operation:
        owner = self._owner
        content = encode(
            {
                "scope": owner.scope,
                "user_id": owner.user_id,
                "project_id": owner.project_id,
                "proposer": self._proposer,
                "after": after,
            }
        )
        return Operation("memories.consolidate", self._key, content, commit_id, self._policy.told)

    async def record(
        self,
        operation: Operation,
        made: Suggestions | None,
        staging: Staging,
        decide: Callable[[], Awaitable[Json]] | None = None,
    ) -> Consolidated:
        """Commit what was suggested, unless somebody else was first: then nothing."""

        async def attempt() -> Plan[Consolidated] | None:
            if made is None:
                raise Undecided
            judged, version = await self._judged()
            unchanged = Expect(self._key, version)
            done = Consolidated(
                memories=made.memories,
                groups=len(made.groups),
                left=made.left,
                next=made.next,
                refused=made.refused,
                degraded=made.degraded,
            )
            if not made.groups or version != made.version:
                left = done.left + done.groups
                nothing = msgspec.structs.replace(done, groups=0, left=left, refused=())
                return Plan((unchanged,), (), lambda _: nothing, pack(nothing))
            intact, unchanged_ones = await self._intact(made.groups)
            shown = {memory.id: memory for group in intact for memory in group}
            groups = tuple(dict.fromkeys((*judged.groups, *map(_digest, intact))))[-MOST_JUDGED:]
            expects: Sequence[Expect] = (unchanged, *unchanged_ones)
            writes: Sequence[Write] = (Put(self._key, pack(Judged(groups))),)
            now = moment(self._scope.clock())
            requests, stale = requests_of(made.changes, shown, self._owner, self._policy, now)
            requests, revoked = await believed(self._scope, requests)
            left = done.left + done.groups - len(intact)
            done = msgspec.structs.replace(
                done, groups=len(intact), left=left, refused=(*done.refused, *stale, *revoked)
            )
            if requests:
                staged = await staging(requests)
                if staged is None:
                    return None
                expects, writes = (*expects, *staged[0]), (*writes, *staged[1])
                done = msgspec.structs.replace(done, batch_id=staged[2].id, proposals=len(requests))
            return Plan(expects, writes, lambda _: done, pack(done))

        return await perform(self._scope, operation, attempt, _replay, decide)

    async def _judged(self) -> tuple[Judged, int]:
        stored = await self._scope.get(Get(self._key))
        return (Judged(), 0) if stored is None else (load(stored, Judged), stored.version)

    async def _intact(self, groups: Sequence[Sequence[str]]) -> tuple[list[list[Memory]], list[Expect]]:
        """Return the groups whose memories are all still the owner's and active, and what must stay so."""
        ids = list(dict.fromkeys(id for group in groups for id in group))
        found = await self._scope.get_all([Get(self._scope.key(keys.MEMORY, id)) for id in ids])
        held = {document.key.id: document for document in found if document is not None}
        now = moment(self._scope.clock())
        memories = {id: memory for id, document in held.items() if self._has(memory := load(document, Memory), now)}
        intact = [[memories[id] for id in group] for group in groups if all(id in memories for id in group)]
        expects = {memory.id: Expect(held[memory.id].key, held[memory.id].version) for one in intact for memory in one}
        return intact, list(expects.values())

    def _has(self, memory: Memory, now: datetime) -> bool:
        return belongs(memory, self._owner) and memory.status == "active" and not expired(memory, now)

    async def _asked(self, model: models.Model, limit: int, after: str | None, threads: bool) -> Suggestions:
        """Ask the model about the groups that nobody was asked about yet, as many as fit."""
        judged, version = await self._judged()
        tags = {"status": "active", "owner": self._tag}
        page = await self._scope.get(Scan(self._scope.space, keys.MEMORY, tags, after, limit, reverse=True))
        looked = Suggestions(version, memories=len(page.documents), next=page.next)
        found, degraded = await self._groups([load(document, Memory) for document in page.documents], judged)
        shown, room = list[list[Memory]](), MAX_CHARS
        for group in found[:MOST_GROUPS]:
            room -= sum(len(memory.content) for memory in group)
            if shown and room < 0:
                break
            shown.append(group)
        looked = msgspec.structs.replace(looked, left=len(found) - len(shown), degraded=degraded)
        if not shown:
            return looked
        answer = await models.ask(model, question(shown), threads=threads)
        changes, refused = suggested(answer, shown)
        ids = tuple([tuple([memory.id for memory in group]) for group in shown])
        return msgspec.structs.replace(looked, groups=ids, changes=changes, refused=refused)

    async def _groups(self, newest: Sequence[Memory], judged: Judged) -> tuple[list[list[Memory]], str | None]:
        """Return which of these memories are alike and alike to what, in groups that nobody was asked about yet."""
        now, known = moment(self._scope.clock()), set(judged.groups)
        groups, taken, degraded = list[list[Memory]](), set[str](), None
        asked = list[set[str]]()  # groups that a model has seen
        for memory in newest:
            if memory.id in taken or not self._fits(memory, now):
                continue
            alike, away = await self._search.alike(memory)
            degraded = degraded or away
            near = [one for one in alike if one.id not in taken and self._fits(one, now)]
            group = [memory, *near[: MOST_ALIKE - 1]]
            ids = {one.id for one in group}
            if _digest(group) in known:
                asked.append(ids)
            elif near and not any(ids <= seen for seen in asked):  # a part of what it has seen says nothing new
                groups.append(group)
                taken |= ids
        return groups, degraded

    def _fits(self, memory: Memory, now: datetime) -> bool:
        return self._has(memory, now) and len(memory.content) <= MAX_TEXT_CHARS


def _digest(group: Sequence[Memory]) -> str:
    return keys.digest(*sorted(memory.id for memory in group))[:16]


async def _replay(receipt: Receipt) -> Consolidated:
    assert receipt.answer is not None
    return msgspec.json.decode(receipt.answer, type=Consolidated)
