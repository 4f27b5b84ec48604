"""One session: a conversation of any length, appended to by anyone, read under a token budget.

Theory of operation
-------------------
A session is a document (`state.State`) and a stream of messages. Appends touch only streams, so they commute:
fifty writers need no retry. Everything that decides what is visible (truncate, replace, restore) writes the document
with an expectation on its version, so two of them cannot mix; whoever loses looks again and decides anew. The last
visible range is open-ended, so an append that races a truncation lands visibly after it.

An append expects the document to exist, so nothing can be written to a session that was deleted. A handle stands for
a name, though: if the session was opened anew since, it writes to that one. What is written under an id of the
caller's is asked for in one life of the session, of which alone it stands for something: it expects the document as
that life knows it, and is asked for anew in the life that there is now (`_in_its_life`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from strongroom.arguments import checked, got_by
from strongroom.codec import encode
from strongroom.errors import CommitUnknown, Conflict, InvalidInput, NotFound
from strongroom.meant import Unsettable
from strongroom.operations import (
    NOTHING,
    OURS,
    Operation,
    Plan,
    Prepared,
    again,
    look_again,
    made_here,
    nothing,
    perform,
    repeated,
    still_pending,
)
from strongroom.scope import Scope
from strongroom.services.sessions.blanking import Erasing
from strongroom.services.sessions.erasure import delete, erase_all
from strongroom.services.sessions.handle import found
from strongroom.services.sessions.ids import find, free, reclaimed, refuse_ours, reusable
from strongroom.services.sessions.reader import SessionReader
from strongroom.services.sessions.records import message_of
from strongroom.services.sessions.state import (
    COUNT,
    CUT,
    SESSION,
    Hidden,
    State,
    bounded,
    check_id,
    dump,
    id_key,
    parse,
    size,
)
from strongroom.services.sessions.values import Cut, ErasedMessages, Message, Messages
from strongroom.services.sessions.view import (
    View,
    at,
    backward,
    fresh,
    look,
    missing,
    require_revision,
    visible,
)
from strongroom.services.sessions.writes import (
    DELETED_AT_ONCE,
    Decision,
    Drafts,
    Ids,
    appending,
    began,
    beginning_with,
    copying,
    counter_of,
    counting_anew,
    cutting,
    drafted,
    listed,
    putting,
    restoring,
    unused,
)
from strongroom.store import EXISTS, Expect, Get, Put, Range, Receipt, new_id
from strongroom.tokens import Tokenizer
from strongroom.tokens.choosing import PAIR_REACH, item, with_partners
from strongroom.tokens.counting import AnyTokenizer, remembered


@got_by("`await ctx.sessions.open(session_id)`", lambda given: isinstance(given, Scope))
@checked
class AsyncSession(SessionReader, Unsettable):
    """One conversation. Made by `ctx.sessions.open`.

    >>> async def main():
    ...     async with strongroom.aopen("memory://") as ctx:
    ...         chat = await ctx.sessions.open("support-7", user_id="ana")
    ...         await chat.append({"role": "user", "content": "Hello!"})
    ...         return [message["content"] for message in await chat.load()]
    >>> asyncio.run(main())
    ['Hello!']
    """

    _GOT_BY = " (`await ctx.sessions.get(...)`)"  # what is told to whoever gives something else, an id say

    # A call repeated with the same `commit_id` changes nothing and returns what the first one returned.

    async def append(
        self,
        messages: Messages,
        *,
        sidecars: Sequence[Any] | None = None,
        ids: Ids = "unique",
        expected_revision: str | None = None,
        commit_id: str | None = None,
    ) -> list[Message]:
        """Add messages to the end and return them as stored, with their ids.

        Never conflicts with other appends. An id that is in the session already is refused (`Conflict`), unless `ids`
        may repeat: then it is data, and the session names the message. `sidecars` has any JSON for each message, which
        comes back as `message.sidecar` and is neither counted nor sent nor searched. With an `expected_revision`, of
        `info`, it is refused (`Conflict`) if the session has changed since.
        """
        many = listed(messages)
        return await self._in_its_life(lambda: self._append(many, sidecars, ids, expected_revision, commit_id))

    async def _append(
        self,
        messages: Messages,
        sidecars: Sequence[Any] | None,
        ids: Ids,
        expected_revision: str | None,
        commit_id: str | None,
    ) -> list[Message]:
        """Append in the life of this handle; raise `AnotherLife` if that is over and the call has an id."""
        if began(self._state, self._key, commit_id) and made_here(self._scope):
            made = drafted(messages, counter_of(messages, self.tokenizer), sidecars, ids)
            first = await repeated(self._scope, beginning_with(self._key, made, commit_id))
            if first is not None:
                return await self._stored(made)(first)
        appending = self._appending(messages, sidecars, ids, expected_revision, commit_id)
        stored = await perform(self._scope, *appending)
        if stored:
            await self._appended(stored)
        return stored

    def _appending(
        self,
        messages: Messages,
        sidecars: Sequence[Any] | None,
        ids: Ids,
        expected_revision: str | None,
        commit_id: str | None,
        scope: Scope | None = None,
    ) -> Prepared[list[Message]]:
        """Check and count messages, and say how they are appended. A turn shows its own `scope`."""
        where, mine, seen = scope or self._scope, self._state, self._seen
        tokenizer = counter_of(messages, self._counter(mine.tokenizer))
        made = drafted(messages, tokenizer, sidecars, ids)
        operation = self._operation(
            "append", made.content(), commit_id, made.besides(where, tokenizer, expected_revision)
        )
        operation = msgspec.structs.replace(operation, life=mine.life)
        # What to expect of the document without a look at it; None if that is not known.
        blindly = EXISTS if commit_id is None else seen[1] if seen is not None and seen[0] == mine.life else None

        def look_next(conflict: Conflict) -> None:
            nonlocal blindly
            blindly = None

        async def attempt() -> Plan[list[Message]]:
            at = where.clock()
            if blindly is not None and not made.needs_length and expected_revision is None:
                length, versions, state = 0, dict[str, int](), mine
                expects, refusal = [Expect(self._key, blindly)], self._gone if blindly == EXISTS else look_next
            else:
                notes = [Get(id_key(self._key, one)) for one in made.ids]
                view, noted = await look(where, self.id, self._counter, *notes)
                expects, refusal = [Expect(self._key, EXISTS)], self._gone
                if commit_id is not None:
                    self._require_here(view, mine.life)
                if commit_id is not None or made.ids:  # whose notes tell a place, which must be of this very session
                    expects, refusal = [Expect(self._key, view.version)], look_again
                if expected_revision is not None:
                    require_revision(view, expected_revision)
                    expects, refusal = [Expect(self._key, view.version), Expect(view.stream, view.length)], look_again
                length, versions, state = view.length, await reusable(view, made.ids, noted), view.state
                await refuse_ours(view, made.ids)
            new = appending(where, self.id, state, tokenizer, made, length, at)
            # Without an id nobody but us will ask what this answered, so the store need not keep it.
            answer = None if commit_id is None else made.answer(at)
            result = partial(made.stored, self._naming, at)
            return Plan([*expects, *unused(self._key, made, versions)], new, result, answer, refusal)

        return Prepared(operation, attempt, self._stored(made))

    async def replace(
        self,
        messages: Messages,
        *,
        sidecars: Sequence[Any] | None = None,
        ids: Ids = "unique",
        expected_revision: str | None = None,
        commit_id: str | None = None,
    ) -> list[Message]:
        """Hide every message and append these, in one step. `restore` brings the hidden ones back."""
        tokenizer = counter_of(messages, self.tokenizer)
        made = drafted(messages, tokenizer, sidecars, ids)
        return await self._replace("replace", None, made, tokenizer, expected_revision, commit_id)

    async def replace_from(
        self,
        message_id: str,
        messages: Messages,
        *,
        sidecars: Sequence[Any] | None = None,
        ids: Ids = "unique",
        expected_revision: str | None = None,
        commit_id: str | None = None,
    ) -> list[Message]:
        """Hide a message and everything after it and append these, in one step. `restore` brings back what it hid."""
        tokenizer = counter_of(messages, self.tokenizer)
        made = drafted(messages, tokenizer, sidecars, ids)
        return await self._replace("replace_from", message_id, made, tokenizer, expected_revision, commit_id)

    async def _replace(
        self,
        name: str,
        message_id: str | None,
        made: Drafts,
        tokenizer: Tokenizer,
        expected_revision: str | None,
        commit_id: str | None,
    ) -> list[Message]:
        async def attempt(view: View) -> Decision:
            at = self._scope.clock()
            state, cut, _ = cutting(view, view.first if message_id is None else (await find(view, message_id)).index)
            # Whoever appends meanwhile would come before these messages, so has to be hidden too: then look again.
            versions = await free(msgspec.structs.replace(view, state=state), made.ids)
            expects = [Expect(view.stream, view.length), *unused(view.document, made, versions)]
            new = appending(self._scope, self.id, state, tokenizer, made, view.length, at)
            return Decision([*new, Put(view.document, dump(state), view.tags), *cut], expects, made.answer(at))

        content = made.content(message_id=message_id)
        operation = self._operation(name, content, commit_id, made.besides(self._scope, tokenizer, expected_revision))
        return await self._decide(operation, attempt, self._stored(made), expected_revision)

    async def pop(self, *, expected_revision: str | None = None, commit_id: str | None = None) -> Message | None:
        """Hide the newest message and return it; None if there is none. Recorded: `restore` brings it back."""

        seen: dict[int, Message] = {}

        async def attempt(view: View) -> Decision:
            if not view.stretches:
                return Decision([], answer=encode(None))
            newest = await backward(view, view.length, 1)
            if not newest:
                raise missing(self.id)
            message = seen[newest[0].index] = view.message(newest[0])
            state, cut, _ = cutting(view, message.index)
            writes = [Put(view.document, dump(state), view.tags), *cut]
            return Decision(writes, [Expect(view.stream, view.length)], encode([message.index, message.tokens]))

        async def told(receipt: Receipt) -> Message | None:
            found = None if receipt.answer is None else receipt.answer.load()
            if found is None:
                return None
            index, tokens = found
            if index in seen:
                return seen[index]
            part = await self._scope.get(Range(self._stream, index, index + 1))
            if not part.records:
                raise missing(self.id)
            return message_of(part.records[0], self._naming, tokens)

        besides = None if expected_revision is None else encode({"expected_revision": expected_revision})
        operation = self._operation("pop", NOTHING, commit_id, besides)
        return await self._decide(operation, attempt, told, expected_revision)

    async def truncate_from(self, message_id: str, *, commit_id: str | None = None) -> Cut:
        """Hide a message and everything after it. Recorded: `restore` brings them back."""

        async def attempt(view: View) -> Decision:
            state, cut, hidden = cutting(view, (await find(view, message_id)).index)
            return Decision([Put(view.document, dump(state), view.tags), *cut], answer=encode(hidden))

        return await self._decide(
            self._operation("truncate_from", encode({"message_id": message_id}), commit_id), attempt, _cut
        )

    async def restore(self, *, commit_id: str | None = None) -> Cut:
        """Bring back what the newest `truncate_from`, `replace`, `replace_from` or `pop` hid; again for the one before.

        Messages come back at their place in the order of arrival. Refused (`Conflict`) if an id among them has been
        given to another message since.
        """

        async def attempt(view: View) -> Decision:
            if view.state.cut is None:
                raise NotFound(f"session {self.id!r} has no cut to undo", kind=CUT, id=self.id)
            part = await self._scope.get(Range(view.side(CUT), view.state.cut, None, 1))
            if not part.records or part.records[0].body is None:
                raise missing(self.id)
            hidden = msgspec.json.decode(part.records[0].body, type=Hidden)
            state, undone = restoring(view, hidden)
            expects, ids = await reclaimed(view, hidden.ranges)
            back = size(bounded(tuple(hidden.ranges), view.first, view.length))
            return Decision([Put(view.document, dump(state), view.tags), *undone, *ids], expects, encode(back))

        return await self._decide(self._operation("restore", NOTHING, commit_id), attempt, _cut)

    async def erase(
        self,
        message_ids: Sequence[str] = (),
        *,
        before: str | None = None,
        all: bool = False,
        commit_id: str | None = None,
    ) -> ErasedMessages:
        """Remove the content of messages for good, visible or not: those named, and all that came before one of them.

        Their places and times stay; summaries and vectors that were made of them go too, and what an adapter keeps of
        them. Nothing brings them back. `all` leaves nothing of the session but its name: no message, title, metadata.
        """
        wanted = [check_id(one) for one in message_ids]
        if not wanted and before is None and not all:
            raise InvalidInput("say which messages to erase: message_ids, before, or all; nothing changed")
        if all and (wanted or before is not None):
            raise InvalidInput("all messages are erased, or some: say which; nothing changed", path="all")
        if len(wanted) > DELETED_AT_ONCE:
            raise InvalidInput(
                f"name at most {DELETED_AT_ONCE:,} at once, not {len(wanted):,}, or say `before` which message all are "
                "erased; nothing changed",
                path="message_ids",
            )

        async def told(receipt: Receipt) -> ErasedMessages:
            assert receipt.answer is not None
            pending = receipt.pending
            if receipt.repeated:
                try:
                    pending = await still_pending(self._scope, self._stream, receipt)
                except CommitUnknown as problem:
                    problem.commit_id = OURS + receipt.id if commit_id is None else commit_id
                    raise
            return ErasedMessages(self.id, receipt.answer.load(), pending is None, pending)

        if all:
            # By its name alone, as a deletion: a repeat finds no session, and takes none that was opened anew since.
            operation = Operation("session.erase", self._key, encode({"all": True}), commit_id)
            return await told(await perform(self._scope, operation, lambda: erase_all(self._scope, self.id), again))
        erasing = Erasing(wanted, before)
        operation = self._operation("erase", encode({"message_ids": wanted, "before": before}), commit_id)
        # Nothing undoes it, so an id under which some was erased erases nothing else under that name.
        operation = msgspec.structs.replace(operation, of_all_lives=True)
        return await self._decide(operation, erasing.decide, told, first=erasing.steps)

    async def delete(self, *, commit_id: str | None = None) -> None:
        """Remove the session and its messages for good.

        The session is gone at once; the messages of a long one follow in steps before this returns. Should the process
        die in between, what is left of them cannot be seen, and is removed by whoever deletes or creates sessions next.
        """
        await delete(self._scope, self.id, commit_id)

    async def rename(self, title: str, *, commit_id: str | None = None) -> None:
        """Give the session another title. Its id stays."""
        operation = self._operation("rename", encode({"title": title}), commit_id)
        await self._change(operation, lambda state: msgspec.structs.replace(state, title=title))

    async def set_metadata(self, metadata: Mapping[str, Any], *, commit_id: str | None = None) -> None:
        """Replace the session's metadata, any JSON object."""
        value = dict(metadata)
        operation = self._operation("set_metadata", encode({"metadata": value}), commit_id)
        await self._change(operation, lambda state: msgspec.structs.replace(state, metadata=value))

    async def pin(self, message_id: str, *, commit_id: str | None = None) -> None:
        """Keep a message in every window, whatever its age; a tool call together with its answers."""

        async def attempt(view: View) -> Decision:
            found = (await find(view, message_id)).index
            near = await at(view, range(max(found - PAIR_REACH, 0), found + PAIR_REACH + 1))
            if found not in near:
                raise missing(self.id)
            items = {index: item(view.message(one), index, one.weight) for index, one in near.items()}
            pins = {*view.state.pins, found, *with_partners([found], items)[0]}
            return putting(view, msgspec.structs.replace(view.state, pins=tuple(sorted(pins))))

        await self._decide(self._operation("pin", encode({"message_id": message_id}), commit_id), attempt, nothing)

    async def unpin(self, message_id: str, *, commit_id: str | None = None) -> None:
        """Let a pinned message go again."""

        async def attempt(view: View) -> Decision:
            found = (await find(view, message_id)).index
            pins = tuple(index for index in view.state.pins if index != found)
            return putting(view, msgspec.structs.replace(view.state, pins=pins))

        await self._decide(self._operation("unpin", encode({"message_id": message_id}), commit_id), attempt, nothing)

    async def count_with(self, tokenizer: AnyTokenizer, *, commit_id: str | None = None) -> None:
        """Make this the session's tokenizer.

        What is stored already is counted anew when it is read, and for good by the calls that follow, block by block.
        """
        chosen = remembered(tokenizer)
        self._known[chosen.name] = chosen

        async def attempt(view: View) -> Decision:
            counts = await self._scope.get(Range(view.side(COUNT), 0, 0))
            return counting_anew(view, chosen.name, counts.length)[1]

        await self._decide(
            self._operation("count_with", encode({"tokenizer": chosen.name}), commit_id), attempt, nothing
        )
        document = await self._scope.get(Get(self._key))
        if document is not None:
            state = parse(document.value)
            self._state, self._seen = state, (state.life, document.version)

    async def fork(
        self,
        at: str | None = None,
        *,
        session_id: str | None = None,
        title: str | None = None,
        commit_id: str | None = None,
    ) -> AsyncSession:
        """Copy the visible messages, up to and including message `at`, into a new session, in one commit.

        Ids that callers chose are kept; the others are named anew. The two go their own ways from here.
        """
        target = self._scope.key(SESSION, session_id if session_id is not None else new_id())

        def made_of(id: str, state: State, version: int | None = None) -> AsyncSession:
            return AsyncSession(self._scope, id, state, self._known.values(), self._meaning, version)

        async def copy(view: View) -> Plan[AsyncSession]:
            stop = view.length if at is None else (await find(view, at)).index + 1
            return await copying(view, await visible(view, stop), target, title, partial(made_of, target.id))

        async def attempt(mine: str) -> Plan[AsyncSession] | None:
            view = await self._view()
            if commit_id is not None:
                self._require_here(view, mine)
            return await fresh(view, copy(view))

        async def replay(receipt: Receipt) -> AsyncSession:
            assert receipt.answer is not None
            return made_of(*await found(self._scope, *receipt.answer.load()))

        content = encode({"at": at, "session_id": session_id, "title": title})

        async def forked() -> AsyncSession:
            operation = self._operation("fork", content, commit_id)
            return await perform(self._scope, operation, lambda: attempt(operation.life), replay)

        return await self._in_its_life(forked)


async def _cut(receipt: Receipt) -> Cut:
    assert receipt.answer is not None
    return Cut(receipt.answer.load())
