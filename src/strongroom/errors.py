"""Every exception Strongroom raises.

The type says whose fault it is and whether anything changed:

* yours, nothing changed: `InvalidInput`, `NotFound`, `Conflict`, `Immutable`, `BudgetExceeded`, `Closed`
* the store's, nothing changed: `Unavailable`, `SchemaMismatch`, `Damaged`
* the store's, and nobody can tell yet: `CommitUnknown`; repeat the commit with the same id to find out

What takes several commits (an erasure, a long deletion) may fail between two of them. Its message then says, instead of
that nothing changed, that part of it is done and that a repeat goes on.

Each carries its facts as attributes, so a program never has to parse a message; `help` is the command that tells
cause and remedy.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Reasons that no repeat mends: the store is well, and turned the caller away.
REFUSING = frozenset({"permission", "unauthorised"})


def help_of(word: str) -> str:
    """Return what explains a code or a reason: a command, which works wherever Strongroom is installed, and offline,
    and where it stands in the documentation."""
    return f"strongroom explain {word} (reference/errors.html#{word})"


def shown(value: object) -> str:
    """Return a short word for something a caller passed, whatever it is, for the message of an error."""
    try:
        return f"{value!r:.80}"
    except Exception:  # its own repr, or one too deep for any: what matters is that it was refused
        return f"a {type(value).__name__} that cannot be shown"


def said_by(problem: BaseException, most: int = 2000) -> str:
    """Return what somebody else's function raised, its type and its words, such that every store can hold it."""
    try:
        text = f"{type(problem).__name__}: {problem}"
    except Exception:  # its own words, or whatever else it is made of
        text = f"{type(problem).__name__}, which cannot be shown"
    return storable(text, most)


def storable(text: str, most: int) -> str:
    """Return a text with lone surrogates spelt out, which no store can hold, and at most so many characters of it."""
    return text[:most].encode(errors="backslashreplace").decode()[:most]


class _Hidden:
    """A secret that is fetched like any other and shown by nothing, a trace with the values of its frames included."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str | bytes) -> None:
        self._secret = secret

    def __call__(self) -> str | bytes:
        return self._secret

    def __repr__(self) -> str:
        return "<a key>"


def hidden(secret: Any) -> Any:
    """Return the same secret, for a name that a trace may show. What is none is left as it is, to be refused."""
    return _Hidden(secret) if isinstance(secret, str | bytes) else secret


class StrongroomError(Exception):
    """The root of everything Strongroom raises on purpose.

    >>> ctx = strongroom.open("memory://")
    >>> try:
    ...     ctx.runs.get("no-such-run")
    ... except strongroom.StrongroomError as error:
    ...     print(error.code, error.help)
    not_found strongroom explain not_found (reference/errors.html#not_found)
    """

    code = "error"

    @property
    def help(self) -> str:
        """The command that says why this happens and what to do; the page of errors in the reference says the same."""
        return help_of(getattr(self, "reason", "") or self.code)

    def __reduce__(self) -> tuple[Any, ...]:
        # Facts are keyword arguments, which an exception's own way of being pickled and copied leaves out.
        return _made_again, (type(self), self.args, dict(vars(self)))


class InvalidInput(StrongroomError, ValueError):
    """The caller passed something that cannot be stored or asked; nothing changed.

    >>> ctx = strongroom.open("memory://")
    >>> try:
    ...     ctx.runs.create(objective="Answer a ticket").update(status="ASLEEP")
    ... except strongroom.InvalidInput as error:
    ...     print(error.path)
    $.status
    """

    code = "invalid_input"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class NotFound(StrongroomError, LookupError):
    """What was asked for does not exist; nothing changed.

    >>> ctx = strongroom.open("memory://")
    >>> try:
    ...     ctx.runs.get("no-such-run")
    ... except strongroom.NotFound as error:
    ...     print(error.kind, error.id)
    run no-such-run
    """

    code = "not_found"

    def __init__(self, message: str, *, kind: str = "", id: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.id = id


class Conflict(StrongroomError):
    """Somebody else was first: a precondition no longer holds, and nothing changed.

    `expected` is what the caller believed, `actual` what is there now (0 means "does not exist").

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket")
    >>> _ = run.update(status="BUSY")
    >>> try:
    ...     run.update(expected_seq=0, status="DONE")
    ... except strongroom.Conflict as conflict:
    ...     print(conflict.expected, conflict.actual)
    0 1
    """

    code = "conflict"

    def __init__(self, message: str, *, expected: int, actual: int, key: Any = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual
        self.key = key


class Immutable(StrongroomError):
    """The caller tried to change what never changes; nothing changed.

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket")
    >>> try:
    ...     run.update(objective="Sell something")
    ... except strongroom.Immutable as error:
    ...     print(error.field)
    objective
    """

    code = "immutable"

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class BudgetExceeded(StrongroomError):
    """The write would pass a limit the caller set; nothing changed.

    >>> ctx = strongroom.open("memory://")
    >>> threads = ctx.threads.limited(max_slots_per_thread=1)
    >>> _ = threads.append("orders", {"order": 7}, from_id="support")
    >>> try:
    ...     threads.append("orders", {"order": 8}, from_id="support")
    ... except strongroom.BudgetExceeded as error:
    ...     print(error.limit, error.needed)
    1 2
    """

    code = "budget_exceeded"

    def __init__(self, message: str, *, limit: int, needed: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.needed = needed


class Closed(StrongroomError):
    """The store was closed before this call; nothing changed.

    >>> ctx = strongroom.open("memory://")
    >>> ctx.close()
    >>> try:
    ...     ctx.runs.list()
    ... except strongroom.Closed as error:
    ...     print(error.code)
    closed
    """

    code = "closed"


class StoreError(StrongroomError):
    """The store failed, not the caller. `reason` is a stable word for what happened.

    >>> try:
    ...     strongroom.open("no/such/folder/agent.db")
    ... except strongroom.StoreError as error:
    ...     print(error.code, error.reason)
    unavailable missing
    """

    code = "store_error"

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class Unavailable(StoreError):
    """The store does not serve this now; nothing changed, and it may work later.

    These do not go away by repeating: `unauthorised` asks for another key, `permission` for another right, `forked`,
    `missing`, `hard_link`, `network_filesystem`, `read_only`, `sqlite_version` and `server_version` for another place
    or program, `unfinished` for the end of a copy.
    Reasons: `locked`, `disk_full`, `file_too_large`, `read_only`, `io`, `forked`, `network_filesystem`,
    `hard_link`, `sqlite_version`, `permission`, `unauthorised`, `missing`, `unreachable`, `evicting`, `memory`,
    `server_version`, `encoding`, `stalled`, `not_durable`, `too_many_requests`, `unfinished`.

    >>> try:
    ...     strongroom.open("no/such/folder/agent.db")
    ... except strongroom.Unavailable as error:
    ...     print(error.reason)
    missing
    """

    code = "unavailable"


class CommitUnknown(StoreError):
    """The commit may or may not have happened. Repeat it with the same id: it is applied at most once.

    Reasons: `fsync`, `io`, `interrupted`, `memory`, `connection`.

    >>> ctx = strongroom.open("memory://")
    >>> run = ctx.runs.create(objective="Answer a ticket")
    >>> def record(attempts=3):
    ...     try:
    ...         return run.record("TOOL_CALL", {"tool_name": "pay", "arguments": {}}, commit_id="ticket-7:pay")
    ...     except strongroom.CommitUnknown:  # the same id: it is applied at most once
    ...         return record(attempts - 1) if attempts > 1 else None
    >>> record().type
    'TOOL_CALL'
    """

    code = "commit_unknown"

    def __init__(self, message: str, *, reason: str = "", commit_id: str = "") -> None:
        super().__init__(message, reason=reason)
        self.commit_id = commit_id


class SchemaMismatch(StoreError):
    """The file is not a Strongroom store, or a newer Strongroom wrote it; nothing changed.

    >>> from pathlib import Path
    >>> _ = Path("notes.db").write_text("not a database, but longer than the header of one is: " * 10)
    >>> try:
    ...     strongroom.open("notes.db")
    ... except strongroom.SchemaMismatch as error:
    ...     print(error.reason)
    foreign
    """

    code = "schema_mismatch"


class Damaged(StoreError):
    """What is stored is not what was written; nothing was served or changed.

    Reasons: `corrupt`, `checksum`, `gap`, `replaced` (a file was deleted or exchanged under a live store, or lies
    beside the log of another), `regressed` (the store is older than what it already acknowledged). Of a document that a
    scan came to, `place` is the cursor behind it and `id` what it is called: whoever lists can go on. Of a match that a
    search came to there is the `id`; a record is called by its stream and its index, as `chat[7]`.

    >>> from pathlib import Path
    >>> from strongroom.archives import read_archive
    >>> _ = Path("orders.zip").write_bytes(b"half of an archive")
    >>> try:
    ...     read_archive("orders.zip")
    ... except strongroom.Damaged as error:
    ...     print(error.reason)
    corrupt
    """

    code = "damaged"

    def __init__(self, message: str, *, reason: str = "", place: str = "", id: str = "") -> None:
        super().__init__(message, reason=reason)
        self.place = place
        self.id = id


def _made_again(kind: type[StrongroomError], args: tuple[Any, ...], facts: dict[str, Any]) -> StrongroomError:
    error = kind.__new__(kind, *args)
    vars(error).update(facts)
    return error
