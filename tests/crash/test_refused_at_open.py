"""Files that cannot be trusted are refused when they are opened, with a reason, and left as they are."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from strongroom.backends.sqlite import SqliteStore, files, schema
from strongroom.backends.sqlite import reading as module
from strongroom.errors import SchemaMismatch, Unavailable
from tests.faults.checks import check, step

MOUNTS = "\n".join(
    [
        "/dev/vda / ext4 rw 0 0",
        "server:/export /home nfs4 rw 0 0",
        "/dev/vdb /home/local ext4 rw 0 0",
        "//server/share /mnt/my\\040share cifs rw 0 0",
        "host /mnt/plan9 9p rw 0 0",
        "user@host /mnt/ssh fuse.sshfs rw 0 0",
    ]
)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/ana", "nfs4"),
        ("/homework", "ext4"),
        ("/home/local/db", "ext4"),
        ("/mnt/my share/db", "cifs"),
        ("/mnt/plan9", "9p"),
        ("/mnt/ssh/db", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_its_innermost_mount(folder: str, kind: str) -> None:
    assert files.filesystem_of(folder, MOUNTS) == kind


@pytest.mark.parametrize(
    ("kind", "refused"),
    [("nfs4", True), ("cifs", True), ("9p", True), ("fuse.sshfs", True), ("ext4", False), ("tmpfs", False)],
)
def test_a_store_on_a_network_file_system_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, refused: bool
) -> None:
    mounts = f"a / ext4 rw 0 0\nb {str(path.parent.resolve()).replace(' ', chr(92) + '040')} {kind} rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: mounts)
    if not refused:
        SqliteStore(path).close()
        return
    with pytest.raises(Unavailable) as error:
        SqliteStore(path)
    assert error.value.reason == "network_filesystem"
    assert not path.exists()


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.0"])
def test_a_sqlite_that_may_corrupt_the_file_is_refused(version: str) -> None:
    with pytest.raises(Unavailable) as error:
        module._require_sqlite(version)
    assert error.value.reason == "sqlite_version"


@pytest.mark.parametrize("version", ["3.51.3", "3.53.0", "4.0.0"])
def test_a_sound_sqlite_is_accepted(version: str) -> None:
    module._require_sqlite(version)


def _refusal(path: Path) -> str:
    """Return why a file is refused; it must be left as it was."""
    content = path.read_bytes()
    with pytest.raises(SchemaMismatch) as error:
        SqliteStore(path)
    assert path.read_bytes() == content
    return error.value.reason


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"Dear diary, " * 500)
    assert _refusal(path) == "foreign"


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    con = apsw.Connection(str(path))
    con.execute("CREATE TABLE recipes (name TEXT)")
    con.close()
    assert _refusal(path) == "foreign"


def test_another_programs_application_id_is_refused_and_left_alone(path: Path) -> None:
    con = apsw.Connection(str(path))
    con.execute("PRAGMA application_id = 42; CREATE TABLE recipes (name TEXT)")
    con.close()
    assert _refusal(path) == "foreign"


def test_a_newer_format_is_refused_and_left_alone(path: Path) -> None:
    SqliteStore(path).close()
    con = apsw.Connection(str(path))
    con.execute(f"PRAGMA user_version = {schema.FORMAT + 1}")
    con.close()
    assert _refusal(path) == "newer"


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with SqliteStore(path) as store:
        store.commit(step(0, 1))
        check(store, [1], in_flight=0)


def test_a_missing_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as error:
        SqliteStore(tmp_path / "nowhere" / "agent.db")
    assert error.value.reason == "missing"
    assert list(tmp_path.iterdir()) == []
