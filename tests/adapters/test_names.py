"""The names that adapters give to what they keep: stores hold them, so they never change."""

from __future__ import annotations

import ast
from pathlib import Path

from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import digest, plain


def test_a_digest_is_what_it_was() -> None:
    assert [digest("a", "bc"), digest("ab", "c"), digest("\ud800")] == [
        "14f8ff5d57d07e48aec56042",
        "82b55d4aacc7cdfb12089806",
        "3e6974f7d13c5816ed11c49f",
    ]


def test_the_id_of_a_checkpoint_is_part_of_a_key_if_it_fits() -> None:
    assert plain("1f0-x") == "1f0-x" and plain("x" * 65) == digest("x" * 65) and plain("a\nb") == digest("a\nb")


def test_what_adapters_keep_is_named_in_one_table_and_nowhere_else() -> None:
    source = Path(layouts.__file__).parents[2]
    named = {
        node.value: path.name
        for path in source.rglob("*.py")
        if path != Path(layouts.__file__)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in layouts.OWN
    }
    assert named == {}


def test_an_adk_session_tells_its_place_by_its_name() -> None:
    long = "x" * 300
    for parts in (("app", "user", "id"), ("a/b", "u", "i"), (long, "u", "i"), ("a", "", "i")):
        assert layouts.adk_place(layouts.session_name(layouts.ADK, *parts)) == digest(*parts)


def test_what_is_found_by_no_owner_is_told_to_whoever_erases_a_person() -> None:
    found = {*layouts.OF_SESSION, *layouts.OF_OWNER, *layouts.IDS_ONLY}
    assert found | set(layouts.CALLED) == set(layouts.OWN)
    assert not found & set(layouts.CALLED)
    assert set(layouts.OWNERLESS) == set(layouts.CALLED.values())
