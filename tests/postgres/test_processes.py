"""Several processes on one database."""

from __future__ import annotations

import subprocess
import sys

from strongroom.backends.postgres import PostgresStore
from strongroom.store import Get, Key, ask

PROCESSES, UPDATES = 2, 100

WORKER = """
import sys
from strongroom.backends.postgres import PostgresStore
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.store import Commit, Expect, Get, Key, Put, new_id
key = Key("acme", "counter", "a")
with PostgresStore(sys.argv[1]) as store:
    for _ in range(int(sys.argv[2])):
        while True:
            found = store.read([Get(key)])[0]
            version, value = (found.version, found.value.load()) if found else (0, 0)
            try:
                store.commit(Commit(new_id(), (Expect(key, version),), (Put(key, encode(value + 1)),)))
                break
            except Conflict:
                continue
"""


def test_no_update_of_two_processes_is_lost(postgres: str) -> None:
    PostgresStore(postgres).close()
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, postgres, str(UPDATES)], stderr=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    assert [worker.communicate(timeout=120)[1] for worker in workers] == [""] * PROCESSES
    with PostgresStore(postgres) as store:
        found = ask(store, Get(Key("acme", "counter", "a")))
    assert found is not None
    assert (found.version, found.value.load()) == (PROCESSES * UPDATES, PROCESSES * UPDATES)
