"""Secrets that open what is encrypted: a passphrase, 32 bytes, or a function that fetches one of the two.

A secret is never part of a message, a repr or a log: what is wrong with it is said without it. It is asked for when it
is used, and whoever uses it keeps no more of it than it needs.

From the environment it comes as text: in the variable itself, in a file that a second variable names, or as what a
command prints that a third one names. `hex:` and 64 digits stand for 32 bytes; anything else is a passphrase.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from strongroom.errors import InvalidInput, Unavailable, hidden

Secret: TypeAlias = str | bytes | Callable[[], str | bytes]

VARIABLE = "STRONGROOM_KEY"
NEW_VARIABLE = "STRONGROOM_NEW_KEY"  # the next one, where a key is changed
PACK_VARIABLE = "STRONGROOM_PACK_KEY"  # of packs, which others open elsewhere
KEY_BYTES = 32
MAX_BYTES = 4096
COMMAND_SECONDS = 60

_HEX = "hex:"
_MOST_PRINTED = MAX_BYTES + 2  # and a line's end
_WRONG = f"a key is a passphrase of 1 to {MAX_BYTES} bytes, {KEY_BYTES} bytes, or a function that returns one of them"


def fetched(secret: Secret) -> str | bytes:
    """Return the passphrase, in one spelling, or the 32 bytes."""
    found = secret() if callable(secret) else secret
    if isinstance(found, str):
        try:
            found = unicodedata.normalize("NFC", found)
            fits = 0 < len(found.encode()) <= MAX_BYTES and "\0" not in found
        except UnicodeEncodeError:
            fits = False
    else:
        fits = isinstance(found, bytes) and len(found) == KEY_BYTES
    if not fits:
        del found, secret  # or a trace could show them
        raise InvalidInput(f"{_WRONG}, and this is none; nothing was opened", path="key")
    return found


def from_environment(name: str = VARIABLE, environ: Mapping[str, str] = os.environ) -> Secret | None:
    """Return the secret that the environment names, to be fetched when it is used; None if it names none."""
    named = [each for each in (name, f"{name}_FILE", f"{name}_COMMAND") if each in environ]
    if not named:
        return None
    if empty := [each for each in named if not environ[each]]:  # a secret manager that failed must not mean "no key"
        raise InvalidInput(
            f"{empty[0]} is set and empty; unset it for a file that is not encrypted (nothing was opened)",
            path=empty[0],
        )
    if len(named) > 1:
        raise InvalidInput(f"{' and '.join(named)} are both set, and one key is enough; nothing was opened")
    value, fetch = hidden(environ[named[0]]), _SOURCES[named[0].removeprefix(name)]
    return lambda: _parsed(fetch(named[0], value()), named[0])


def _parsed(text: str, variable: str) -> str | bytes:
    if not text.startswith(_HEX):
        return text
    try:
        return bytes.fromhex(text.removeprefix(_HEX))
    except ValueError:
        del text
        raise InvalidInput("after hex: come 64 hexadecimal digits; nothing was opened", path=variable) from None


def _from_file(variable: str, value: str) -> str:
    try:
        with Path(value).open("rb") as file:
            return _text(file.read(_MOST_PRINTED), variable)
    except OSError as problem:
        raise InvalidInput(
            f"the file it names cannot be read ({problem.strerror}); nothing was opened", path=variable
        ) from None


def _from_command(variable: str, value: str) -> str:
    deadline = time.monotonic() + COMMAND_SECONDS
    try:
        process = subprocess.Popen(shlex.split(value), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    except (OSError, ValueError) as problem:
        raise InvalidInput(
            f"the command it names cannot be run ({problem}); nothing was opened", path=variable
        ) from None
    try:
        printed = _first_bytes(process, deadline)
        if printed is not None and len(printed) > _MOST_PRINTED:
            raise InvalidInput(f"the command it names prints more than any key has; {_WRONG}", path=variable)
        try:
            code = process.wait(max(0.0, deadline - time.monotonic())) if printed is not None else None
        except subprocess.TimeoutExpired:
            code = None
    finally:
        process.kill()
        process.wait()
    if printed is None or code is None:
        raise Unavailable(
            f"the command of {variable} took more than {COMMAND_SECONDS} seconds; nothing was opened", reason="key"
        )
    if code:
        raise Unavailable(f"the command of {variable} ended with {code}; nothing was opened", reason="key")
    return _text(printed, variable)


def _first_bytes(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """Return what a command prints, no more than can be a key and a byte; None if it has not ended by then.

    In a thread, because a read cannot be given up: one that others keep from ending is left behind.
    """
    found: list[bytes] = []

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as out:
            found.append(out.read(_MOST_PRINTED + 1))

    reader = threading.Thread(target=read, name="strongroom-key", daemon=True)
    reader.start()
    reader.join(max(0.0, deadline - time.monotonic()))
    return found[0] if found else None


def _text(raw: bytes, variable: str) -> str:
    """Return what a file or a command holds, without the line's end that editors and `echo` add."""
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise InvalidInput(
            f"what it names is no text; write {KEY_BYTES} raw bytes as hex: and their digits (nothing was opened)",
            path=variable,
        ) from None


_SOURCES: dict[str, Callable[[str, str], str]] = {
    "": lambda variable, value: value,
    "_FILE": _from_file,
    "_COMMAND": _from_command,
}
