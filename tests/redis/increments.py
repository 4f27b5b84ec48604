"""A process that adds one to a document, again and again, reading before it writes."""

from __future__ import annotations

import sys

from strongroom.backends.redis import RedisStore
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.store import Commit, Expect, Get, Put, ask, new_id
from tests.redis.words import DOC


def main(address: str, times: int) -> None:
    with RedisStore(address) as store:
        for _ in range(times):
            while True:
                found = ask(store, Get(DOC))
                version, total = (0, 0) if found is None else (found.version, found.value.load())
                try:
                    store.commit(Commit(new_id(), (Expect(DOC, version),), (Put(DOC, encode(total + 1)),)))
                    break
                except Conflict:
                    continue


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
