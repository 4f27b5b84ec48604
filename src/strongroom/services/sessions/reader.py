"""What a session can be asked: its messages, windows over them, searches, and what is left to do for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from strongroom.arguments import Count, checked
from strongroom.errors import Conflict, InvalidInput
from strongroom.queries import require_query
from strongroom.retrieval import Reranker
from strongroom.retry import attempts
from strongroom.services.sessions.handle import Handle, info
from strongroom.services.sessions.ids import find
from strongroom.services.sessions.recounts import recount, uncounted
from strongroom.services.sessions.search import Finder, Mode
from strongroom.services.sessions.summaries import Summarizer, summary_window
from strongroom.services.sessions.values import Backlog, Hits, Message, SessionInfo
from strongroom.services.sessions.view import (
    PAGE,
    backward,
    both,
    forward,
    fresh,
    learn,
    look,
    missing,
    visible,
)
from strongroom.services.sessions.windows import Filter, gather, priority_window, recent_window, relevant_window
from strongroom.store import Tail
from strongroom.tokens import Tokenizer
from strongroom.tokens.choosing import KEPT_ROLES, Dangling, Strategy, check_budget
from strongroom.tokens.fitting import RELEVANT_HITS, share_of
from strongroom.tokens.windows import Frame, Window, frame
from strongroom.values import Listing


@checked
class SessionReader(Handle):
    """The reading half of a session."""

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

    async def load(self, k: Count | None = None) -> list[Message]:
        """Return the newest `k` messages in order, or all of them."""
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
        return view.messages(records)

    async def page(self, *, after: str | None = None, limit: Count = 100, reverse: bool = False) -> Listing[Message]:
        """Return a page of messages, from the oldest on, or with `reverse` from the newest back.

        Within a page they are always in order of arrival. `after` is the `next` of the page before.
        """
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
        return Listing(view.messages(page), None if following is None else str(following))

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
        dangling: Dangling = "leave_out",
        starts_with: str | None = None,
    ) -> Window:
        """Choose the messages to send, at most `max_tokens` of them, and say what was left out and why.

        System messages and pins are always in, or it is an error (`BudgetExceeded`). `system`, `tools` and
        `reserve_tokens` are counted in. `where` filters before the cut. `relevant` needs a `query`,
        `summarize_oldest` a `summarizer`, which is given messages and returns a text; without one, or if it fails,
        the oldest are dropped and the receipt says why. Half a tool call is left out and the receipt says so, unless
        `dangling` is "keep"; with `starts_with="user"` so is what comes before the first message of that role.
        """
        check_budget(max_tokens, strategy)
        if strategy == "relevant" and query is None:
            raise InvalidInput("strategy 'relevant' needs a query")
        if query is not None:
            require_query(query)

        def framed(tokenizer: Tokenizer) -> Frame:
            return frame(
                max_tokens,
                strategy,
                tokenizer,
                system=system,
                tools=[tools] if isinstance(tools, Mapping) else tools,
                reserve_tokens=reserve_tokens,
                keep_roles=keep_roles,
                dangling=dangling,
                starts_with=starts_with,
            )

        gathered = await gather(self._scope, self.id, self._newest, self._counter, framed, max_tokens, where)
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

    async def search(
        self, query: str, *, k: Count = 5, mode: Mode | None = None, rerank: Reranker | None = None
    ) -> Hits:
        """Return the messages that answer a query best, best first, each with its score and what spoke for it.

        It is hybrid, and goes by words alone without an embedder (`ctx.sessions.using`). With one, messages that have
        no vector yet get theirs first, a thousand at most; `degraded` says how many are left, or why words alone
        decided: also that there is no embedder, if `hybrid` was asked for.
        `rerank(query, texts)` may give the best fifty scores of its own; if it fails, `degraded` says so.
        """
        return await Finder(self._scope, self._counter, self._meaning).search(query, k, mode, self.id, rerank)

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


def _cursor(after: str | None) -> int | None:
    if after is None:
        return None
    if not after.isdecimal() or len(after) > 18:
        raise InvalidInput(f"a cursor must be one that an earlier page returned, not {after!r:.40}")
    return int(after)
