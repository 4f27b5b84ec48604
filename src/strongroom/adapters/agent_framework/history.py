"""StrongroomHistoryProvider: the messages of a session of Microsoft Agent Framework, as an ordinary session.

A message is kept verbatim in its sidecar, as the dict that the framework makes of it. Callers may hand over a whole
transcript again: what is stored already is not stored twice. Which messages are new is decided from what was read, and
the append is refused if somebody has written since; then it is decided anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_framework import HistoryProvider, Message

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.adapters.exact import is_exact
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.retry import attempts
from strongroom.services.sessions.layouts import session_name
from strongroom.services.sessions.values import Message as Stored

FRAMEWORK = "agent_framework"
CODEC = "agent_framework.Message/1"

Identity = tuple[str, ...]


class StrongroomHistoryProvider(HistoryProvider, Closing):
    """Keep history in a Strongroom store: `Agent(client, context_providers=[StrongroomHistoryProvider("agent.db")])`.

    `where` is a context of `strongroom.open` or `strongroom.connect`, or an address. Messages that the framework's
    compaction has excluded are not loaded with `skip_excluded`. A session is also
    `ctx.sessions.get("agent_framework/<session_id>")`. `user_id` says whose they are, which `ctx.erase` goes by.
    """

    def __init__(
        self,
        where: Where,
        source_id: str = "strongroom_history",
        *,
        skip_excluded: bool = False,
        user_id: str | None = None,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded, self.user_id = skip_excluded, user_id
        self.opened = Opened(where, options)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, the oldest first."""
        name = name_of(session_id)
        try:
            session = await self.opened.ctx.awaitable.sessions.get(name)
            said = await session.load()
            await self.opened.require_own(name, self.user_id)
        except NotFound:
            return []
        found = [message_of(one) for one in said]
        return [one for one in found if not (self.skip_excluded and one.additional_properties.get("_excluded"))]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add what is new among messages: all of it or none, and nothing twice."""
        name, incoming = name_of(session_id), list(messages)
        if not incoming:
            return
        for _ in attempts(f"session {name!r:.80}"):
            sessions = self.opened.ctx.awaitable.sessions
            session = await sessions.open(name, user_id=self.user_id, tags={"by": FRAMEWORK})
            revision = (await session.info()).revision
            # A replay holds all that is stored, or begins with the end of it: no more has to be read than it holds.
            newest = await session.load(len(incoming) + 1)
            new = unsaved([message_of(one) for one in newest], incoming)
            if not new:
                return
            values, sidecars = zip(*map(stored, new), strict=True)
            try:
                await session.append(list(values), sidecars=list(sidecars), ids="repeat", expected_revision=revision)
            except (Conflict, NotFound):
                continue
            return


def name_of(session_id: str | None) -> str:
    if session_id is None:
        raise InvalidInput("history is kept by session: run the agent with session=agent.create_session()")
    return session_name(FRAMEWORK, session_id)


def stored(message: Message) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a message as a session stores it: what was said, and beside it the message itself."""
    whole = message.to_dict()
    kept = {"message": whole} if is_exact(whole) else {"json": json.dumps(whole)}
    said = {"role": str(message.role), "content": spoken(message)}
    return said if is_exact(said) else {"role": str(message.role)}, {"codec": CODEC, **kept}


def message_of(one: Stored) -> Message:
    """Return a message of a session as the framework's; also one that somebody else has put there."""
    sidecar = one.sidecar if isinstance(one.sidecar, dict) else {}
    if sidecar.get("codec") == CODEC:
        return Message.from_dict(json.loads(sidecar["json"]) if "json" in sidecar else sidecar["message"])
    content = one.content
    return Message(one.role or "user", [content if isinstance(content, str) else json.dumps(content)])


def spoken(message: Message) -> str:
    results = [one.result for one in message.contents if one.type == "function_result"]
    return "\n".join(text for text in (message.text, *results) if isinstance(text, str) and text)


def unsaved(newest: Sequence[Message], incoming: Sequence[Message]) -> list[Message]:
    """Return the messages after those that are stored already, as the framework's own providers tell them.

    Either all that is stored occurs in what comes in, or its end is how that begins. A single question without an id
    that is asked again is new.
    """
    before, after = [identity(one) for one in newest], [identity(one) for one in incoming]
    repeats = bool(newest) and newest[-1].role == "user" and before[-1][0] != "id"
    if before and len(before) <= len(after):
        for start in range(len(after) - len(before) + 1):
            if after[start : start + len(before)] == before:
                if start == 0 and len(before) == 1 and repeats:
                    break
                return list(incoming[start + len(before) :])
    for overlap in range(min(len(before), len(after)), 0, -1):
        if before[-overlap:] == after[:overlap] and not (overlap == 1 and repeats):
            return list(incoming[overlap:])
    return list(incoming)


def identity(message: Message) -> Identity:
    """Return what a message is known by: its id, or who said what."""
    if message.message_id is not None:
        return "id", message.message_id
    return "content", str(message.role), json.dumps([one.to_dict() for one in message.contents], sort_keys=True)
