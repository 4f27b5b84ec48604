"""What sessions hand out: messages, pages of them, hits, and facts about a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Required, TypedDict

from msgspec import Struct

from strongroom.retrieval import joined, unreadable
from strongroom.showing import shown_by
from strongroom.values import moment


class Message(dict[str, Any]):
    """A message as it was put in, ready to send to a model: a dict of the reader's own, no part of the store.

    Beside it, what the store knows: `id`, `index` (its place in the order of arrival; -1 for a summary), `at` (when it
    arrived), `tokens`, and the `sidecar` that its writer gave along. `message["id"]` and `message["timestamp"]` answer
    too if the writer left them out, without being among its keys.

    >>> ctx = strongroom.open("memory://")
    >>> chat = ctx.sessions.open("support-7")
    >>> [message] = chat.append({"role": "user", "content": "Hello!"})
    >>> message, message.index
    ({'role': 'user', 'content': 'Hello!'}, 0)
    """

    __slots__ = ("_micros", "id", "index", "sidecar", "tokens")

    def __init__(
        self, value: Mapping[str, Any], *, id: str, index: int, micros: int, tokens: int, sidecar: Any = None
    ) -> None:
        super().__init__(value)
        self.id = id
        self.index = index
        self.tokens = tokens
        self.sidecar = sidecar
        self._micros = micros

    @property
    def at(self) -> datetime:
        """When it arrived."""
        return when(self._micros)

    @property
    def time(self) -> datetime:
        """When it was said: its own `timestamp` (ISO 8601, UTC unless it says otherwise, or seconds since 1970), else
        when it arrived."""
        return _said_at(dict.get(self, "timestamp")) or self.at

    @property
    def name(self) -> str | None:
        """Who said it, if the message has a name beside its role."""
        given = dict.get(self, "name")
        return given if isinstance(given, str) and given else None

    @property
    def role(self) -> Any:
        """Who speaks: `user`, `assistant`, `tool`, `system`."""
        return dict.get(self, "role")

    @property
    def content(self) -> Any:
        """What is said: text, or a list of parts."""
        return dict.get(self, "content")

    def __missing__(self, key: str) -> Any:
        if key == "id":
            return self.id
        if key == "timestamp":
            return self.at.isoformat()
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a member of the message, as `message[key]` does, or the default."""
        if key in self or key in ("id", "timestamp"):
            return self[key]
        return default

    def __reduce__(self) -> tuple[Any, ...]:
        return _message, (dict(self), self.id, self.index, self._micros, self.tokens, self.sidecar)


class NewMessage(TypedDict, total=False):
    """A message to put in, for type checkers and editors: what models send and read, and what Strongroom looks at.

    Nothing is refused at run time for having other keys; any JSON object is a message.

    >>> said: list[strongroom.NewMessage] = [{"role": "user", "content": "Hello!"}]
    >>> len(strongroom.open("memory://").sessions.open("support-7").append(said))
    1
    """

    role: Required[str]
    content: object
    name: str
    tool_calls: object
    tool_call_id: str
    function_call: object
    refusal: object
    audio: object
    reasoning_content: object
    metadata: object
    id: str
    timestamp: str | float
    pinned: bool
    priority: int


class NewItem(TypedDict, total=False):
    """An item that has a type and needs no role, such as a call of a function and its output."""

    type: Required[str]
    role: str
    content: object
    call_id: str
    name: str
    arguments: object
    output: object
    summary: object
    status: str
    metadata: object
    id: str
    timestamp: str | float
    pinned: bool
    priority: int


Messages = NewMessage | NewItem | Message | Sequence[NewMessage | NewItem | Message]


@shown_by("id", "title", "messages", "created_at", "tags", "metadata")
class SessionInfo(Struct, frozen=True):
    """Facts about a session. `messages` counts the visible ones; `revision` is another one after every change."""

    id: str
    title: str
    created_at: datetime
    tokenizer: str
    messages: int
    metadata: dict[str, Any]
    tags: dict[str, str]
    pinned: tuple[int, ...] = ()
    forked_from: str | None = None
    revision: str = ""

    @property
    def user_id(self) -> str | None:
        """Whose session it is, if whoever opened it said so."""
        return self.tags.get("user_id")


class Cut(Struct, frozen=True):
    """How many messages were hidden, or brought back."""

    messages: int


class ErasedMessages(Struct, frozen=True):
    """What was erased of a session. `pending` says why some of it may still lie in the store's files, out of anybody's
    reach; repeating the erasure tells how it stands."""

    session_id: str
    messages: int
    complete: bool
    pending: str | None = None


class Backlog(Struct, frozen=True):
    """What is left to do on the back of ordinary calls, and why the last try failed, if it did.

    `unembedded` messages have no vector of this embedder yet (0 without one), `uncounted` ones are still to be counted
    by the session's tokenizer.
    """

    unembedded: int
    uncounted: int
    failure: str | None = None


@shown_by("message_id", "session_id", "score", "message", "why")
class Hit(Struct, frozen=True):
    """A message that answers a query. `why` says what spoke for it, in words for people.

    >>> ctx = strongroom.open("memory://")
    >>> chat = ctx.sessions.open("support-7")
    >>> _ = chat.append([{"role": "user", "content": "My order is late."}, {"role": "user", "content": "Hello?"}])
    >>> chat.search("late orders")[0].message["content"]
    'My order is late.'
    """

    message_id: str
    message: Message
    score: float
    why: str
    session_id: str


class Hits(list[Hit]):
    """Hits, best first. `degraded` says what a search could not look at.

    `damaged` are the ids of what it came to and cannot be read; `degraded` tells of them too.
    """

    def __init__(self, hits: Iterable[Hit] = (), *, degraded: str | None = None, damaged: Iterable[str] = ()) -> None:
        super().__init__(hits)
        self.damaged = tuple(damaged)
        self.degraded = joined(degraded, unreadable(self.damaged))


def when(micros: int) -> datetime:
    """Turn stored microseconds into an aware time."""
    try:
        return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
    except (ValueError, OverflowError, OSError):
        return moment(micros)


def plain_message(role: str, text: str, id: str, index: int, micros: int, tokens: int) -> Message:
    """Return a message that is nothing but a role and a text: most are, so it is made without copying a dict."""
    made = _new(Message)
    made["role"] = role
    made["content"] = text
    made.id = id
    made.index = index
    made.tokens = tokens
    made.sidecar = None
    made._micros = micros
    return made


_new = Message.__new__


def _message(value: dict[str, Any], id: str, index: int, micros: int, tokens: int, sidecar: Any) -> Message:
    return Message(value, id=id, index=index, micros=micros, tokens=tokens, sidecar=sidecar)


def _said_at(stamp: object) -> datetime | None:
    """Read a timestamp that a writer gave; None if it is not one."""
    try:
        if isinstance(stamp, str):
            read = datetime.fromisoformat(stamp)
            return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
        if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
            return datetime.fromtimestamp(stamp, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None
