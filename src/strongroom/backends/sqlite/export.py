"""Everything out of a file, or into one, exactly as it is stored: as items, or as a copy of the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from glob import escape
from itertools import takewhile
from pathlib import Path
from typing import Any

import apsw

from strongroom.backends.sqlite.encryption import Cipher
from strongroom.backends.sqlite.failures import DRIVER_ERRORS, translate
from strongroom.backends.sqlite.rekeying import make_like, sync
from strongroom.backends.sqlite.rows import (
    HEAD_COLUMNS,
    MASK,
    RECORD_COLUMNS,
    checksum,
    label,
    place_of,
    record_sum,
    require_sound,
    stored_key,
    tags_of,
    to_record,
    top_ref,
)
from strongroom.backends.sqlite.schema import INDEX_BITS
from strongroom.codec import Json, encode
from strongroom.errors import Damaged, InvalidInput
from strongroom.files import not_written
from strongroom.store import Budget, ExportItem, ExportPage

_HEAD = f"SELECT {HEAD_COLUMNS} FROM head WHERE space = ? AND kind = ? AND id = ?"
_HEADS = "ref, space, kind, id, stream, alive, version, value, tags, text, chain, sum"

# Names as bytes: the text of a damaged row may be none. Where the row's page cannot be read the index knows them.
_NAMED = "SELECT ref, CAST(space AS BLOB), CAST(kind AS BLOB), CAST(id AS BLOB) FROM head"
_FIND = (
    f"{_NAMED} WHERE ref >= ? ORDER BY ref LIMIT 1",
    f"{_NAMED} INDEXED BY head_by_name WHERE space >= '' AND ref >= ? ORDER BY ref LIMIT 1",
)
_LATER = "INSERT OR IGNORE INTO unindexed (place, ref, start) VALUES (?, ?, ?)"


def unload(con: apsw.Connection, after: str | None, limit: int, max_bytes: int) -> ExportPage:
    """Return the next items. The cursor is "ref:index of the record". Damage says in `place` what is behind it."""
    ref, index = (int(part) for part in (after or "0:0").split(":"))
    items: list[ExportItem] = []
    budget = Budget(max_bytes)
    while limit > 0 and not budget.full:
        try:
            head: Any = con.execute(f"SELECT {_HEADS} FROM head WHERE ref >= ? ORDER BY ref LIMIT 1", (ref,)).fetchone()
            if head is None:
                return ExportPage(tuple(items), None)
            if head[0] != ref:
                ref, index = head[0], 0
            item = _item(con, head, index, limit, budget)
        except (Damaged, *DRIVER_ERRORS) as problem:
            raise _placed(con, problem, ref) from problem
        if budget.full and not item.records:
            break  # nothing of it fitted
        items.append(item)
        limit -= max(len(item.records), 1)
        if item.records and (limit <= 0 or budget.full):
            index = item.records[-1].index + 1
        else:
            ref, index = ref + 1, 0
    return ExportPage(tuple(items), f"{ref}:{index}")


def _placed(con: apsw.Connection, problem: BaseException, ref: int) -> BaseException:
    """Return what was found wrong at a `ref`, or with the first row behind it; `place` is where the next one stands."""
    damage = problem if isinstance(problem, Damaged) else translate(problem, reading=True)
    if not isinstance(damage, Damaged):
        return damage
    for find in _FIND:
        try:
            found: Any = con.execute(find, (ref,)).fetchone()
        except DRIVER_ERRORS:
            continue  # the page that the row stands on, or the index of names
        if found is None:
            break
        at, *names = found
        if not isinstance(problem, Damaged):
            space, kind, id = (bytes(name).decode(errors="replace") for name in names)
            damage = Damaged(f"{kind} {id!r} in {space!r}: {damage}", reason=damage.reason)
        damage.place = f"{at + 1}:0"
        break
    return damage


def _item(con: apsw.Connection, head: tuple[Any, ...], index: int, limit: int, budget: Budget) -> ExportItem:
    ref, space, kind, id, stream, alive, version, value, tags, text, chain, total = head
    key = stored_key(space, kind, id)
    require_sound(key, (ref, stream, alive, version, value, tags, text, chain, total))
    if not stream:
        budget.takes(value, text)
        stored = None if value is None else Json(value)
        return ExportItem(key, False, bool(alive), version, stored, tags_of(tags), text)
    start = max(index, version)
    rows = con.execute(
        f"SELECT {RECORD_COLUMNS} FROM record WHERE pos >= ? AND pos < ? ORDER BY pos LIMIT ?",
        ((ref << INDEX_BITS) + start, (ref + 1) << INDEX_BITS, limit),
    )
    sound = (to_record(key, row, place) for place, row in enumerate(rows, start))
    records = tuple(takewhile(lambda record: budget.takes(record.body, record.text), sound))
    rows.close()
    return ExportItem(key, True, bool(alive), version, chain=chain, records=records)


def load(con: apsw.Connection, items: Sequence[ExportItem]) -> None:
    """Put items in place, inside the caller's transaction."""
    for item in items:
        key = item.key
        found: Any = con.execute(_HEAD, (key.space, key.kind, key.id)).fetchone()
        if found is not None:
            require_sound(key, found)
        ref = found[0] if found is not None else top_ref(con) + 1
        tags = bytes(encode(item.tags)) if item.tags else None
        value = None if item.value is None else bytes(item.value)
        columns = (item.stream + 0, item.alive + 0, item.version, value, tags, item.text, item.chain)
        con.execute(
            f"INSERT OR REPLACE INTO head ({_HEADS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (ref, key.space, key.kind, key.id, *columns, checksum((key.space, key.kind, key.id, ref, *columns))),
        )
        for name, word in item.tags.items() if item.alive else ():
            carried = label(key.space, key.kind, name, word)
            con.execute("INSERT OR IGNORE INTO tag (label, ref) VALUES (?, ?)", (carried, ref))
        if item.text is not None:
            con.execute(_LATER, (place_of(key.space, key.kind), ref, 0))
        _load_records(con, ref, item)


def _load_records(con: apsw.Connection, ref: int, item: ExportItem) -> None:
    if any(record.text is not None for record in item.records):
        con.execute(_LATER, (place_of(item.key.space, item.key.kind), ref, item.records[0].index))
    for record in item.records:
        body = None if record.body is None else bytes(record.body)
        row = (
            (ref << INDEX_BITS) + (record.index & MASK),
            record.type,
            body,
            record.weight,
            record.at,
            record.sender,
            record.receiver,
            record.text,
            record.commitment,
            record.chain,
        )
        con.execute(
            f"INSERT OR IGNORE INTO record ({RECORD_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, None, record_sum(row, None)),  # receipts stay behind
        )


def backup(target: Path, write: Callable[[Path], None]) -> None:
    """Write a copy of a file as it is now, complete and under its name, or not at all."""
    try:
        _require_free(target)
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        partial.unlink(missing_ok=True)
    except OSError as problem:
        raise not_written(target, problem) from None
    complete = False
    try:
        write(partial)
        sync(partial)
        os.link(partial, target)  # unlike a rename, this refuses to overwrite what appeared meanwhile
        complete = True
        sync(target.parent)
    except FileExistsError:
        raise _in_the_way(target) from None
    except OSError as problem:
        raise not_written(target, problem, nothing=not complete) from None
    finally:
        with suppress(OSError):  # whatever kept it from being made
            partial.unlink()


def _require_free(target: Path) -> None:
    for old in target.parent.glob(f".{escape(target.name)}.*.partial"):
        if not _is_alive(old.name.split(".")[-2]):
            old.unlink(missing_ok=True)  # whoever wrote it was killed
    if target.exists():
        raise _in_the_way(target)
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist (nothing changed)")


def _in_the_way(target: Path) -> InvalidInput:
    return InvalidInput(f"{target} exists already; a backup never overwrites (nothing changed)")


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def copy_pages(source: apsw.Connection, cipher: Cipher, partial: Path) -> None:
    """Copy a file page by page, under the same key."""
    make_like(Path(source.filename), partial)
    copy = apsw.Connection(str(partial))
    try:
        cipher.unlock(copy)
        with copy.backup("main", source, "main") as running:
            while not running.done:
                running.step(1024)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, no sidecars
    finally:
        copy.close()
