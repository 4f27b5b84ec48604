"""What the driver's and the server's errors mean to a caller. No redis exception leaves this package.

Three things can happen to a message, and only the first two are certain: it was never sent (`Unsent`), the server
answered (a value or an error word), or it was sent and no answer came (`Unanswered`).
"""

from __future__ import annotations

import redis.exceptions

import redis
from strongroom.errors import Damaged, StoreError, Unavailable

_NOTHING = "; nothing changed"


class Unsent(Exception):
    """No connection: the message never left."""


class Unanswered(Exception):
    """The connection broke before the answer: the message may or may not have been executed."""


class Refused(Exception):
    """The server answered with an error: the message had no effect. `word` is the error's own first word."""

    def __init__(self, word: str, text: str) -> None:
        super().__init__(word)
        self.word = word
        self.text = text


DRIVER_ERRORS = (redis.RedisError, OSError)

# The driver takes the word away from the errors it has a class for.
_WORDS: dict[type[Exception], str] = {
    redis.BusyLoadingError: "LOADING",
    redis.AuthenticationError: "WRONGPASS",
    redis.exceptions.AuthorizationError: "NOPERM",
    redis.exceptions.NoPermissionError: "NOPERM",
    redis.exceptions.NoScriptError: "NOSCRIPT",
    redis.exceptions.OutOfMemoryError: "OOM",
    redis.ReadOnlyError: "READONLY",
    redis.exceptions.MovedError: "MOVED",
    redis.exceptions.AskError: "ASK",
    redis.exceptions.TryAgainError: "TRYAGAIN",
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.MasterDownError: "MASTERDOWN",
    redis.exceptions.ClusterCrossSlotError: "CROSSSLOT",
}


def refused(error: Exception) -> Refused | None:
    """Return what the server answered, or None if the error is the connection's."""
    for kind in type(error).__mro__:
        if kind in _WORDS:
            return Refused(_WORDS[kind], str(error))
    if isinstance(error, redis.ResponseError):
        return Refused(str(error).partition(" ")[0], str(error))
    return None


# The server is there and will be able to answer soon.
PASSING = ("LOADING", "BUSY", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN")

_REASONS = {
    "OOM": ("memory", "the server has reached its memory limit"),
    "READONLY": ("read_only", "the server is a read-only replica"),
    "MISCONF": ("io", "the server cannot write to its disk"),
    "NOREPLICAS": ("io", "the server has fewer replicas than it is told to need"),
    "NOAUTH": ("permission", "the server asks for a password"),
    "WRONGPASS": ("permission", "the server refused the user name or password"),
    "NOPERM": ("permission", "the server's access rules forbid a command that is needed"),
    "LOADING": ("unreachable", "the server is still loading its data"),
    "BUSY": ("locked", "the server is busy with a script of somebody else"),
    "MOVED": ("unreachable", "the cluster keeps moving this space about"),
    "CLUSTERDOWN": ("unreachable", "the cluster is down"),
    "MASTERDOWN": ("unreachable", "the replica has lost its primary"),
}


def translate(error: Exception, shown: str, *, writing: bool = False) -> StoreError:
    """Return our error for something that changed nothing. `shown` is the address without its secrets.

    The driver's own words are not repeated: what a server echoes may hold anything, a password included.
    """
    nothing = _NOTHING if writing else ""
    if isinstance(error, (Unsent, Unanswered)):
        return Unavailable(f"{shown} cannot be reached{nothing}", reason="unreachable")
    assert isinstance(error, Refused)
    if "WRONGTYPE" in error.text:
        return Damaged(
            f"{shown} holds something else where Strongroom keeps its data{nothing}",
            reason="corrupt",
        )
    for word, (reason, meaning) in _REASONS.items():
        # Servers before version 7 wrap the word of an error inside a script in a sentence of their own.
        if error.word == word or f"-{word} " in error.text or (word == "NOPERM" and _forbids(error.text)):
            return Unavailable(f"{shown}: {meaning}{nothing}", reason=reason)
    if "user_script" in error.text or "running script" in error.text:
        return Damaged(f"{shown} holds data that cannot be read{nothing}", reason="corrupt")
    return Unavailable(f"{shown} refused the request ({error.word:.20}){nothing}", reason="io")


def _forbids(text: str) -> bool:
    """Tell whether a script met the server's access rules: the server then uses a sentence in place of the word."""
    return "ACL failure in script" in text or "The user executing the script can't" in text
