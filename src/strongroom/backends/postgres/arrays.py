"""Arrays in Postgres' binary form, each written in one go.

A call has two dozen of them, most of them short. psycopg would look into every list for the type of what is there, and
choose the narrowest for numbers, which the server then converts: a quarter of what an append costs its client, a tenth
of what it costs the server. Registered for these classes only, so nobody else's lists are sent otherwise.
"""

from __future__ import annotations

from struct import Struct

from psycopg import adapters, postgres
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEAD = Struct("!iiIii")  # dimensions, whether there may be NULL, the type of an element, how many, the first's number
_LENGTH = Struct("!i").pack
_NUMBER = Struct("!iq").pack
_NULL = _LENGTH(-1)


class Bigints(list[int]):
    """An array of bigint."""


class Texts(list[str | None]):
    """An array of text."""


class Blobs(list[bytes | None]):
    """An array of bytea."""


def _array(element: int, parts: list[bytes]) -> bytes:
    if not parts:
        return _HEAD.pack(0, 0, element, 0, 0)[:12]
    return _HEAD.pack(1, 1, element, len(parts), 1) + b"".join(parts)


class _Dumper(Dumper):
    format = Format.BINARY
    element = 0


class _BigintsDumper(_Dumper):
    oid, element = postgres.types["int8"].array_oid, postgres.types["int8"].oid

    def dump(self, obj: Bigints) -> bytes:
        return _array(self.element, [_NUMBER(8, number) for number in obj])


class _TextsDumper(_Dumper):
    oid, element = postgres.types["text"].array_oid, postgres.types["text"].oid

    def dump(self, obj: Texts) -> bytes:
        return _array(self.element, [_part(None if text is None else text.encode()) for text in obj])


class _BlobsDumper(_Dumper):
    oid, element = postgres.types["bytea"].array_oid, postgres.types["bytea"].oid

    def dump(self, obj: Blobs) -> bytes:
        return _array(self.element, [_part(blob) for blob in obj])


def _part(data: bytes | None) -> bytes:
    return _NULL if data is None else _LENGTH(len(data)) + data


for _kind, _dumper in ((Bigints, _BigintsDumper), (Texts, _TextsDumper), (Blobs, _BlobsDumper)):
    adapters.register_dumper(_kind, _dumper)
