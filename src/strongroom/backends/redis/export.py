"""Export and import of everything on a server, exactly as it is stored.

Nothing lists the spaces of a store, because in a cluster no script could keep such a list: they are found by looking at
the names of all keys, once a move. A cursor is "order:index:space": where in a space to go on, and from which record of
a stream. `MovableCore` asks; everything below it is pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from struct import Struct as Packer
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.backends.redis.core import Core
from strongroom.backends.redis.decoding import KeyHead, open_document, open_head
from strongroom.backends.redis.encoding import (
    ScriptCall,
    commit_keys,
    pack_document,
    pack_entry,
    places_of,
    receipt_arguments,
)
from strongroom.backends.redis.layout import SEP, Layout, checksum_seed
from strongroom.backends.redis.scripts import READ
from strongroom.errors import Damaged, InvalidInput
from strongroom.store import (
    EXPORT_BYTES,
    Budget,
    Commit,
    Delete,
    ExportItem,
    ExportPage,
    Key,
    Part,
    Range,
    Record,
    Slice,
    new_id,
)

# What one call carries: bounded like a commit, and far below its limits.
MAX_ITEMS = 500
MAX_LOAD = 2_000
MAX_LOAD_BYTES = 32 * 1024 * 1024

_COUNTS, _DOCUMENT, _STREAM, _INDEX = (Packer(format).pack for format in (">III", ">cIdB", ">cIdBI", ">d"))


class ExportCursor(Struct, frozen=True):
    """Where an export goes on."""

    space: str = ""
    order: int = 0
    index: int = 0

    def __str__(self) -> str:
        return f"{self.order}:{self.index}:{self.space}"


def parse_cursor(cursor: str | None) -> ExportCursor:
    if cursor is None:
        return ExportCursor()
    order, _, rest = cursor.partition(":")
    index, _, space = rest.partition(":")
    if not (order.isdecimal() and index.isdecimal()):
        raise InvalidInput(f"a cursor must be one that an earlier page returned, not {cursor!r:.40}")
    return ExportCursor(space, int(order), int(index))


class MovableCore(Core):
    """A core that can also be exported and imported."""

    _spaces: list[str] | None = None

    async def unload(self, after: str | None, limit: int, max_bytes: int = EXPORT_BYTES) -> ExportPage:
        """Return the next items, space by space."""
        self.check_open(writing=False)
        place = parse_cursor(after)
        if after is None or self._spaces is None:
            self._spaces = await self._find_spaces()
        items: list[ExportItem] = []
        budget = Budget(max_bytes)
        for space in self._spaces:
            if space < place.space:
                continue
            here: ExportCursor | None = place if space == place.space else ExportCursor(space)
            while here is not None:
                if limit <= 0 or budget.full:
                    return ExportPage(tuple(items), str(here))
                here, limit = await self._unload_space(here, limit, budget, items)
        return ExportPage(tuple(items), None)

    async def _unload_space(
        self, place: ExportCursor, limit: int, budget: Budget, items: list[ExportItem]
    ) -> tuple[ExportCursor | None, int]:
        """Add items from a place on; return where to go on (None: the space is done) and how many may still come.

        The server leaves out what does not fit, by what it stores of it; whatever it left out, the page ends there.
        """
        asked = min(limit, MAX_ITEMS)
        call = encode_list(self.layout, place, asked, budget.left)
        reply, *cut = (await self.persist(lambda _: self.send(place.space, READ, call)))[0]
        for each in decode_list(place.space, reply):
            here = ExportCursor(place.space, each.order, place.index if each.order == place.order else 0)
            if limit <= 0:
                return here, 0
            if not each.head.stream:
                document = exported_document(each)
                if not budget.takes(document.value, document.text):
                    return here, limit
                items.append(document)
                limit -= 1
                continue
            start = max(here.index, each.head.first)
            part = await self.read_within([Range(each.key, start, limit=limit)], max(budget.left, 0))
            records = _fitting(part, budget)
            if budget.full and not records:
                return here, limit
            items.append(exported_stream(each, records))
            limit -= max(len(records), 1)
            budget.full |= part.cut
            if each.head.alive and start + len(records) < each.head.count:
                return ExportCursor(place.space, each.order, start + len(records)), limit
        budget.full |= bool(cut)
        if len(reply) < 4 * asked and not cut:
            return None, limit
        return ExportCursor(place.space, int(reply[-4]) + 1), limit

    async def load(self, items: Sequence[ExportItem]) -> None:
        """Put items in place as they are."""
        self.check_open()
        for some in in_loads(items):
            writes = tuple(Delete(item.key) for item in some)  # stands for them where a refusal names one
            commit = Commit(new_id(), (), writes)
            await self.apply(commit, encode_load(self.layout, commit, some))

    async def _find_spaces(self) -> list[str]:
        """Return every space of this store, sorted. Looks at all keys of the server."""
        start, end = f"{{{self.layout.prefix}:".encode(), b"}\x1fheads"
        spaces: set[str] = set()
        for node in await self.primaries():
            cursor = b"0"
            while True:
                command = ("SCAN", cursor, "MATCH", start + b"*" + end, "COUNT", 1000)
                cursor, names = await self.ask(command, node)
                # A stream named "heads" may look like a space, but then there is a separator in its name.
                found = [name[len(start) : -len(end)] for name in names]
                spaces.update(name.decode() for name in found if SEP not in name)
                if cursor == b"0":
                    break
        return sorted(spaces)


class Listed(Struct, frozen=True):
    """A key of a space as the list names it."""

    order: int
    key: Key
    head: KeyHead
    value: bytes | None


def encode_list(layout: Layout, place: ExportCursor, limit: int, room: int) -> ScriptCall:
    """Ask for the keys of a space from a place on, with as many documents as there is room for."""
    low = b"[" + SEP + b"%016d" % place.order
    return ScriptCall([layout.heads(place.space), layout.index(place.space)], [max(room, 0), 1, b"L", 1, 2, low, limit])


def decode_list(space: str, flat: Sequence[Any]) -> list[Listed]:
    """Open the answer, leaving out entries without a head."""
    found = []
    for at in range(0, len(flat), 4):
        order, name, head, value = flat[at : at + 4]
        if head is not None:
            key = _named(space, name)
            found.append(Listed(int(order), key, open_head(key, head), value))
    return found


def exported_document(listed: Listed) -> ExportItem:
    if not listed.head.alive:
        return ExportItem(listed.key, False, False, listed.head.count)
    found = open_document(listed.key, listed.head, listed.value)
    return ExportItem(listed.key, False, True, found.version, found.value, found.tags, found.text)


def exported_stream(listed: Listed, records: tuple[Record, ...]) -> ExportItem:
    head = listed.head
    return ExportItem(listed.key, True, head.alive, head.first, chain=head.base or None, records=records)


def _fitting(part: Part, budget: Budget) -> tuple[Record, ...]:
    """Return as many records of a stream as there is room for."""
    [found] = part.answers
    assert isinstance(found, Slice)
    return tuple(takewhile(lambda record: budget.takes(record.body, record.text), found.records))


def in_loads(items: Sequence[ExportItem]) -> Iterator[list[ExportItem]]:
    """Cut items into loads of one space and of a bounded size, in order."""
    load: list[ExportItem] = []
    records = size = 0
    for item in (piece for each in items for piece in _pieces(each)):
        weight = sum(len(record.body or b"") for record in item.records) + len(item.value or b"")
        full = records + len(item.records) > MAX_LOAD or size + weight > MAX_LOAD_BYTES or len(load) == MAX_ITEMS
        if load and (full or item.key.space != load[0].key.space):
            yield load
            load, records, size = [], 0, 0
        load.append(item)
        records += len(item.records)
        size += weight
    if load:
        yield load


def _pieces(item: ExportItem) -> Iterator[ExportItem]:
    """Cut a item whose records are too many or too large for one load."""
    piece: list[Record] = []
    size = 0
    for record in item.records:
        weight = len(record.body or b"")
        if piece and (len(piece) == MAX_LOAD or size + weight > MAX_LOAD_BYTES):
            yield msgspec.structs.replace(item, records=tuple(piece))
            piece, size = [], 0
        piece.append(record)
        size += weight
    yield msgspec.structs.replace(item, records=tuple(piece))


def encode_load(layout: Layout, commit: Commit, items: Sequence[ExportItem]) -> ScriptCall:
    """Return the call of the commit script that puts items in place under a commit's id."""
    places = places_of(items)
    arguments: list[Any] = [*receipt_arguments(commit, 0), _COUNTS(0, 0, len(items))]
    for item in items:
        add = _add_stream if item.stream else _add_document
        add(arguments, item, places[item.key])
    return ScriptCall(commit_keys(layout, commit.space, places), arguments)


def _add_document(arguments: list[Any], item: ExportItem, place: int) -> None:
    crc, content, pairs = b"", b"", b""
    if item.alive and item.value is not None:
        crc, content, pairs = pack_document(item.key, item.value, item.tags, item.text)
    arguments += (_DOCUMENT(b"X", place, item.version, item.alive) + crc, content, pairs)


def _add_stream(arguments: list[Any], item: ExportItem, place: int) -> None:
    seed = checksum_seed(item.key)
    head = _STREAM(b"Y", place, item.version, item.alive, len(item.records))
    arguments.append(head + (item.chain or b""))
    for record in item.records:
        arguments += (_INDEX(record.index) + (record.chain or b""), pack_entry(record, seed))


def _named(space: str, name: Any) -> Key:
    try:
        kind, id = name.decode().split("\x1f")
        return Key(space, kind, id)
    except (ValueError, AttributeError):
        raise Damaged(f"the index of space {space!r} holds an entry that cannot be read", reason="corrupt") from None
