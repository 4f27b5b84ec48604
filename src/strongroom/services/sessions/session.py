"""One session: a conversation of any length, appended to by anyone, read under a token budget.

Theory of operation
-------------------
A session is a document (`session_state.State`) and a stream of messages. Appends touch only streams, so they commute:
fifty writers need no retry. Everything that decides what is visible (truncate, replace, restore) writes the document
with an expectation on its version, so two of them can not mix; whoever loses looks again and decides anew. The last
visible range is open-ended, so an append that races a truncation lands visibly after it.

An append expects the document to exist, so nothing can be written to a session that was deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from strongroom.arguments import checked
from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.operations import NOTHING, Plan, again, itself, nothing, perform
from strongroom.retry import attempts
from strongroom.services.sessions.counters import AnyTokenizer, remembered
from strongroom.services.sessions.deletions import delete
from strongroom.services.sessions.forks import copying
from strongroom.services.sessions.handle import Handle, found, info
from strongroom.services.sessions.ids import find, free, reclaimed, refuse_ours, reusable
from strongroom.services.sessions.records import message_of
from strongroom.services.sessions.recounts import recount, uncounted
from strongroom.services.sessions.search import Finder, Mode
from strongroom.services.sessions.state import (
    COUNT,
    CUT,
    SESSION,
    Hidden,
    bounded,
    dump,
    id_key,
    parse,
    size,
)
from strongroom.services.sessions.summaries import Summarizer, summary_window
from strongroom.services.sessions.values import Backlog, Cut, Hits, Message, Messages, SessionInfo
from strongroom.services.sessions.view import (
    PAGE,
    View,
    at,
    backward,
    both,
    forward,
    fresh,
    learn,
    look,
    missing,
    require_revision,
    visible,
)
from strongroom.services.sessions.windows import Filter, gather, priority_window, recent_window, relevant_window
from strongroom.services.sessions.writes import (
    Batch,
    Decision,
    Ids,
    appending,
    batch,
    counter_of,
    counting_anew,
    cutting,
    putting,
    restoring,
    unused,
)
from strongroom.store import EXISTS, Expect, Get, Put, Range, Receipt, Tail, new_id
from strongroom.tokens import Tokenizer
from strongroom.tokens.choosing import KEPT_ROLES, PAIR_REACH, Strategy, check_budget, item, with_partners
from strongroom.tokens.fitting import RELEVANT_HITS, share_of
from strongroom.tokens.windows import Frame, Window, frame
from strongroom.values import Listing


@checked
class AsyncSession(Handle):
    """One conversation. Made by `ctx.sessions.open`."""

    # ---- writing ----------------------------------------------------------------------------------------------------
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
        tokenizer = counter_of(messages, self._counter(self._state.tokenizer))
        made = batch(messages, tokenizer, sidecars, ids)

        async def attempt() -> Plan[Receipt]:
            length, versions, at = 0, dict[str, int](), self._scope.clock()
            expects, refusal = [Expect(self._key, EXISTS)], self._gone
            if made.needs_length or expected_revision is not None:
                notes = [Get(id_key(self._key, one)) for one in made.ids]
                view, noted = await look(self._scope, self.id, self._counter, *notes)
                if expected_revision is not None:
                    require_revision(view, expected_revision)
                    expects, refusal = [Expect(self._key, view.version), Expect(view.stream, view.length)], look_again
                length, versions = view.length, await reusable(view, made.ids, noted)
                await refuse_ours(view, made.ids)
            new = appending(self._scope, self.id, self._state, tokenizer, made, length, at)
            return Plan([*expects, *unused(self._key, made, versions)], new, itself, made.answer(at), refusal)

        content = made.content(expected_revision=expected_revision)
        operation = self._operation("append", content, commit_id, made.counts(self._scope, tokenizer))
        stored = await self._stored(made)(await perform(self._scope, operation, attempt, again))
        if stored:
            await self._appended(stored)
        return stored

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
        tokenizer = counter_of(messages, self._counter(self._state.tokenizer))
        made = batch(messages, tokenizer, sidecars, ids)
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
        tokenizer = counter_of(messages, self._counter(self._state.tokenizer))
        made = batch(messages, tokenizer, sidecars, ids)
        return await self._replace("replace_from", message_id, made, tokenizer, expected_revision, commit_id)

    async def _replace(
        self,
        name: str,
        message_id: str | None,
        made: Batch,
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

        content = made.content(message_id=message_id, expected_revision=expected_revision)
        operation = self._operation(name, content, commit_id, made.counts(self._scope, tokenizer))
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

        content = encode({} if expected_revision is None else {"expected_revision": expected_revision})
        return await self._decide(self._operation("pop", content, commit_id), attempt, told, expected_revision)

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

    async def delete(self, *, commit_id: str | None = None) -> None:
        """Remove the session and its messages for good.

        The session is gone at once; the messages of a long one follow in steps before this returns. Should the process
        die in between, what is left of them can not be seen, and goes when this is called once more.
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
            self._state = parse(document.value)

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

        async def copy(view: View) -> Plan[Receipt]:
            stop = view.length if at is None else (await find(view, at)).index + 1
            return await copying(view, await visible(view, stop), target, title)

        async def attempt() -> Plan[Receipt] | None:
            view = await self._view()
            return await fresh(view, copy(view))

        operation = self._operation("fork", encode({"at": at, "session_id": session_id, "title": title}), commit_id)
        receipt = await perform(self._scope, operation, attempt, again)
        assert receipt.answer is not None
        id, state = await found(self._scope, receipt.answer.load())
        return AsyncSession(self._scope, id, state, self._known.values(), self._meaning)

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Meet every visible message once, the oldest first, and those that arrive meanwhile after them."""
        after: str | None = None
        while True:
            page = await self.page(after=after, limit=PAGE)
            for message in page:
                yield message
            after = page.next
            if after is None:
                return

    async def load(self, k: int | None = None) -> list[Message]:
        """Return the newest `k` messages in order, or all of them."""
        if k is not None and k < 0:
            raise InvalidInput(f"k must be a whole number, 0 or more, not {k!r:.40}")
        # The newest records of all are nearly always the newest visible ones, so they come in the same round trip.
        tail = Tail(self._stream, 0 if k is None else k)
        view, (newest,) = await look(self._scope, self.id, self._counter, tail)
        await self._go_on(view)
        if k is None:
            records = await visible(view, view.length)
        elif len(newest.records) == k and all(view.shows(record.index) for record in newest.records):
            records = list(newest.records)
            await learn(view, records)
        else:
            records = await backward(view, view.length, k)
        return [view.message(record) for record in records]

    async def page(self, *, after: str | None = None, limit: int = 100, reverse: bool = False) -> Listing[Message]:
        """Return a page of messages, from the oldest on, or with `reverse` from the newest back.

        Within a page they are always in order of arrival. `after` is the `next` of the page before.
        """
        if type(limit) is not int or limit < 1:
            raise InvalidInput(f"limit must be a whole number, 1 or more, not {limit!r:.40}")
        edge = _cursor(after)
        view = await self._view()
        await self._go_on(view)
        if reverse:
            records = await backward(view, view.length if edge is None else edge, limit + 1)
            page = records[-limit:]
            following = page[0].index if len(records) > limit else None
        else:
            records = await forward(view, edge or 0, limit + 1)
            page = records[:limit]
            following = page[-1].index + 1 if len(records) > limit else None
        return Listing((view.message(record) for record in page), None if following is None else str(following))

    async def get(self, message_id: str) -> Message:
        """Return one visible message, or raise `NotFound`."""
        for _ in attempts(f"session {self.id!r}"):
            view = await self._view()
            record = await fresh(view, find(view, message_id))
            if record is not None:
                return view.message(record)
        raise AssertionError("attempts() raises when it is enough")

    async def info(self) -> SessionInfo:
        """Return the session's title, metadata, tokenizer and size."""
        document, end = await self._scope.read(*both(self._scope, self.id))
        if document is None:
            raise missing(self.id)
        return info(document, end)

    async def window(
        self,
        max_tokens: int,
        *,
        strategy: Strategy = "truncate_oldest",
        where: Filter | None = None,
        query: str | None = None,
        summarizer: Summarizer | None = None,
        summary_tokens: int | None = None,
        input_tokens: int | None = None,
        system: str | None = None,
        tools: Mapping[str, Any] | Sequence[Any] = (),
        reserve_tokens: int = 0,
        keep_roles: Sequence[str] = KEPT_ROLES,
    ) -> Window:
        """Choose the messages to send, at most `max_tokens` of them, and say what was left out and why.

        System messages and pins are always in, or it is an error (`BudgetExceeded`). `system`, `tools` and
        `reserve_tokens` are counted in. `where` filters before the cut. `relevant` needs a `query`,
        `summarize_oldest` a `summarizer`, which is given messages and returns a text; without one, or if it fails,
        the oldest are dropped and the receipt says why.
        """
        check_budget(max_tokens, strategy)
        if strategy == "relevant" and query is None:
            raise InvalidInput("strategy 'relevant' needs a query")

        def framed(tokenizer: Tokenizer) -> Frame:
            return frame(
                max_tokens,
                strategy,
                tokenizer,
                system=system,
                tools=[tools] if isinstance(tools, Mapping) else tools,
                reserve_tokens=reserve_tokens,
                keep_roles=keep_roles,
            )

        gathered = await gather(self._scope, self.id, self._counter, framed, max_tokens, where)
        await self._go_on(gathered.reading.view)
        whole = gathered.everything()
        if whole is not None:
            return whole
        if strategy == "priority":
            return await priority_window(gathered)
        if strategy == "relevant":
            hits = await self.search(query or "", k=RELEVANT_HITS)
            return await relevant_window(gathered, [hit.message.index for hit in hits])
        if strategy == "summarize_oldest":
            share = share_of(gathered.framing, gathered.room, summary_tokens, input_tokens)
            return await summary_window(gathered, summarizer, share)
        return recent_window(gathered, must=strategy == "recent_only")

    async def search(self, query: str, *, k: int = 5, mode: Mode = "hybrid") -> Hits:
        """Return the messages that answer a query best, best first, each with its score and what spoke for it.

        Without an embedder (`ctx.sessions.using`) `hybrid` goes by words alone. With one, messages that have no vector
        yet get theirs first, a thousand at most; `degraded` says how many are left, or why words alone decided.
        """
        return await Finder(self._scope, self._counter, self._meaning).search(query, k, mode, self.id)

    async def backlog(self) -> Backlog:
        """Return what is left to embed and to count anew, and why the last try failed."""
        view = await self._view()
        unembedded = 0 if self._meaning is None else await self._meaning.left(view)
        left = await uncounted(view)
        return Backlog(unembedded, left, self._failure if unembedded or left else None)

    async def wait(self) -> int:
        """Finish now what ordinary calls do piece by piece: counting anew, and embedding. Return how many it embedded.

        Raises what stopped it; what was done until then stays done.
        """
        for _ in attempts(f"session {self.id!r}"):
            view = await self._view()
            try:
                await recount(view)
            except Conflict:
                continue
            return 0 if self._meaning is None else (await self._meaning.catch_up(view)).embedded
        raise AssertionError("attempts() raises when it is enough")


def look_again(conflict: Conflict) -> None:
    """The refusal of what can tell by looking again why it was refused."""


async def _cut(receipt: Receipt) -> Cut:
    assert receipt.answer is not None
    return Cut(receipt.answer.load())


def _cursor(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isdecimal() or len(after) > 18:
        raise InvalidInput(f"a cursor must be one that an earlier page returned, not {after!r:.40}")
    return int(after)
