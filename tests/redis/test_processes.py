"""Several processes on one server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from strongroom.backends.redis import RedisStore
from tests.redis.words import append, bodies, value
from tests.servers.valkey import ValkeyServer


def test_two_processes_lose_no_update(valkey_server: ValkeyServer) -> None:
    address = valkey_server.address()
    command = [sys.executable, "-m", "tests.redis.increments", address, "100"]
    running = [subprocess.Popen(command, cwd=Path(__file__).parents[2]) for _ in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]
    with RedisStore(address) as store:
        assert value(store) == 200


def test_a_store_can_be_used_after_a_fork(valkey_server: ValkeyServer) -> None:
    with RedisStore(valkey_server.address()) as store:
        store.commit(append("parent"))
        child = os.fork()
        if child == 0:
            try:
                store.commit(append("child"))
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.commit(append("parent again"))
        assert bodies(store) == ["parent", "child", "parent again"]
