"""The file format: tables, its version, and how older files become current ones.

One file holds everything, because SQLite's atomic commit does not span files in WAL mode. `docs/format.md` is the
page for people; this module is the truth.

A record's rowid is `ref << 32 | index`: a stream is one stretch of one B-tree, its length is its largest rowid, and
appending touches no other row. `ref` is the stream's row in `head`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache

import apsw

from strongroom.errors import Damaged, SchemaMismatch

APPLICATION_ID = 0x5372746D  # "Srtm"
FORMAT = 1
INDEX_BITS = 32
_FORMAT_MASK = 0xFF  # user_version holds the format in its lowest byte, and a stamp that only grows above it

TABLES = """
CREATE TABLE head (
    ref     INTEGER PRIMARY KEY,   -- order of creation; the high half of the rowids of a stream's records
    space   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    id      TEXT NOT NULL,
    stream  INTEGER NOT NULL,      -- 0 document, 1 stream
    alive   INTEGER NOT NULL,      -- 0 tombstone
    version INTEGER NOT NULL,      -- document: its version; stream: how many of its oldest records are gone
    value   BLOB,                  -- document: canonical JSON
    tags    BLOB,                  -- document: canonical JSON object of strings, or NULL
    text    TEXT,                  -- document: what is searchable, or NULL
    chain   BLOB,                  -- stream: the chain value just before its oldest stored record, or NULL
    sum     INTEGER NOT NULL       -- CRC-32 of the row
) STRICT;
CREATE UNIQUE INDEX head_by_name ON head (space, kind, id);
CREATE INDEX head_by_order ON head (space, kind, ref) WHERE stream = 0 AND alive = 1;

CREATE TABLE tag (                     -- which living documents carry a tag
    label BLOB NOT NULL,               -- the tag and where it counts, see rows.py
    ref   INTEGER NOT NULL,            -- head.ref
    PRIMARY KEY (label, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE record (
    pos        INTEGER PRIMARY KEY,  -- ref << 32 | index
    type       TEXT NOT NULL,
    body       BLOB,                 -- canonical JSON; NULL once erased
    weight     INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    sender     TEXT,
    receiver   TEXT,
    text       TEXT,
    commitment BLOB,
    chain      BLOB,
    sum        INTEGER NOT NULL,     -- CRC-32 of the row
    receipt    BLOB                  -- of the commit that ended here, if it is kept here; see receipts.py
) STRICT;

CREATE VIRTUAL TABLE word USING fts5 (   -- rowid: a record's pos, or a document's ref; see search.py
    text, content = '', tokenize = 'ascii', detail = none, columnsize = 0
);

CREATE TABLE unindexed (               -- what `word` does not know yet
    place INTEGER NOT NULL,            -- its space and kind, see rows.py
    ref   INTEGER NOT NULL,            -- head.ref
    start INTEGER NOT NULL,            -- stream: the first index not in `word`; document: 0
    PRIMARY KEY (place, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE receipt (                 -- what makes a repeated commit safe
    space    TEXT NOT NULL,
    id       TEXT NOT NULL,
    until    INTEGER NOT NULL,         -- the microsecond since 1970 after which it may be swept
    digest   BLOB NOT NULL,            -- of what was asked for
    versions BLOB NOT NULL,            -- a JSON list, a number for each write
    answer   BLOB,                     -- canonical JSON, if the caller wanted one kept
    sum      INTEGER NOT NULL,         -- CRC-32 of the row, except `until`
    PRIMARY KEY (space, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE carrier (                 -- streams with records whose `receipt` is not in that table yet
    ref   INTEGER PRIMARY KEY,         -- head.ref
    start INTEGER NOT NULL             -- the index of the first such record, and above its 32 bits a checksum
) STRICT;

CREATE TABLE duty (                    -- what must still be done so that nothing erased is left anywhere
    id        INTEGER PRIMARY KEY,     -- 1: there is one duty, however much was erased
    since     INTEGER NOT NULL,        -- the microsecond since 1970 of the oldest erasure it stands for
    mark      INTEGER NOT NULL,        -- grows with each erasure, so that nobody crosses out what came meanwhile
    rewritten INTEGER NOT NULL         -- 0: the file must be rewritten, and its log emptied; 1: only the log
) STRICT;
"""

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"

# MIGRATIONS[n] turns a file of format n into one of format n + 1, inside the transaction that sets the new number.
MIGRATIONS: dict[int, str] = {}


def is_current(con: apsw.Connection) -> bool:
    """Tell whether the file needs nothing done; raise `SchemaMismatch` if it is not ours or too new."""
    application, version = _require_ours(con)
    return application == APPLICATION_ID and version == FORMAT and _journal(con) == "wal"


def require_readable(con: apsw.Connection) -> None:
    """Raise `SchemaMismatch` unless the file can be read as it is."""
    application, version = _require_ours(con)
    if application == 0:
        raise SchemaMismatch("this file holds no store yet, and opened read-only none can be made", reason="empty")
    if version < FORMAT:
        raise SchemaMismatch(
            f"this store has format {version}, and is read as format {FORMAT}: open it once where it can be written, "
            "which brings it up to date",
            reason="older",
        )


def _require_ours(con: apsw.Connection) -> tuple[int, int]:
    """Return the application id and the format, or raise `SchemaMismatch` if the file is not ours or too new."""
    with con:  # one snapshot: somebody else may be creating the tables right now
        application, version = _numbers(con)
        strange = application not in (0, APPLICATION_ID) or (application == 0 and _has_tables(con))
    if strange:
        raise SchemaMismatch(
            f"{con.filename} is a SQLite file of another program; nothing was changed", reason="foreign"
        )
    if application == APPLICATION_ID and version == 0:
        raise Damaged("the number of this store's format is lost; restore a backup", reason="corrupt")
    if version > FORMAT:
        raise SchemaMismatch(
            f"this store has format {version}, and this Strongroom knows formats up to {FORMAT}; "
            "upgrade strongroom (nothing was changed)",
            reason="newer",
        )
    return application, version


def bring_up_to_date(con: apsw.Connection, deadline: float) -> None:
    """Create or migrate. The caller holds the opening lock, so one process does this at a time."""
    _use_log(con, deadline)
    con.execute("BEGIN IMMEDIATE")
    try:
        application, version = _numbers(con)
        if application == 0:
            con.execute(TABLES)
        else:
            for step in range(version, FORMAT):
                con.execute(MIGRATIONS[step])
        con.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        con.execute(f"PRAGMA user_version = {_stamped(con) | FORMAT}")
        con.execute("COMMIT")
    except BaseException:
        if con.in_transaction:
            con.execute("ROLLBACK")
        raise


def stamp(con: apsw.Connection) -> None:
    """Mark the state that the open transaction makes as later than all before.

    Once for each time that the log is copied into the file is enough, and is what `Committer` does: an earlier copy of
    the file then carries a smaller number, and a later one differs by nothing that the log does not hold.
    """
    if (number := con.pragma("user_version") + _FORMAT_MASK + 1) < 2**31:
        con.execute(f"PRAGMA user_version = {number}")


def differences(con: apsw.Connection) -> Iterator[str]:
    """Return what a file's tables and indexes are called that are not as they were made."""
    expected, found = _as_made(TABLES), _as_found(con)
    for name in sorted({*expected, *found}, key=repr):  # in a damaged file a name may be anything
        if expected.get(name) != found.get(name):
            yield f"{name[0]} {name[1]!r}"


@cache
def _as_made(tables: str) -> dict[tuple[object, ...], object]:
    con = apsw.Connection(":memory:")
    try:
        con.execute(tables)
        return _as_found(con)
    finally:
        con.close()


def _as_found(con: apsw.Connection) -> dict[tuple[object, ...], object]:
    return {row[:3]: row[3] for row in con.execute(_SCHEMA).fetchall()}


def _use_log(con: apsw.Connection, deadline: float) -> None:
    while True:
        try:
            con.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            # Others who open the file now are looking at it. SQLite's own timeout does not cover this switch.
            if time.monotonic() > deadline:
                raise
        time.sleep(0.001)


def _numbers(con: apsw.Connection) -> tuple[int, int]:
    return con.pragma("application_id"), con.pragma("user_version") & _FORMAT_MASK


def _stamped(con: apsw.Connection) -> int:
    return int(con.pragma("user_version")) & ~_FORMAT_MASK


def _journal(con: apsw.Connection) -> str:
    return str(con.pragma("journal_mode"))


def _has_tables(con: apsw.Connection) -> bool:
    return bool(con.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall())
