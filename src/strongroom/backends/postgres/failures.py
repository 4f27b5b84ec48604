"""What Postgres's errors mean to a caller, and when a call is worth another try. No psycopg exception leaves this
package, and nothing here does I/O.

A commit is safe to repeat: its id is checked under the locks it takes, so a second copy waits for a first one that is
still running, and then finds its receipt; and one that is refused voids those that have not even begun. A lost
connection therefore needs no special care: the same commit is sent again on a fresh one. Only when the time is up
without an answer is the outcome unknown.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.pq import ConnStatus
from psycopg.pq.abc import PGconn

from strongroom.errors import CommitUnknown, Damaged, InvalidInput, SchemaMismatch, StrongroomError, Unavailable

T = TypeVar("T")

_NOTHING = "; nothing changed"
_AGAIN = {"40001", "40P01", "23505"}  # a lost race; never seen by callers unless it goes on for ever
_MAX_RACES = 20


class Stalled(psycopg.OperationalError):
    """The server has not answered in time."""


def bounded(waiting: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
    """Pass a psycopg operation through, giving up at the deadline (of time.monotonic).

    psycopg drives such generators, blocking and async, and resumes them at least every tenth of a second, with nothing
    when nothing came.
    """
    try:
        state = next(waiting)
        while True:
            ready = yield state
            if not ready and time.monotonic() > deadline:
                waiting.close()
                raise Stalled("no answer in time")
            state = waiting.send(ready)
    except StopIteration as stop:
        result: T = stop.value
        return result


class Effort:
    """One call, however many attempts it takes: what to do after each failure, until the time is up."""

    def __init__(self, shown: str, timeout_seconds: float, commit_id: str | None = None, call: int = 0) -> None:
        self._shown = shown
        self._commit_id = commit_id
        self._call = call
        self._timeout = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds
        self._tries = 0
        self._lost = 0  # attempts lost on the way, each of which may have been applied, or may still be

    @property
    def writing(self) -> bool:
        return self._commit_id is not None

    @property
    def left(self) -> float:
        return self._deadline - time.monotonic()

    def copy(self) -> tuple[int, ...]:
        """Return what tells the next attempt at a commit from others: the call, and how many copies may be about."""
        return () if self._commit_id is None else (self._call, self._lost + 1)

    def lost(self) -> None:
        """Know that a copy was sent and not answered."""
        self._lost += 1

    def patience(self) -> float:
        """Return when one attempt must have ended: in time for another one, should this one be lost."""
        return time.monotonic() + max(self.left * 2 / 3, 0.5)

    def slice(self) -> float:
        """Return how long to ask the pool for a connection before asking again; raise when the time is up.

        Asking again is what makes the pool try to connect at once: it does not keep trying by itself.
        """
        if self.left <= 0:
            raise self._give_up("unreachable", f"{self._shown} could not be reached for {self._timeout:g} seconds")
        return min(self.left, 0.5)

    def failed(self, error: psycopg.Error, *, lost: bool) -> float:
        """Return how long to wait before the next attempt, or raise what the caller should know."""
        self._tries += 1
        if lost:
            self._lost += 1
            if self.left > 0:
                return 0.0 if self._tries == 1 else min(0.01 * 2**self._tries, 0.25)
            reason = "stalled" if isinstance(error, Stalled) else "unreachable"
            raise self._give_up(reason, f"the connection to {self._shown} was lost") from error
        if error.sqlstate in _AGAIN and self._tries < _MAX_RACES and self.left > 0:
            return 0.001 * self._tries
        ours = translate(error, writing=self.writing)
        if self._lost and self._commit_id is not None:
            raise self._give_up(getattr(ours, "reason", "io"), str(ours)) from error
        raise ours from error

    def _give_up(self, reason: str, what: str) -> StrongroomError:
        if self._lost and self._commit_id is not None:
            return CommitUnknown(
                f"{what} before it answered a commit; repeat it with the same id",
                reason=reason,
                commit_id=self._commit_id,
            )
        return Unavailable(what if self._commit_id is None else what + _NOTHING, reason="unreachable")


def dropped(con: PGconn, error: psycopg.Error) -> bool:
    """Tell whether the connection is of no more use, without an answer. The pool replaces a finished one."""
    if (
        isinstance(error, Stalled) or error.sqlstate == "25006"
    ):  # a standby now: the next connection may find the primary
        con.finish()
    return con.status != ConnStatus.OK and error.sqlstate != "25006"


def translate(error: psycopg.Error, *, writing: bool = False) -> StrongroomError:
    """Return our error for a statement that the server refused, and so did not apply."""
    nothing = _NOTHING if writing else ""
    state = error.sqlstate or ""
    detail = (error.diag.message_primary or "").strip() or type(error).__name__
    match state:
        case "53100":
            return Unavailable(f"the server's disk is full{nothing}", reason="disk_full")
        case "53200":
            return Unavailable(f"the server is out of memory{nothing}", reason="memory")
        case "57014" | "55P03" | "40001" | "40P01" | "23505":
            return Unavailable(f"others kept the data locked ({detail}){nothing}", reason="locked")
        case "25006":
            return Unavailable(f"the server is read-only, perhaps a standby{nothing}", reason="read_only")
        case "42501":
            return Unavailable(f"the role may not use the store ({detail}){nothing}", reason="permission")
        case "3F000" | "42P01" | "42883":
            return Damaged(f"the store's tables are gone ({detail}); restore a backup", reason="replaced")
        case "42P07" | "42723":
            return SchemaMismatch(f"the schema belongs to another program ({detail}){nothing}", reason="foreign")
        case "XX001" | "XX002":
            return Damaged(f"the database is damaged ({detail}); restore a backup", reason="corrupt")
        case "54000":
            return InvalidInput(f"a key is too long for a Postgres index ({detail}){nothing}")
    if state.startswith("53"):
        return Unavailable(f"the server has no room for another connection{nothing}", reason="unreachable")
    return Unavailable(f"Postgres refused the operation ({detail}){nothing}", reason="io")


def unreachable(error: psycopg.Error, shown: str) -> Unavailable:
    """Return our error for a connection that could not be opened. libpq's text stays out: it may quote the address."""
    said = str(error)
    if "authentication failed" in said or "pg_hba.conf" in said or "role " in said or "permission denied" in said:
        return Unavailable(f"{shown} does not let this role in", reason="permission")
    if "database " in said and "does not exist" in said:
        return Unavailable(f"{shown} does not exist", reason="missing")
    if "SSL" in said or "certificate" in said:
        advice = "name its authority with ?sslrootcert=..., or say ?sslmode=disable where the network is trusted"
        return Unavailable(f"{shown} has no TLS that can be verified; {advice}", reason="tls")
    return Unavailable(f"{shown} cannot be reached", reason="unreachable")
