"""Moving everything out of a server, or into one: `moving` says what to ask, this asks it.

Nothing lists the spaces of a store, because in a cluster no script could keep such a list: they are found by looking at
the names of all keys, once a move.
"""

from __future__ import annotations

from collections.abc import Sequence

from strongroom.backends.redis.core import Core
from strongroom.backends.redis.layout import SEP
from strongroom.backends.redis.moving import (
    MAX_PARCELS,
    Place,
    decode_list,
    document_parcel,
    encode_list,
    encode_load,
    in_loads,
    parse_place,
    stream_parcel,
)
from strongroom.backends.redis.scripts import READ
from strongroom.store import Commit, Delete, Parcel, Range, Shipment, Slice, new_id


class Carrier:
    """The `Movable` side of a store, over the same core."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._spaces: list[str] | None = None

    async def unload(self, after: str | None, limit: int) -> Shipment:
        """Return the next parcels, space by space."""
        self._core.check_open(writing=False)
        place = parse_place(after)
        if after is None or self._spaces is None:
            self._spaces = await self._find_spaces()
        parcels: list[Parcel] = []
        for space in self._spaces:
            if space < place.space:
                continue
            here: Place | None = place if space == place.space else Place(space)
            while here is not None:
                if limit <= 0:
                    return Shipment(tuple(parcels), str(here))
                here, limit = await self._unload_space(here, limit, parcels)
        return Shipment(tuple(parcels), None)

    async def _unload_space(self, place: Place, limit: int, parcels: list[Parcel]) -> tuple[Place | None, int]:
        """Add parcels from a place on; return where to go on (None: the space is done) and how many may still come."""
        asked = min(limit, MAX_PARCELS)
        call = encode_list(self._core.layout, place, asked)
        (reply,) = await self._core.persist(lambda _: self._core.send(place.space, READ, call))
        listed = decode_list(place.space, reply[0])
        for each in listed:
            if limit <= 0:
                return Place(place.space, each.order), 0
            if not each.head.stream:
                parcels.append(document_parcel(each))
                limit -= 1
                continue
            start = max(place.index if each.order == place.order else 0, each.head.first)
            [found] = await self._core.read([Range(each.key, start, limit=limit)])
            records = found.records if isinstance(found, Slice) else ()
            parcels.append(stream_parcel(each, records))
            limit -= max(len(records), 1)
            if each.head.alive and start + len(records) < each.head.count:
                return Place(place.space, each.order, start + len(records)), limit
        if len(reply[0]) < 4 * asked:
            return None, limit
        return Place(place.space, int(reply[0][-4]) + 1), limit

    async def load(self, parcels: Sequence[Parcel]) -> None:
        """Put parcels in place as they are."""
        self._core.check_open()
        for some in in_loads(parcels):
            writes = tuple(Delete(parcel.key) for parcel in some)  # stands for them where a refusal names one
            commit = Commit(new_id(), (), writes)
            await self._core.apply(commit, encode_load(self._core.layout, commit, some))

    async def _find_spaces(self) -> list[str]:
        """Return every space of this store, sorted. Looks at all keys of the server."""
        start, end = f"{{{self._core.layout.prefix}:".encode(), b"}\x1fheads"
        spaces: set[str] = set()
        for node in await self._core.primaries():
            cursor = b"0"
            while True:
                command = ("SCAN", cursor, "MATCH", start + b"*" + end, "COUNT", 1000)
                cursor, names = await self._core.ask(command, node)
                # A stream named "heads" may look like a space, but then there is a separator in its name.
                found = [name[len(start) : -len(end)] for name in names]
                spaces.update(name.decode() for name in found if SEP not in name)
                if cursor == b"0":
                    break
        return sorted(spaces)
