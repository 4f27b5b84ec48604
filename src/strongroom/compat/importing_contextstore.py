"""Bringing a ContextStore file into a Strongroom store. The file itself is only ever read, from a copy.

Its one table holds a row a session with the whole history as JSON text. A row that is damaged gives what can still be
read of it, is named in the report, and does not keep the others from being brought over.
"""

from __future__ import annotations

import fcntl
import json
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
from msgspec import Struct

import strongroom
from strongroom.blocking import Context
from strongroom.compat.interactions import messages, require_storable
from strongroom.errors import BudgetExceeded, InvalidInput, NotFound, SchemaMismatch
from strongroom.store import Key

log = logging.getLogger(__name__)

SUFFIX = ".strongroom"
TABLE = "tb_context"
FROM = {"from": "contextstore"}
_HEADER = b"SQLite format 3\0"
_LONGEST_ID = 255


class Damage(Struct, frozen=True):
    """What could not be brought over as it was, and why."""

    session_id: str
    reason: str


class ImportReport(Struct, frozen=True):
    """What an import did, or with `dry_run` would do. `skipped` sessions are in the store already."""

    source: str
    sessions: int
    messages: int
    damaged: tuple[Damage, ...] = ()
    skipped: tuple[str, ...] = ()
    dry_run: bool = False


def import_contextstore(source: str | Path, context: Context | None = None, *, dry_run: bool = False) -> ImportReport:
    """Bring the sessions of a ContextStore file into a store. One that is there already stays as it is.

    With `dry_run` nothing is written, and no store is needed.
    """
    if context is None and not dry_run:
        raise InvalidInput("an import needs a store to write to; pass one, or dry_run=True")
    sessions = count = 0
    damaged: list[Damage] = []
    skipped: list[str] = []
    seen: dict[str, bytes] = {}
    rows = _rows(Path(source))
    while True:
        try:
            session_id, text = next(rows)
        except StopIteration:
            break
        except apsw.Error as problem:
            damaged.append(Damage("", f"the file cannot be read any further: {problem}"))
            break
        if session_id in seen:
            if text != seen[session_id]:
                damaged.append(Damage(session_id, "a second row with another history; the first one was brought over"))
            continue
        seen[session_id] = text
        found, reasons = _history(text)
        damaged += [Damage(session_id, reason) for reason in reasons]
        try:
            Key("default", "session", session_id)
            if context is not None and not _come(context, session_id, found, dry_run):
                skipped.append(session_id)
                continue
        except (InvalidInput, BudgetExceeded) as problem:  # the latter from a server that takes no such long request
            damaged.append(Damage(session_id, str(problem)))
            continue
        sessions += 1
        count += len(found)
    return ImportReport(str(source), sessions, count, tuple(damaged), tuple(skipped), dry_run)


def adopted(path: Path) -> Path:
    """Return the store to open for a path: the file itself, or the store beside a file that ContextStore wrote.

    That store is made the first time, whole or not at all, by one process while the others wait.
    """
    beside = path.with_name(path.name + SUFFIX)
    if beside.exists() or not is_contextstore(path):
        return beside if beside.exists() else path
    making = path.with_name(f"{path.name}{SUFFIX}.partial")
    with path.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not beside.exists():
            # In a folder of its own: a store has companion files, and all of them go with it.
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            try:
                with strongroom.open(making / path.name) as context:
                    report = import_contextstore(path, context)
                (making / path.name).rename(beside)
            finally:
                shutil.rmtree(making, ignore_errors=True)
            log.info("%s: %d sessions are now in %s", path, report.sessions, beside)
            for damage in report.damaged:
                log.error("%s: session %r: %s", path, damage.session_id, damage.reason)
    return beside


def is_contextstore(path: Path) -> bool:
    """Tell whether a file is one that ContextStore wrote."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        header = file.read(72)
    # Byte 68 on names the application: nobody in a file of ContextStore's, Strongroom in ours, which need no copying.
    if not header.startswith(_HEADER) or header[68:] != bytes(4):
        return False
    try:
        with _copy(path) as connection:
            return bool(list(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,))))
    except apsw.Error:
        return False


def _rows(path: Path) -> Iterator[tuple[str, bytes]]:
    if not path.is_file():
        raise NotFound(f"there is no file {str(path)!r}; nothing changed", kind="file", id=str(path))
    if not is_contextstore(path):
        raise SchemaMismatch(f"{path} is not a file that ContextStore wrote; nothing changed", reason="contextstore")
    with _copy(path) as connection:
        # As bytes: a damaged text is for us to judge, not for the driver to refuse.
        yield from (
            (str(session_id), bytes(text or b""))
            for session_id, text in connection.execute(
                f"SELECT session_id, CAST(context_json AS BLOB) FROM {TABLE}"
                " WHERE session_id IS NOT NULL ORDER BY rowid"
            )
        )


@contextmanager
def _copy(path: Path) -> Iterator[apsw.Connection]:
    """Open a copy, so that not even a journal left by a crash is rolled back in the original."""
    with tempfile.TemporaryDirectory(prefix="strongroom-import-") as folder:
        for suffix in ("", "-wal", "-journal"):
            part = path.with_name(path.name + suffix)
            if part.is_file():
                shutil.copyfile(part, Path(folder, "copy.db" + suffix))
        connection = apsw.Connection(str(Path(folder, "copy.db")))
        try:
            yield connection
        finally:
            connection.close()


def _come(context: Context, session_id: str, found: Any, dry_run: bool) -> bool:
    """Bring in a session, unless it is there. One of ours that never had a message is left of an import that ended."""
    try:
        session = context.sessions.get(session_id)
    except NotFound:
        if dry_run:
            return True
        session = context.sessions.open(session_id, tags=FROM)
    else:
        info, begun = session.info(), session._async._state.cut is not None
        if not found or begun or info.messages or not FROM.items() <= info.tags.items():
            return False
    if not dry_run:
        session.append(found)  # all of them, or none
    return True


def _history(text: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the messages of a row, ready to store, and what is wrong with it."""
    items, reasons = _items(text.decode(errors="replace"))
    if "\ufffd" in text.decode(errors="replace") and "\ufffd".encode() not in text:
        reasons.append("some bytes are not UTF-8; U+FFFD stands in their place")
    made = messages([_unwrapped(item) for item in items])
    kept: list[dict[str, Any]] = []
    ids: set[str] = set()
    for place, message in enumerate(made):
        given = str(message["id"])
        if given in ids or not 0 < len(given) <= _LONGEST_ID:
            reasons.append(f"message {place} had the id {given!r:.80}, which is taken or no id; it has a new one")
            given = str(uuid4())
        try:
            require_storable({**message, "id": given})
        except InvalidInput as problem:
            reasons.append(f"message {place} cannot be stored: {problem}")
            continue
        ids.add(given)
        kept.append({**message, "id": given})
    return kept, reasons


def _items(text: str) -> tuple[list[Any], list[str]]:
    """Return the items of a JSON list, and where it stops being one."""
    decoder = json.JSONDecoder(parse_constant=str)
    items: list[Any] = []
    place = _after_space(text, 0)
    if text[place : place + 1] != "[":
        return [], [f"the history is not a JSON list; none of its {len(text)} characters could be read"]
    place = _after_space(text, place + 1)
    while text[place : place + 1] != "]":
        try:
            item, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return items, [
                f"the history is damaged at character {place} of {len(text)}; {len(items)} messages before it"
            ]
        items.append(item)
        place = _after_space(text, place)
        if text[place : place + 1] == ",":
            place = _after_space(text, place + 1)
    return items, []


def _after_space(text: str, place: int) -> int:
    while text[place : place + 1].isspace():
        place += 1
    return place


def _unwrapped(item: Any) -> Any:
    """Undo what ContextStore did to chat messages: the text under "data", and the role beside it."""
    content = item.get("content") if isinstance(item, Mapping) else None
    if not isinstance(content, Mapping) or not {"role", "data"} <= content.keys():
        return item
    outside = {name: value for name, value in content.items() if name != "data"}
    return {**outside, **item, "content": content["data"]}
