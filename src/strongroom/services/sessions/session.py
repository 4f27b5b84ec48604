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

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from strongroom.arguments import checked
from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.services.sessions.handle import TRIES, AnyTokenizer, Handle, Plan, contended, info, putting
from strongroom.services.sessions.ids import find, reclaimed, refuse_ours, reusable, taken
from strongroom.services.sessions.recounts import recount, uncounted
from strongroom.services.sessions.search import Finder, Mode
from strongroom.services.sessions.state import (
    COUNT,
    CUT,
    MESSAGE,
    SESSION,
    Hidden,
    State,
    beginning,
    bounded,
    dump,
    size,
)
from strongroom.services.sessions.summaries import Summarizer, summary_window
from strongroom.services.sessions.values import Backlog, Cut, Hits, Message, SessionInfo
from strongroom.services.sessions.view import View, at, backward, forward, learn, look
from strongroom.services.sessions.windows import Filter, gather, priority_window, recent_window, relevant_window
from strongroom.services.sessions.writes import (
    appending,
    batch,
    counting_anew,
    cutting,
    deleting,
    deleting_rest,
    restoring,
    stored,
    unused,
)
from strongroom.store import (
    EXISTS,
    Expect,
    Get,
    Put,
    Range,
    Tail,
    new_id,
)
from strongroom.tokens import Tokenizer
from strongroom.tokens import tokenizer as find_tokenizer
from strongroom.tokens.choosing import KEPT_ROLES, PAIR_REACH, Strategy, check_budget, item, with_partners
from strongroom.tokens.fitting import RELEVANT_HITS, share_of
from strongroom.tokens.windows import Frame, Window, frame
from strongroom.values import Listing

Messages = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@checked
class AsyncSession(Handle):
    """One conversation. Made by `ctx.sessions.open`."""

    # ---- writing ----------------------------------------------------------------------------------------------------

    async def append(self, messages: Messages, *, commit_id: str | None = None) -> list[Message]:
        """Add messages to the end and return them as stored, with their ids.

        Never conflicts with other appends. An id that is in the session already is refused (`Conflict`); repeating a
        call with the same `commit_id` changes nothing and returns what the first one stored.
        """
        counter = self._counter(self._state.tokenizer)
        made = batch(messages, counter)
        if not made.drafts:
            return []
        session = self._scope.key(SESSION, self.id)
        length, versions = 0, dict[str, int]()
        for _ in range(TRIES):
            if made.needs_length:
                view = await self._view()
                length = view.length
                await refuse_ours(view, made.ids)
            writes = appending(self._scope, self.id, self._state, counter, made, length)
            try:
                receipt = await self._commit(
                    [Expect(session, EXISTS), *unused(session, made, versions)], writes, commit_id
                )
            except Conflict as problem:
                if problem.key == session:
                    raise self._missing() from None
                versions = await reusable(await self._view(), made.ids)
                continue
            start = receipt.versions[0] - len(made.drafts)
            await self._appended(start, receipt.versions[0])
            if commit_id is not None:
                # The receipt may be that of an earlier call: return what that one stored, not what came now.
                return await self._stored(start, receipt.versions[0])
            return stored(made, self._naming, start, writes)
        raise contended(self.id)

    async def replace(self, messages: Messages) -> list[Message]:
        """Hide every message and append these, in one step. `restore` brings the hidden ones back."""

        async def attempt(view: View) -> Plan:
            made = batch(messages, view.tokenizer)
            state, writes, _ = cutting(view, view.first)
            # Whoever appends meanwhile would come before these messages, so has to be hidden too: then look again.
            expects = [
                Expect(view.stream, view.length),
                *unused(view.document, made, await taken(view.scope, view.document, made.ids)),
            ]
            new = appending(self._scope, self.id, state, view.tokenizer, made, view.length) if made.drafts else []
            return Plan([*new, Put(view.document, dump(state), view.tags), *writes], expects, len(made.drafts))

        count, receipt = await self._decide(attempt)
        return await self._stored(receipt.versions[0] - count, receipt.versions[0]) if count else []

    async def truncate_from(self, message_id: str) -> Cut:
        """Hide a message and everything after it. Recorded: `restore` brings them back."""

        async def attempt(view: View) -> Plan:
            state, writes, hidden = cutting(view, (await find(view, message_id)).index)
            return Plan([Put(view.document, dump(state), view.tags), *writes], result=Cut(hidden))

        return (await self._decide(attempt))[0]  # type: ignore[no-any-return]

    async def restore(self) -> Cut:
        """Bring back what the newest `truncate_from` or `replace` hid; again for the one before it.

        Messages come back at their place in the order of arrival. Refused (`Conflict`) if an id among them has been
        given to another message since.
        """

        async def attempt(view: View) -> Plan:
            if view.state.cut is None:
                raise NotFound(f"session {self.id!r} has no cut to undo; nothing changed", kind=CUT, id=self.id)
            (part,) = await self._scope.store.read([Range(view.side(CUT), view.state.cut, None, 1)])
            hidden = msgspec.json.decode(part.records[0].body, type=Hidden)
            state, writes = restoring(view, hidden)
            expects, ids = await reclaimed(view, hidden.ranges)
            result = Cut(size(bounded(tuple(hidden.ranges), view.first, view.length)))
            return Plan([Put(view.document, dump(state), view.tags), *writes, *ids], expects, result)

        return (await self._decide(attempt))[0]  # type: ignore[no-any-return]

    async def delete(self) -> None:
        """Remove the session and its messages for good.

        The session is gone at once; the messages of a long one follow in steps before this returns. Should the process
        die in between, what is left of them can not be seen, and goes when a session of that id is deleted again.
        """

        async def attempt(view: View) -> Plan:
            return Plan(deleting(view), result=deleting_rest(view))

        rest, _ = await self._decide(attempt)
        for write in rest:
            await self._commit([], [write], None)

    async def rename(self, title: str) -> None:
        """Give the session another title. Its id stays."""
        await self._change(lambda state: msgspec.structs.replace(state, title=title))

    async def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replace the session's metadata, any JSON object."""
        value = dict(metadata)
        encode(value)
        await self._change(lambda state: msgspec.structs.replace(state, metadata=value))

    async def pin(self, message_id: str) -> None:
        """Keep a message in every window, whatever its age; a tool call together with its answers."""

        async def attempt(view: View) -> Plan:
            found = (await find(view, message_id)).index
            near = await at(view, range(max(found - PAIR_REACH, 0), found + PAIR_REACH + 1))
            items = {index: item(view.message(one), index, one.weight) for index, one in near.items()}
            pins = {*view.state.pins, found, *with_partners([found], items)[0]}
            return putting(view, msgspec.structs.replace(view.state, pins=tuple(sorted(pins))))

        await self._decide(attempt)

    async def unpin(self, message_id: str) -> None:
        """Let a pinned message go again."""

        async def attempt(view: View) -> Plan:
            found = (await find(view, message_id)).index
            pins = tuple(index for index in view.state.pins if index != found)
            return putting(view, msgspec.structs.replace(view.state, pins=pins))

        await self._decide(attempt)

    async def count_with(self, tokenizer: AnyTokenizer) -> None:
        """Make this the session's tokenizer.

        What is stored already is counted anew when it is read, and for good by the calls that follow, block by block.
        """
        self._chosen = find_tokenizer(tokenizer)
        name = self._chosen.name
        if self._state.tokenizer == name:
            return

        async def attempt(view: View) -> Plan:
            if view.state.tokenizer == name:
                return Plan([], result=view.state)  # somebody else was first, and may have counted some already
            (counts,) = await self._scope.store.read([Range(view.side(COUNT), 0, 0)])
            state, writes = counting_anew(view, name, counts.length)
            return Plan([*putting(view, state).writes, *writes], [Expect(view.side(COUNT), counts.length)], state)

        self._state, _ = await self._decide(attempt)

    async def fork(
        self, at: str | None = None, *, session_id: str | None = None, title: str | None = None
    ) -> AsyncSession:
        """Copy the visible messages, up to and including message `at`, into a new session, in one commit.

        Ids that callers chose are kept; the others are named anew. The two go their own ways from here.
        """
        view = await self._view()
        stop = view.length if at is None else (await find(view, at)).index + 1
        records = await self._visible(view, stop)
        made = batch([view.message(record) for record in records], view.tokenizer, [record.at for record in records])
        counter = view.tokenizer.name
        target = self._scope.key(SESSION, session_id if session_id is not None else new_id())
        (end,) = await self._scope.store.read([Range(self._scope.key(MESSAGE, target.id), 0, 0)])
        state = State(
            title or view.state.title,
            self._scope.clock(),
            counter,
            counter,
            beginning(end),
            metadata=view.state.metadata,
            forked_from=self.id,
        )
        # Nothing of an earlier session of that id is visible, so its message ids are free.
        expects = [Expect(target, 0), *unused(target, made, await taken(self._scope, target, made.ids))]
        new = appending(self._scope, target.id, state, view.tokenizer, made, 0) if records else []
        receipt = await self._commit(expects, [*new, Put(target, dump(state), view.tags)], None)
        (document,) = await self._scope.store.read([Get(target)])
        fork = AsyncSession(self._scope, document, self._chosen, self._meaning)
        start = receipt.versions[0] - len(records)
        pins = [place for place, one in enumerate(records, start) if one.index in view.state.pins]
        if pins:
            await fork._change(lambda state: msgspec.structs.replace(state, pins=tuple(pins)))
        return fork

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def load(self, k: int | None = None) -> list[Message]:
        """Return the newest `k` messages in order, or all of them."""
        if k is not None and k < 0:
            raise InvalidInput(f"k must be a whole number, 0 or more, not {k!r:.40}")
        # The newest records of all are nearly always the newest visible ones, so they come in the same round trip.
        view, (newest,) = await look(
            self._scope, self.id, self._counter, [Tail(self._scope.key(MESSAGE, self.id), 0 if k is None else k)]
        )
        await self._go_on(view)
        if k is None:
            records = await self._visible(view, view.length)
        elif len(newest.records) == k and all(view.shows(record.index) for record in newest.records):
            records = newest.records
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
        view = await self._view()
        return view.message(await find(view, message_id))

    async def info(self) -> SessionInfo:
        """Return the session's title, metadata, tokenizer and size."""
        document, end = await self._scope.store.read(
            [Get(self._scope.key(SESSION, self.id)), Range(self._scope.key(MESSAGE, self.id), 0, 0)]
        )
        if document is None:
            raise self._missing()
        return info(document, end)

    async def window(
        self,
        *,
        max_tokens: int,
        strategy: Strategy = "truncate_oldest",
        where: Filter | None = None,
        query: str | None = None,
        summarizer: Summarizer | None = None,
        summary_tokens: int | None = None,
        input_tokens: int | None = None,
        system: str | None = None,
        tools: Sequence[Any] = (),
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
            raise InvalidInput("strategy 'relevant' needs a query; nothing was read")

        def framed(tokenizer: Tokenizer) -> Frame:
            return frame(
                max_tokens,
                strategy,
                tokenizer,
                system=system,
                tools=tools,
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
        return await Finder(self._scope, self._any_counter, self._meaning).search(query, k, mode, self.id)

    async def backlog(self) -> Backlog:
        """Return what is left to embed and to count anew, and why the last try failed."""
        view, _ = await look(self._scope, self.id, self._any_counter)
        unembedded = 0 if self._meaning is None else await self._meaning.left(view)
        left = await uncounted(view)
        return Backlog(unembedded, left, self._failure if unembedded or left else None)

    async def wait(self) -> int:
        """Finish now what ordinary calls do piece by piece: counting anew, and embedding. Return how many it embedded.

        Raises what stopped it; what was done until then stays done.
        """
        for _ in range(TRIES):
            view = await self._view()
            try:
                await recount(view)
            except Conflict:
                continue
            return 0 if self._meaning is None else (await self._meaning.catch_up(view)).embedded
        raise contended(self.id)


def _cursor(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isdecimal() or len(after) > 18:
        raise InvalidInput(f"a cursor must be one that an earlier page returned, not {after!r:.40}")
    return int(after)
