"""`strongroom keys pair`: a key for signing, whose private half nobody else can read."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.errors import InvalidInput

pytest.importorskip("cryptography")


def test_a_pair_signs_and_checks(type_in: Any, empty: Path) -> None:
    shown = type_in("keys", "pair", "signing.key")
    assert shown.code == 0 and Path("signing.key.pub").read_bytes().hex() in shown.out
    assert stat.S_IMODE(Path("signing.key").stat().st_mode) == 0o600
    with strongroom.open("memory://") as ctx, strongroom.open("memory://") as other:
        ctx.sessions.open("s")
        ctx.export("pack.zip", signing_key=Path("signing.key").read_bytes())
        with pytest.raises(InvalidInput, match="another key"):
            other.restore("pack.zip", public_key=bytes(32))
        other.restore("pack.zip", public_key=Path("signing.key.pub").read_bytes())


def test_a_key_is_never_overwritten(type_in: Any, empty: Path) -> None:
    Path("signing.key").write_bytes(b"mine")
    assert type_in("keys", "pair", "signing.key").code != 0
    assert Path("signing.key").read_bytes() == b"mine" and not Path("signing.key.pub").exists()


def test_where_the_public_half_is_there_already_no_private_one_is_made(type_in: Any, empty: Path) -> None:
    Path("signing.key.pub").write_bytes(b"mine")
    shown = type_in("keys", "pair", "signing.key")
    assert shown.code != 0 and "nothing changed" in shown.err
    assert not Path("signing.key").exists()
