"""Encrypted packs: opened by their key and by nothing else, checked whole before anything is restored."""

from __future__ import annotations

import io
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.encryption import Secret
from strongroom.errors import InvalidInput
from strongroom.sealing import CHUNK, HEADER_BYTES, MAGIC, sealing, unsealed
from tests.server.serving import served

KEY = b"p" * 32
CANARY = "canary-7f3a"
MANY = 3 * CHUNK


@pytest.fixture
def ctx(tmp_path: Path) -> Any:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        run = ctx.runs.create(objective=CANARY, run_id="r")
        run.record("TOOL_CALL", {"tool_name": CANARY, "arguments": {}})
        run.attach(CANARY.encode() * 20_000, type="text")
        yield ctx


@pytest.fixture
def pack(ctx: Any, tmp_path: Path) -> Path:
    path = tmp_path / "pack.sealed"
    ctx.runs.get("r").export(path, key=KEY)
    return path


def seal(content: bytes, key: Secret = KEY) -> bytes:
    file = io.BytesIO()
    with sealing(file, key) as sealed:
        sealed.write(content)
    return file.getvalue()


def unseal(stored: bytes, key: Secret | None = KEY) -> bytes:
    with unsealed(io.BytesIO(stored), key) as file:
        return file.read()


def test_a_run_comes_back_from_an_encrypted_pack(ctx: Any, pack: Path) -> None:
    back = ctx.runs.restore(pack, run_id="again", key=KEY)
    assert back.working_set.objective == CANARY
    assert back.verify().ok


def test_a_passphrase_does_it_too(ctx: Any, tmp_path: Path) -> None:
    path = tmp_path / "pack.sealed"
    ctx.runs.get("r").export(path, key="four words or more", signing_key=b"s" * 32)
    assert ctx.runs.restore(path, run_id="again", key=lambda: "four words or more").verify().ok


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> bytearray:
    """What is written to temporary files, which are gone before anybody could look."""
    seen = bytearray()
    real = tempfile.TemporaryFile

    def watched(*args: Any, **more: Any) -> Any:
        file = real(*args, **more)
        write = file.write

        def noted(part: bytes) -> int:
            seen.extend(part)
            return int(write(part))

        file.write = noted
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    return seen


def test_a_space_comes_back_from_an_encrypted_pack_and_no_temporary_file_has_it_in_the_clear(
    ctx: Any, tmp_path: Path, written: bytearray
) -> None:
    ctx.sessions.open("s").append([{"role": "user", "content": CANARY}])
    path = tmp_path / "space.sealed"
    assert ctx.export(path, key=KEY).runs == ["r"]
    assert CANARY.encode() not in path.read_bytes()
    for wrong in (b"q" * 32, "a passphrase", None):
        with pytest.raises(InvalidInput, match="nothing changed"):
            ctx.restore(path, key=wrong)
    with strongroom.open(tmp_path / "other.db") as other:
        assert other.restore(path, key=KEY).sessions == ("s",)
        assert other.runs.get("r").working_set.objective == CANARY
        assert other.sessions.get("s").load()[0]["content"] == CANARY
    assert len(written) > 1_000 and CANARY.encode() not in written


def test_the_watch_would_see_a_pack_that_is_not_encrypted(ctx: Any, tmp_path: Path, written: bytearray) -> None:
    ctx.export(tmp_path / "space.zip")
    assert b"working_set" in written


def test_packs_are_encrypted_here_and_opened_here_with_a_server_between(tmp_path: Path, ctx: Any) -> None:
    with served(str(tmp_path / "served.db")) as server, strongroom.connect(server.url) as remote:
        path, space = tmp_path / "run.sealed", tmp_path / "space.sealed"
        ctx.runs.get("r").export(path, key=KEY)
        assert remote.runs.restore(path, key=KEY).verify().ok
        remote.runs.get("r").export(tmp_path / "back.sealed", key="four words or more")
        remote.export(space, key=KEY)
        for file in (tmp_path / "back.sealed", space):
            assert CANARY.encode() not in file.read_bytes()
        again = ctx.runs.restore(tmp_path / "back.sealed", run_id="again", key="four words or more")
        assert again.working_set.objective == CANARY
    with (
        served(str(tmp_path / "second.db")) as server,
        strongroom.connect(server.url) as remote,
    ):
        assert remote.restore(space, key=KEY).runs == ("r",)


def test_no_byte_of_it_is_in_the_pack_or_left_beside_it(pack: Path) -> None:
    files = [file for file in pack.parent.iterdir() if not file.name.startswith("agent.db")]
    assert [file.name for file in files] == ["pack.sealed"]
    assert CANARY.encode() not in pack.read_bytes()


def test_a_wrong_key_a_missing_key_and_a_key_too_many_are_refused(ctx: Any, pack: Path, tmp_path: Path) -> None:
    for wrong in (b"q" * 32, "a passphrase", None):
        with pytest.raises(InvalidInput, match="nothing changed"):
            ctx.runs.restore(pack, run_id="again", key=wrong)
    plain = tmp_path / "plain.zip"
    ctx.runs.get("r").export(plain)
    with pytest.raises(InvalidInput, match="not encrypted"):
        ctx.runs.restore(plain, run_id="again", key=KEY)
    assert [run.id for run in ctx.runs.list()] == ["r"]


def test_a_pack_cut_anywhere_or_changed_anywhere_is_refused(ctx: Any, pack: Path) -> None:
    whole, rng = pack.read_bytes(), random.Random(0)
    stored = CHUNK + 28
    edges = [HEADER_BYTES, HEADER_BYTES + 28, HEADER_BYTES + stored, len(whole) - 1]
    for cut in [*edges, *rng.sample(range(len(whole)), 20)]:
        with pytest.raises(InvalidInput):
            unseal(whole[:cut])
    for _ in range(40):
        bit = rng.randrange(len(MAGIC) * 8, len(whole) * 8)
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidInput):
            unseal(bytes(changed))
    pack.write_bytes(whole[:-1])
    with pytest.raises(InvalidInput, match="nothing changed"):
        ctx.runs.restore(pack, run_id="again", key=KEY)
    assert [run.id for run in ctx.runs.list()] == ["r"]


def test_chunks_cannot_be_moved_dropped_or_taken_from_another_file() -> None:
    stored = CHUNK + 28
    one, two = seal(bytes(MANY)), seal(bytes(MANY))
    head, first, second = one[:HEADER_BYTES], one[HEADER_BYTES:][:stored], one[HEADER_BYTES + stored :][:stored]
    rest = one[HEADER_BYTES + 2 * stored :]
    assert unseal(head + first + second + rest) == bytes(MANY)
    others = two[HEADER_BYTES:][:stored]
    for wrong in (
        second + first + rest,
        first + rest,
        second + rest,
        others + second + rest,
        first + second + rest * 2,
    ):
        with pytest.raises(InvalidInput):
            unseal(head + wrong)


def test_two_files_of_the_same_content_have_nothing_in_common() -> None:
    one, two = seal(bytes(1000)), seal(bytes(1000))
    assert one[HEADER_BYTES:] != two[HEADER_BYTES:]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, MANY), st.one_of(st.binary(max_size=50), st.integers(0, 2 * CHUNK).map(bytes))),
        max_size=6,
    )
)
def test_it_is_a_file_like_any_other(steps: list[tuple[int, bytes]]) -> None:
    plain, stored = io.BytesIO(), io.BytesIO()
    with sealing(stored, KEY) as sealed:
        for place, data in steps:
            where = min(place, len(plain.getvalue()))
            for file in (plain, sealed):
                file.seek(where)
                assert file.write(data) == len(data)
                assert file.tell() == plain.tell()
    content = plain.getvalue()
    with unsealed(io.BytesIO(stored.getvalue()), KEY) as sealed:
        assert sealed.read() == content
        for place, data in steps:
            assert sealed.seek(place) == place
            assert sealed.read(len(data)) == content[place : place + len(data)]
        assert sealed.seek(0, 2) == len(content)
