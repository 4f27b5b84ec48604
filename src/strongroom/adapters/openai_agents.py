"""The OpenAI Agents SDK on Strongroom: `StrongroomSession` keeps a conversation as an ordinary session.

An item is a message of the session exactly as it was given; its id is data of the SDK's, which repeats ids. Popping,
clearing and compacting hide items, so `restore` on the session brings the originals back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from strongroom.adapters.extras import without

try:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ModuleNotFoundError as missing:
    raise without(missing, "openai-agents") from None

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.adapters.exact import messages_of, restored
from strongroom.adapters.hints import Instead, told_where
from strongroom.adapters.items import Seen, kept, see
from strongroom.errors import Closed, Conflict, NotFound
from strongroom.retry import attempts
from strongroom.services.owning import OWNER, require_still
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import SESSION
from strongroom.services.sessions.values import Message

Items = list[TResponseInputItem]
T = TypeVar("T")


@dataclass(frozen=True)
class Snapshot:
    """The newest items of a session, and a way to replace a suffix of them unless the session has changed since."""

    items: Items
    complete: bool
    replace_suffix: Callable[[int, Items], Awaitable[bool]]


class StrongroomSession(Closing):
    """One conversation: `Runner.run(agent, "Hi", session=StrongroomSession("support-7", "agent.db"))`.

    `where` is a context of `strongroom.open` or `strongroom.connect`, or an address. Use it from any event loop; the
    same conversation is `ctx.sessions.get(session_id)`. `user_id` says whose it is, which `ctx.erase` goes by.
    """

    if not TYPE_CHECKING:
        from_url = Instead("`StrongroomSession(session_id, where)`: an address, or a context")

    @told_where
    def __init__(
        self,
        session_id: str,
        where: Where,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        user_id: str | None = None,
        **options: Any,
    ) -> None:
        self.session_id = session_id
        self.user_id = user_id
        self.session_settings: SessionSettings | None = coerce_session_settings(session_settings or {})
        self.opened = Opened(where, options)
        self._session: AsyncSession | None = None
        self._seen: Seen | None = None
        self._closed = False

    async def get_items(self, limit: int | None = None) -> Items:
        """Return the newest `limit` items, or all of them, the oldest first."""
        given = resolve_session_limit(limit, self.session_settings)
        most = None if given is None or given < 0 else given
        await self._open()
        scope = self.opened.awaitable
        try:
            seen = await see(scope, self.session_id, self._seen, most)
        except NotFound:  # somebody deleted it: begin anew
            self._session = None
            await self._open()
            seen = await see(scope, self.session_id, None, most)
        self._require_still(seen.owner)
        self._seen = kept(seen, most)
        return cast("Items", seen.newest(most))

    async def add_items(self, items: Items) -> None:
        """Add items to the end: all of them or none."""
        messages, sidecars = messages_of(cast("Any", items))
        await self._with(
            lambda session, revision: session.append(
                messages, sidecars=sidecars, ids="repeat", expected_revision=revision
            )
        )

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item out and return it."""
        popped = await self._with(lambda session, revision: session.pop(expected_revision=revision))
        return None if popped is None else _item(popped)

    async def clear_session(self) -> None:
        """Hide all items. `ctx.sessions.delete(session_id)` removes them for good."""
        await self._with(lambda session, revision: session.replace([], expected_revision=revision))

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> Snapshot | None:
        """Let the SDK's own compaction replace what it has read, and nothing that came since.

        An encrypting session tells what has expired by `prune_prefix`. It goes from the beginning in the same step;
        what is left before what is replaced is then appended anew, because a session hides its end, not its beginning.
        """
        session = await self._with(_itself)
        revision = (await session.info()).revision
        found = await session.load(limit + 1 if prune_prefix is None else None)
        self._require_still((await session.info()).tags.get(OWNER))
        shown = found[-limit:] if limit else []

        async def replace_suffix(start: int, output: Items) -> bool:
            if not shown[start:]:
                return False
            before = found[: len(found) - len(shown[start:])]
            expired = 0 if prune_prefix is None else _leading(prune_prefix, before)
            first, left = (before[0], before[expired:]) if expired else (shown[start], [])
            messages, sidecars = messages_of(cast("Any", [*map(_item, left), *output]))
            try:
                await session.replace_from(
                    first.id, messages, sidecars=sidecars, ids="repeat", expected_revision=revision
                )
            except (Conflict, NotFound):
                return False
            return True

        return Snapshot([_item(one) for one in shown], len(found) <= limit, replace_suffix)

    def close(self) -> None:
        """Close the store, if it was opened here; nothing more can be added."""
        self._closed = True
        super().close()

    async def _with(self, call: Callable[[AsyncSession, str | None], Awaitable[T]]) -> T:
        """Call the session. If somebody has deleted or erased it, it begins anew, for the same user.

        If it is a user's, the call is told the revision at which it was: by the next one it may be another's.
        """
        anew = False
        for _ in attempts(f"session {self.session_id!r:.80}"):
            revision = None
            try:
                session = await self._open()
                if self.user_id is not None:
                    info = await session.info()
                    self._require_still(info.tags.get(OWNER))
                    revision = info.revision
                    anew = False
                return await call(session, revision)
            except NotFound:
                if anew:
                    raise
                self._session, anew = None, True
            except Conflict:
                if revision is None:
                    raise
        raise AssertionError("attempts() raises when it is enough")

    def _require_still(self, owner: str | None) -> None:
        if self.user_id is not None:
            key = self.opened.awaitable.key(SESSION, self.session_id)
            require_still(f"session {self.session_id!r:.80}", key, owner, self.user_id)

    async def _open(self) -> AsyncSession:
        if self._closed:
            raise Closed(f"session {self.session_id!r} was closed; nothing changed")
        if self._session is None:
            opened = await self.opened.ctx.awaitable.sessions.open(self.session_id, user_id=self.user_id)
            self._session, self.user_id = opened, (await opened.info()).tags.get(OWNER, self.user_id)
        return self._session


async def _itself(session: AsyncSession, revision: str | None) -> AsyncSession:
    await session.info()
    return session


def _leading(has_expired: Callable[[TResponseInputItem], bool], messages: Sequence[Message]) -> int:
    """Return how many messages at the beginning have expired."""
    return next((place for place, one in enumerate(messages) if not has_expired(_item(one))), len(messages))


def _item(message: Message) -> TResponseInputItem:
    return cast("TResponseInputItem", restored(dict(message), message.sidecar))
