"""StrongroomSessionService: the sessions of ADK, each with its events and its state.

| kind | shape | holds |
|---|---|---|
| `adk_session` | document for each session | its own state; its version tells a stale writer |
| `adk_state` | document for each app and for each user of one | the state that sessions share |
| `message` | stream for each session | events: an ordinary session, with the event itself as a sidecar |

`append_event` is one commit: the event and the three states, on condition that they are what was read. Its id is made
of the event, so an equal event that is delivered again changes nothing.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from google.adk.sessions.state import State as Prefixes
from pydantic_core import PydanticSerializationError, to_jsonable_python

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.adapters.exact import is_exact
from strongroom.codec import encode
from strongroom.errors import Conflict, NotFound
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.sessions import layouts
from strongroom.services.sessions.erasure import delete
from strongroom.services.sessions.layouts import digest, owned_by, session_name
from strongroom.services.sessions.records import Draft, draft, opened
from strongroom.services.sessions.state import MESSAGE, SESSION, State, dump, parse
from strongroom.services.sessions.writes import Drafts, appending
from strongroom.store import (
    Commit,
    Document,
    Expect,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    Record,
    Scan,
    Tail,
    Write,
    new_id,
)

KIND = layouts.ADK_SESSION
SHARED = layouts.ADK_STATE
PAGE = 500

logger = logging.getLogger(__name__)


def keys_of(scope: Scope, app: str, user: str, id: str) -> tuple[Key, Key, Key, Key]:
    """Return where a session, the state of its app, that of its user and its events are."""
    name = session_name(layouts.ADK, app, user, id)
    shared = scope.key(SHARED, digest(app)), scope.key(SHARED, digest(app, user))
    return scope.key(KIND, name), *shared, scope.key(MESSAGE, name)


class StrongroomSessionService(BaseSessionService, Closing):
    """Keep sessions in a Strongroom store: `Runner(session_service=StrongroomSessionService("agent.db"), ...)`."""

    def __init__(self, where: Where, **options: Any) -> None:
        self.opened = Opened(where, options)

    @property
    def _scope(self) -> Any:
        return self.opened.awaitable

    def _keys(self, app: str, user: str, id: str) -> tuple[Key, Key, Key, Key]:
        return keys_of(self._scope, app, user, id)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        id = (session_id or "").strip() or str(uuid.uuid4())
        key, *shared_keys, stream = self._keys(app_name, user_id, id)
        own, *shared = split(state or {})
        for _ in attempts(f"session {id!r:.80}"):
            asked = [Get(key), *map(Get, shared_keys)]
            [end], (there, *before) = await self._scope.read_all([Range(stream, 0, 0)], asked)
            if there is not None:
                raise AlreadyExistsError(f"Session with id {id} already exists.")
            value = {"app": app_name, "user": user_id, "id": id, "state": own, "updated": time.time()}
            expects, writes = sharing(shared_keys, before, shared, user_id)
            writes += [put(key, value), opening(self._scope, key.id, begun(self._scope, id, end.length), user_id)]
            try:
                receipt = await self._commit([Expect(key, 0), *expects], writes)
            except Conflict:
                continue
            states = [{**loaded(document), **delta} for document, delta in zip(before, shared, strict=True)]
            return session_of(value, receipt.versions[-2], states, [])
        raise AssertionError("attempts() raises when it is enough")

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        *keys, stream = self._keys(app_name, user_id, session_id.strip())
        count = None if config is None else config.num_recent_events
        # One snapshot: an event is never seen without its state.
        [tail], documents = await self._scope.read_all([Tail(stream, count)], [Get(key) for key in keys])
        document, app, user = documents
        if document is None:
            return None
        events = [event_of(record) for record in tail.records if record.body is not None]
        if config is not None and config.after_timestamp is not None:
            events = [event for event in events if event.timestamp >= config.after_timestamp]
        return session_of(document.value.load(), document.version, [loaded(app), loaded(user)], events)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        tags = {"app": digest(app_name)} if user_id is None else {"user": digest(app_name, user_id)}
        found: list[Document] = []
        async for page in self._scope.pages(Scan(self._scope.space, KIND, tags, limit=PAGE)):
            found += page
        values = [(document.value.load(), document.version) for document in found]
        users = sorted({value["user"] for value, _ in values})
        keys = [self._keys(app_name, user, "")[2] for user in users]
        app, *states = await self._scope.get_all([Get(self._keys(app_name, "", "")[1]), *map(Get, keys)])
        by_user = dict(zip(users, states, strict=True))
        made = [
            session_of(value, version, [loaded(app), loaded(by_user[value["user"]])], []) for value, version in values
        ]
        made.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=made)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        with suppress(NotFound):
            await delete(self._scope, session_name(layouts.ADK, app_name, user_id, session_id.strip()), None)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return loaded(await self._scope.get(Get(self._keys(app_name, user_id, "")[2])))

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        key, *shared_keys, stream = self._keys(session.app_name, session.user_id, session.id)
        text = without_temporary(event).model_dump_json(exclude_none=True)
        own, *shared = split(event.actions.state_delta if event.actions else {})
        id = f"adk-{digest(key.id, event.id, text)}"
        for _ in attempts(f"session {session.id!r:.80}"):
            asked = [Get(key), Get(self._scope.key(SESSION, key.id)), *map(Get, shared_keys)]
            [end], (document, talk, *before) = await self._scope.read_all([Tail(stream, 1)], asked)
            if document is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            value = document.value.load()
            seen = revision_of(session, document, value, end.records)
            value["state"] |= own
            value["updated"] = event.timestamp
            expects, writes = sharing(shared_keys, before, shared, session.user_id)
            if talk is None:  # somebody deleted what the events are to others
                state = begun(self._scope, session.id, end.length)
                writes.append(opening(self._scope, key.id, state, session.user_id))
            else:
                state = parse(talk.value)
            writes = [put(key, value), *writes, *saying(self._scope, key.id, [(event, text)], state, end.length)]
            try:
                receipt = await self._commit([Expect(key, seen), *expects], writes, id)
            except Conflict as problem:
                if problem.key == key and seen != document.version:
                    raise StaleSessionError(
                        f"session {session.id} was modified in storage since it was read; read it again"
                    ) from None
                continue
            if not receipt.repeated:
                event = await super().append_event(session, event)
                session.last_update_time = event.timestamp
            session._storage_update_marker = str(document.version if receipt.repeated else receipt.versions[0])
            return event
        raise AssertionError("attempts() raises when it is enough")

    async def _commit(self, expects: Sequence[Expect], writes: Sequence[Write], event: str | None = None) -> Receipt:
        """Commit, under the id of an event if there is one, so that it is stored once."""
        commit = Commit(event or new_id(), tuple(expects), tuple(writes), keep=event is not None)
        receipt: Receipt = await self._scope.store.commit(commit)
        return receipt


def begun(scope: Scope, title: str, start: int) -> State:
    """Return a session that shows what its stream holds from a place on."""
    return State(title, scope.clock(), scope.tokenizer.name, scope.tokenizer.name, ((start, None),))


def opening(scope: Scope, name: str, talk: State, user: str) -> Put:
    return Put(scope.key(SESSION, name), dump(talk), {"by": layouts.ADK} | owned_by(user))


def saying(scope: Scope, name: str, events: Sequence[tuple[Event, str]], talk: State, length: int) -> list[Write]:
    """Return what appends events, each with its JSON, to the session of their name."""
    batch = Drafts(
        tuple([_draft(scope, event, text) for event, text in events]),
        tuple([int(event.timestamp * 1e6) for event, _ in events]),
    )
    return appending(scope, name, talk, scope.tokenizer, batch, length, 0)


def _draft(scope: Scope, event: Event, text: str) -> Draft:
    whole = json.loads(text)
    sidecar = {"event": whole} if is_exact(whole) else {"json": text}
    said = {"role": "user" if event.author == "user" else "assistant", "content": spoken(event)}
    if not is_exact(said):
        said = {"role": said["role"]}
    return draft(said, scope.tokenizer, sidecar=sidecar, named=False)


def put(key: Key, value: dict[str, Any]) -> Put:
    return Put(key, encode(value), {"app": digest(value["app"]), "user": digest(value["app"], value["user"])})


def sharing(
    keys: Sequence[Key], before: Sequence[Document | None], deltas: Sequence[Mapping[str, Any]], user: str
) -> tuple[list[Expect], list[Write]]:
    """Return what changes the state that sessions share, the app's and the user's, where it changes."""
    expects, writes = list[Expect](), list[Write]()
    for key, document, delta, tags in zip(keys, before, deltas, ({}, owned_by(user)), strict=True):
        if delta:
            expects.append(Expect(key, 0 if document is None else document.version))
            writes.append(Put(key, encode({**loaded(document), **delta}), tags))
    return expects, writes


def split(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return a session's own state, its app's and its user's. What is temporary is nobody's."""
    try:
        safe = to_jsonable_python(dict(state))
    except PydanticSerializationError:
        logger.warning("some values of a session's state are not JSON; their text is kept", exc_info=True)
        safe = to_jsonable_python(dict(state), fallback=str)
    own, app, user = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for name, value in safe.items():
        if name.startswith(Prefixes.APP_PREFIX):
            app[name.removeprefix(Prefixes.APP_PREFIX)] = value
        elif name.startswith(Prefixes.USER_PREFIX):
            user[name.removeprefix(Prefixes.USER_PREFIX)] = value
        elif not name.startswith(Prefixes.TEMP_PREFIX):
            own[name] = value
    return own, app, user


def without_temporary(event: Event) -> Event:
    """Return an event as it is stored: without temporary state."""
    delta = event.actions.state_delta if event.actions else {}
    kept = {name: value for name, value in delta.items() if not name.startswith(Prefixes.TEMP_PREFIX)}
    if len(kept) == len(delta):
        return event
    return event.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": kept})})


def spoken(event: Event) -> str:
    parts = (event.content.parts or []) if event.content else []
    return "\n".join(part.text for part in parts if part.text)


def event_of(record: Record) -> Event:
    sidecar = opened(record)[1]["sidecar"]
    return Event.model_validate_json(sidecar["json"] if "json" in sidecar else encode(sidecar["event"]))


def loaded(document: Document | None) -> dict[str, Any]:
    """Return the state of an app or a user."""
    state: dict[str, Any] = {} if document is None else document.value.load()
    return state


def session_of(
    value: Mapping[str, Any], revision: int, shared: Sequence[Mapping[str, Any]], events: list[Event]
) -> Session:
    state = dict(value["state"])
    for prefix, each in zip((Prefixes.APP_PREFIX, Prefixes.USER_PREFIX), shared, strict=True):
        state |= {prefix + name: one for name, one in each.items()}
    made = Session(
        app_name=value["app"],
        user_id=value["user"],
        id=value["id"],
        state=state,
        events=events,
        last_update_time=value["updated"],
    )
    made._storage_update_marker = str(revision)  # by which ADK's own services tell a stale session
    return made


def revision_of(session: Session, document: Document, value: Mapping[str, Any], newest: Sequence[Record]) -> int:
    """Return the revision that a caller has seen. Of a session of somebody else's making its time tells, or its end."""
    if session._storage_update_marker is not None:
        marker = session._storage_update_marker
        return int(marker) if marker.isdecimal() else document.version + 1
    if session.last_update_time >= value["updated"]:
        return document.version
    ends = [event.id for event in session.events[-1:]] == [event_of(record).id for record in newest if record.body]
    return document.version if ends else document.version + 1
