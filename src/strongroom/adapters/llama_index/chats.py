"""StrongroomChatStore: the messages of LlamaIndex's `Memory`, each key an ordinary session.

| kind | shape | holds |
|---|---|---|
| `llama_index_archive` | document for each key | up to where its messages are archived |
| `message` | stream for each key | the messages: an ordinary session, with the message itself as a sidecar |

The oldest active messages are archived first, so one number tells which are: every message before it. One that was
added as archived says so itself. Archived messages stay in the session, where they can be searched; deleted ones are
erased.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from strongroom.adapters.contexts import Opened, Where
from strongroom.adapters.exact import is_exact
from strongroom.codec import encode
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.retry import attempts
from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import session_name
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.values import Message
from strongroom.store import Commit, Expect, Get, Put, new_id

KIND = layouts.ARCHIVE
FRAMEWORK = "llama_index"
CODEC = "llama_index.ChatMessage/1"
PAGE = 500


class StrongroomChatStore(AsyncDBChatStore):
    """Keep messages in a Strongroom store: `Memory.from_defaults(session_id="7", chat_store=StrongroomChatStore(ctx))`.

    `where` is a context of `strongroom.open` or `strongroom.connect`, or an address. Use it from any event loop; the
    messages of a key are also `ctx.sessions.get("llama_index/<key>")`. `user_id` says whose they are, which `ctx.erase`
    goes by.
    """

    _opened: Opened = PrivateAttr()
    _user_id: str | None = PrivateAttr(default=None)

    def __init__(self, where: Where, *, user_id: str | None = None, **options: Any) -> None:
        super().__init__()
        self._opened = Opened(where, options)
        self._user_id = user_id

    @classmethod
    def class_name(cls) -> str:
        return "StrongroomChatStore"

    @property
    def opened(self) -> Opened:
        return self._opened

    # ---- reading ----------------------------------------------------------------------------------------------------

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return messages of a status, or of any, in the order in which they came."""
        first = offset or 0
        if first < 0 or (limit is not None and limit < 0):
            raise InvalidInput(f"limit and offset must be 0 or more, not {limit} and {offset}")
        found = await self._found(key, status)
        return [chat_of(one) for one in found[first : None if limit is None else first + limit]]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        return len(await self._found(key, status))

    async def get_keys(self) -> list[str]:
        """Return the keys that have messages, but for those of other users than the one this was made for."""
        ours, keys, after = (None, self._user_id), list[str](), None
        while True:
            page = await self._sessions.list(tags={"by": FRAMEWORK}, after=after, limit=PAGE)
            shown = [one for one in page if self._user_id is None or one.user_id in ours]
            keys += [one.metadata["key"] for one in shown if one.messages and "key" in one.metadata]
            after = page.next
            if after is None:
                return keys

    # ---- writing ----------------------------------------------------------------------------------------------------

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages to the end: all of them or none."""
        values, sidecars = stored(messages, status)
        if values:
            await (await self._open(key)).append(values, sidecars=sidecars, ids="repeat")

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Put messages in the place of all that a key has, whatever their status, in one step."""
        values, sidecars = stored(messages, status)
        await (await self._open(key)).replace(values, sidecars=sidecars, ids="repeat")

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest `n` active messages and return them."""
        return [chat_of(one) for one in await self._archived(key, n)]

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Erase the oldest `n` active messages and return them.

        They are archived first: so of two who call this at once, each has messages of its own.
        """
        oldest = await self._archived(key, n)
        await self._erase(key, oldest)
        return [chat_of(one) for one in oldest]

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Erase the message with an index, that of the session, and return it; None if there is none."""
        named = [one for one in await self._found(key, None) if one.index == idx]
        await self._erase(key, named)
        return chat_of(named[0]) if named else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Erase the messages of a status; without one, remove all that the key has."""
        if status is None:
            try:
                await self._opened.require_own(session_name(FRAMEWORK, key), self._user_id)
                await self._sessions.delete(session_name(FRAMEWORK, key))
            except NotFound:
                pass
        else:
            await self._erase(key, await self._found(key, status))

    # ---- small parts ------------------------------------------------------------------------------------------------

    @property
    def _sessions(self) -> Any:
        return self._opened.ctx.awaitable.sessions

    async def _open(self, key: str) -> AsyncSession:
        session: AsyncSession = await self._sessions.open(
            session_name(FRAMEWORK, key),
            user_id=self._user_id,
            title=key or None,
            metadata={"key": key},
            tags={"by": FRAMEWORK},
        )
        return session

    async def _found(self, key: str, status: MessageStatus | None) -> list[Message]:
        """Return the messages of a status. The active ones are read from the first of them on."""
        scope, name = self._opened.awaitable, session_name(FRAMEWORK, key)
        document = await scope.get(Get(scope.key(KIND, name)))
        before = 0 if document is None else document.value.load()["before"]
        found, after = list[Message](), str(before) if status == MessageStatus.ACTIVE else None
        try:
            session = await self._sessions.get(name)
            while True:
                page = await session.page(after=after, limit=PAGE)
                found += [one for one in page if status in (None, status_of(one, before))]
                after = page.next
                if after is None:
                    await self._opened.require_own(name, self._user_id)
                    return found
        except NotFound:
            return []

    async def _archived(self, key: str, n: int) -> list[Message]:
        """Archive the oldest `n` active messages. Of several who do so at once, each has messages of its own."""
        scope, name = self._opened.awaitable, session_name(FRAMEWORK, key)
        for _ in attempts(f"messages of {key!r:.80}"):
            document = await scope.get(Get(scope.key(KIND, name)))
            oldest = (await self._found(key, MessageStatus.ACTIVE))[: max(n, 0)]
            if not oldest:
                return []
            archived = Put(scope.key(KIND, name), encode({"before": oldest[-1].index + 1}))
            expect = Expect(archived.key, 0 if document is None else document.version)
            try:
                await scope.store.commit(Commit(new_id(), (expect,), (archived,)))
            except Conflict:
                continue
            return oldest
        raise AssertionError("attempts() raises when it is enough")

    async def _erase(self, key: str, messages: Sequence[Message]) -> None:
        for start in range(0, len(messages), PAGE):
            part = messages[start : start + PAGE]
            try:
                await (await self._sessions.get(session_name(FRAMEWORK, key))).erase([one.id for one in part])
            except NotFound:  # with the whole session
                pass

    def close(self) -> None:
        """Close the store, if it was opened here."""
        self._opened.close()

    def __enter__(self) -> StrongroomChatStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def stored(messages: Sequence[ChatMessage], status: MessageStatus) -> tuple[list[Any], list[Any]]:
    """Return messages as a session stores them: what was said, and beside each the message itself."""
    values, sidecars = list[Any](), list[Any]()
    for message in messages:
        whole = message.model_dump(mode="json")
        sidecar: dict[str, Any] = {"codec": CODEC}
        sidecar |= {"message": whole} if is_exact(whole) else {"json": json.dumps(whole)}
        if status is not MessageStatus.ACTIVE:
            sidecar["status"] = status.value
        said = {"role": message.role.value, "content": message.content or ""}
        values.append(said if is_exact(said) else {"role": message.role.value})
        sidecars.append(sidecar)
    return values, sidecars


def chat_of(message: Message) -> ChatMessage:
    """Return a message of a session as LlamaIndex's; also one that somebody else has put there."""
    sidecar = message.sidecar if isinstance(message.sidecar, dict) else {}
    if sidecar.get("codec") == CODEC:
        whole = json.loads(sidecar["json"]) if "json" in sidecar else sidecar["message"]
        return ChatMessage.model_validate(whole)
    content = message.content
    return ChatMessage(
        role=message.role or "user", content=content if isinstance(content, str) else json.dumps(content)
    )


def status_of(message: Message, before: int) -> MessageStatus:
    sidecar = message.sidecar if isinstance(message.sidecar, dict) else {}
    archived = message.index < before or sidecar.get("status") == MessageStatus.ARCHIVED.value
    return MessageStatus.ARCHIVED if archived else MessageStatus.ACTIVE
