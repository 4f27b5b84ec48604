"""Full-text search: an FTS5 index that is filled when somebody searches, not on every commit.

A full-text insert inside each commit was measured to cost 40 % of the append rate, so a commit only notes that a
stream or document has news (`unindexed`, one row per stream however many records). A search first brings the index up
to date for what it is about to ask, in short transactions, then asks it: what was committed before is always found.

A store that is never searched is never indexed, as long as it is small. Where more than MOST_BEHIND texts wait, those
who commit index some of them now and then (`Committer`), so that the first search of a long history is a short call.

The index stores words as `strongroom.stemming` made them, never the text (it is contentless), plus one marker per row
for its (space, kind) and one for each tag, so that a query is narrowed to its tenant inside the index. The text itself
is read from the row, which is also where a hit is checked again. A commit that erases removes words physically (FTS5's
secure-delete).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import blake2b
from typing import Any

import apsw
import msgspec

from strongroom.backends.sqlite.rows import (
    HEAD_COLUMNS,
    MASK,
    RECORD_COLUMNS,
    place_of,
    require_sound,
    stored_key,
    tags_of,
    to_document,
    to_record,
)
from strongroom.backends.sqlite.schema import INDEX_BITS
from strongroom.errors import Damaged
from strongroom.retrieval import MOST_PLACES, choose
from strongroom.stemming import words
from strongroom.store import Document, Find, Found, Key, Match, matches_within

STEP = 2_000  # how many records one catching-up transaction indexes, so that writers wait for moments only
SHORT_STEP = 500  # the same for one that somebody's commit has to wait for
# So many places are read and looked at one by one: an owner of a few memories among those of many others. For each word
# the index would leap to each of them, past all that others have of it, in each of its parts.
FEW = 16
MOST_BEHIND = 10_000  # texts that may wait for a search: a fifth of a second
_rowids = msgspec.json.Decoder(list[int])

_HEAD = f"SELECT {HEAD_COLUMNS} FROM head WHERE space = ? AND kind = ? AND id = ?"
# From the short list of what is missing to its names, never the other way round: CROSS JOIN keeps SQLite from walking
# through every document of a kind for each one that is missing. The list of others is none of a search's business.
_MISSING = "SELECT u.place, u.start, h.space, h.kind, h.ref, h.stream"
_BEHIND = f"{_MISSING} FROM unindexed AS u CROSS JOIN head AS h ON h.ref = u.ref"
_BEHIND_IN = f"{_BEHIND} WHERE u.place = ? AND h.space = ? AND h.kind = ? LIMIT ?"
_BEHIND_ANYWHERE = f"{_BEHIND} LIMIT ?"
# Only of what has one name it is quicker to ask whether it is on the list.
_BEHIND_OF = f"""{_MISSING} FROM head AS h CROSS JOIN unindexed AS u ON u.ref = h.ref
WHERE u.place = ? AND h.space = ? AND h.kind = ? AND h.id = ? LIMIT ?"""
# A document is one text; a stream has the records from `start` to its end.
_HOW_MANY = f"""
SELECT sum(coalesce((SELECT max(pos) & {MASK} FROM record
  WHERE pos >= u.ref << {INDEX_BITS} AND pos < (u.ref + 1) << {INDEX_BITS}) + 1 - u.start, 1))
FROM (SELECT ref, start FROM unindexed LIMIT ?) AS u"""
_TEXTS = "SELECT pos, text FROM record WHERE pos >= ? AND pos < ? ORDER BY pos LIMIT ?"
_BYTES = "SELECT pos, cast(text AS BLOB) FROM record WHERE pos >= ? AND pos < ? ORDER BY pos LIMIT ?"
_ALIVE = "SELECT {} FROM head WHERE ref = ? AND alive = 1"
_ID = "SELECT cast(id AS BLOB) FROM head WHERE ref = ? AND cast(space AS BLOB) = ? AND cast(kind AS BLOB) = ?"
_KNOWN = "DELETE FROM unindexed WHERE place = ? AND ref = ?"
_KNOWN_UNTIL = "UPDATE unindexed SET start = ? WHERE place = ? AND ref = ?"
_ADD = "INSERT INTO word (rowid, text) VALUES (?, ?)"
_SECURE = "INSERT INTO word (word, rank) VALUES ('secure-delete', ?)"
_REMOVE = "INSERT INTO word (word, rowid, text) VALUES ('delete', ?, ?)"


def is_behind(con: apsw.Connection, find: Find) -> bool:
    """Tell whether the index lacks something that this search could ask for."""
    return bool(_missing(con, find, 1))


def how_far_behind(con: apsw.Connection, most_rows: int = 1_000) -> int:
    """Return how many texts the index lacks, or at least that many: only so many streams and documents are asked."""
    row: Any = con.execute(_HOW_MANY, (most_rows,)).fetchone()
    return int(row[0] or 0)


def catch_up(con: apsw.Connection, find: Find) -> None:
    """Index the next stretch of what a search lacks, inside the caller's transaction."""
    _index(con, _missing(con, find, STEP), STEP)


def _missing(con: apsw.Connection, find: Find, most: int) -> list[Any]:
    """Return what a search could ask for and the index lacks: where from, and the row of `head`."""
    there = (place_of(find.space, find.kind), find.space, find.kind)
    if find.id is None:
        return con.execute(_BEHIND_IN, (*there, most)).fetchall()
    return con.execute(_BEHIND_OF, (*there, find.id, most)).fetchall()


def catch_up_anywhere(con: apsw.Connection) -> int:
    """Index a short stretch of whatever is missing, inside the caller's transaction; return how many texts it had."""
    return _index(con, con.execute(_BEHIND_ANYWHERE, (SHORT_STEP,)).fetchall(), SHORT_STEP)


def _index(con: apsw.Connection, missing: list[Any], most: int) -> int:
    left = most
    for place, start, space, kind, ref, stream in missing:
        if left <= 0:
            break
        if place != place_of(space, kind):
            raise Damaged("the list of what the index lacks is damaged; restore a backup", reason="corrupt")
        # So it is known where it belongs, and is indexed as it stands, even if it is damaged: whoever finds it sees
        # that, and others find the rest.
        key = Key(space, kind, "-")
        require_start(start)
        left -= _index_stream(con, key, ref, start, left) if stream else _index_document(con, key, ref)
        if con.changes() == 0:  # else whoever searches would catch up for ever
            raise Damaged("the list of what the index lacks is damaged; restore a backup", reason="corrupt")
    return most - left


def require_start(start: Any) -> int:
    """Return from where the index lacks records, which has no checksum: a damaged file may say anything."""
    if type(start) is not int or not 0 <= start <= MASK:
        raise Damaged("the list of what the index lacks is damaged; restore a backup", reason="corrupt")
    return start


def _index_stream(con: apsw.Connection, key: Key, ref: int, start: int, most: int) -> int:
    base = ref << INDEX_BITS
    markers = " ".join(_markers(key, {}))
    there = (base + start, base + MASK, most)
    try:
        rows: list[Any] = con.execute(_TEXTS, there).fetchall()
    except UnicodeDecodeError:
        rows = con.execute(_BYTES, there).fetchall()
    for pos, text in rows:
        if text is not None:
            con.execute(_ADD, (pos, _row_text(_readable(text), markers)))
    if len(rows) < most:
        con.execute(_KNOWN, (place_of(key.space, key.kind), ref))
    else:
        known = (rows[-1][0] & MASK) + 1
        con.execute(_KNOWN_UNTIL, (known, place_of(key.space, key.kind), ref))
    return max(len(rows), 1)


def _index_document(con: apsw.Connection, key: Key, ref: int) -> int:
    try:
        row: Any = con.execute(_ALIVE.format("text, tags"), (ref,)).fetchone()
    except UnicodeDecodeError:
        row = con.execute(_ALIVE.format("cast(text AS BLOB), tags"), (ref,)).fetchone()
    if row is not None and row[0] is not None:
        text, tags = row
        try:
            carried = tags_of(tags)
        except (msgspec.MsgspecError, TypeError, ValueError):
            carried = {}  # damaged: then it is found where no tag is asked for
        con.execute(_ADD, (ref, _row_text(_readable(text), " ".join(_markers(key, carried)))))
    con.execute(_KNOWN, (place_of(key.space, key.kind), ref))
    return 1


def _readable(text: Any) -> str:
    """Return a text as far as it is one: a damaged row may hold anything."""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def unindex_document(con: apsw.Connection, key: Key, ref: int, text: str, tags: dict[str, str], erase: bool) -> bool:
    """Take a document's words out of the index, or off the list of what it lacks; otherwise like `unindex_records`."""
    con.execute(_KNOWN, (place_of(key.space, key.kind), ref))
    if con.changes():
        return False
    _remove(con, [(ref, _row_text(text, " ".join(_markers(key, tags))))], erase)
    return True


def unindex_records(con: apsw.Connection, key: Key, ref: int, start: int, stop: int, erase: bool) -> bool:
    """Take the words of records start <= index < stop out of the index, with `erase` out of the file as well; tell
    whether there were any.

    FTS5 only notes a removal and tidies up later. Its secure-delete removes at once, and costs a hundred times more.
    """
    waiting = (place_of(key.space, key.kind), ref)
    behind: Any = con.execute("SELECT start FROM unindexed WHERE place = ? AND ref = ?", waiting).fetchone()
    indexed = MASK if behind is None else require_start(behind[0])
    base = ref << INDEX_BITS
    markers = " ".join(_markers(key, {}))
    known = min(stop, indexed)
    found = False
    for first in range(start, known, STEP):
        rows: list[Any] = con.execute(_TEXTS, (base + first, base + min(first + STEP, known), -1)).fetchall()
        texts = [(pos, _row_text(text, markers)) for pos, text in rows if text is not None]
        _remove(con, texts, erase)
        found |= bool(texts)
    return found


def _remove(con: apsw.Connection, texts: list[tuple[int, str]], erase: bool) -> None:
    if texts and erase:
        con.execute(_SECURE, (1,))
    con.executemany(_REMOVE, texts)
    if texts and erase:
        con.execute(_SECURE, (0,))


def search(con: apsw.Connection, find: Find) -> Found:
    """Ask the index, on a connection that holds a snapshot."""
    low, high = 0, 1 << 62
    if find.id is not None:
        head: Any = con.execute(_HEAD, (find.space, find.kind, find.id)).fetchone()
        if head is not None:
            require_sound(Key(find.space, find.kind, find.id), head)
        if head is None or not head[2]:
            return Found(0, dict.fromkeys(find.words, 0), ())
        low, high = (head[0] << INDEX_BITS, (head[0] + 1) << INDEX_BITS) if head[1] else (head[0], head[0] + 1)
    scope = narrowing(find)
    total = _count(con, scope, low, high)
    if total > FEW or not find.tags:  # the texts of a stream may be large, and its words stand side by side
        places = {word: _positions(con, matching(find, word), low, high) for word in dict.fromkeys(find.words)}
    else:
        held = {place: words(_text(con, place)) for place in _positions(con, scope, low, high)}
        places = {word: [place for place in held if word in held[place]] for word in dict.fromkeys(find.words)}
    chosen = choose(total, places, find.skip + find.limit)[find.skip :]
    heads = cache(lambda ref: con.execute(_NAME, (ref,)).fetchone())  # many places are of one stream
    damaged: list[str] = []
    shown, behind = matches_within(find, _matches(con, heads, find, chosen, damaged))
    counts = {word: len(found) for word, found in places.items()}
    return Found(total, counts, shown, behind < len(chosen), behind, tuple(damaged))


def narrowing(find: Find) -> str:
    """Return what narrows a query to where a search may look: the tags asked for, or else its (space, kind).

    A tag's marker is of its space and kind, too. Where there is one, theirs would only make the index go through all
    that stands in them.
    """
    whole, *tags = _markers(Key(find.space, find.kind, "-"), find.tags)
    return " AND ".join(f'"{marker}"' for marker in tags or [whole])


def matching(find: Find, word: str) -> str:
    """Return what asks for a word where a search may look.

    What has a name is a stretch of rowids that nobody else has: markers would only be walked through beside the word.
    """
    return f'"{word}"' if find.id is not None and not find.tags else f'{narrowing(find)} AND "{word}"'


def _count(con: apsw.Connection, query: str, low: int, high: int) -> int:
    sql = "SELECT count(*) FROM (SELECT 1 FROM word WHERE word MATCH ? AND rowid >= ? AND rowid < ? LIMIT ?)"
    row: Any = con.execute(sql, (query, low, high, MOST_PLACES)).fetchone()
    return int(row[0])


def _positions(con: apsw.Connection, query: str, low: int, high: int) -> list[int]:
    # As one text: ten thousand rows take twice as long. It says nothing of the order, so they are sorted once more,
    # which costs next to nothing where they are in order.
    newest = "SELECT rowid FROM word WHERE word MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC LIMIT ?"
    row: Any = con.execute(
        f"SELECT json_group_array(rowid) FROM ({newest})", (query, low, high, MOST_PLACES)
    ).fetchone()
    found = _rowids.decode(row[0])
    found.sort(reverse=True)
    if found and found[0] > MASK >= found[-1]:
        # Documents and streams of one kind: a document's rowid is its ref alone, and its age is told by that.
        found.sort(key=lambda place: (place >> INDEX_BITS, place) if place > MASK else (place, 0), reverse=True)
    return found


def _text(con: apsw.Connection, place: int) -> str:
    table, name = ("record", "pos") if place >> INDEX_BITS else ("head", "ref")
    try:
        row: Any = con.execute(f"SELECT text FROM {table} WHERE {name} = ?", (place,)).fetchone()
    except UnicodeDecodeError:
        row = con.execute(f"SELECT cast(text AS BLOB) FROM {table} WHERE {name} = ?", (place,)).fetchone()
    return "" if row is None or row[0] is None else _readable(row[0])


def _matches(
    con: apsw.Connection, heads: Callable[[int], Any], find: Find, chosen: list[int], damaged: list[str]
) -> Iterator[Match | None]:
    """Give what stands at each place, or None."""
    for place in chosen:
        match = None
        try:
            match = _match(con, heads, find, place)
        except (Damaged, UnicodeDecodeError) as problem:
            ref, index = (place >> INDEX_BITS, f"[{place & MASK}]") if place >> INDEX_BITS else (place, "")
            name: Any = con.execute(_ID, (ref, find.space.encode(), find.kind.encode())).fetchone()
            if name is not None:  # else it is somebody else's by its own words
                called = f"{_readable(name[0])}{index}"
                if not find.past_damage:
                    damage = problem
                    if not isinstance(damage, Damaged):
                        damage = Damaged(f"{find.kind} {called!r} holds text that is none", reason="corrupt")
                    damage.id = called
                    raise damage from None
                damaged.append(called)
        yield match


def _match(con: apsw.Connection, heads: Callable[[int], Any], find: Find, place: int) -> Match | None:
    """Read what stands at a place, and believe the row, not the index, about whose it is."""
    if place >> INDEX_BITS:
        row: Any = con.execute(f"SELECT {RECORD_COLUMNS} FROM record WHERE pos = ?", (place,)).fetchone()
        name: Any = heads(place >> INDEX_BITS)
        if row is None or name is None or name[:2] != (find.space, find.kind):
            return None
        key = stored_key(*name[:3])
        require_sound(key, name[3:])
        record = to_record(key, row, place & MASK)
        return Match(key, record=record) if record.text is not None else None
    found: Any = heads(place)
    if found is None or found[:2] != (find.space, find.kind):
        return None
    key = stored_key(*found[:3])
    document: Document | None = to_document(key, found[3:])
    fits = document is not None and document.text is not None and find.tags.items() <= document.tags.items()
    return Match(key, document=document) if fits else None


_NAME = f"SELECT space, kind, id, {HEAD_COLUMNS} FROM head WHERE ref = ?"


def terms(key: Key, text: str, tags: dict[str, str]) -> Iterable[str]:
    """Return what the index holds of a text, as its tokenizer leaves it."""
    return (*_markers(key, tags), *words(text))


def _row_text(text: str, markers: str) -> str:
    return f"{markers} {' '.join(words(text))}"


def _markers(key: Key, tags: dict[str, str]) -> Iterable[str]:
    """Return the index words that stand for a (space, kind) and for each tag in it; § never occurs in a real word."""
    yield _marker(key.space, key.kind)
    for name, value in sorted(tags.items()):
        yield _marker(key.space, key.kind, name, value)


def _marker(*parts: Any) -> str:
    return "§" + blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()
