"""Rows of a damaged file are damage, whatever they look like."""

from __future__ import annotations

import pytest

from holdfast.backends.sqlite.rows import stored_key
from holdfast.errors import Damaged


@pytest.mark.parametrize("id", [b"d22", None, 7, "", "a\0b"])
def test_a_stored_name_that_is_none_is_damage_and_not_the_askers_fault(id: object) -> None:
    with pytest.raises(Damaged):
        stored_key("space", "kind", id)
