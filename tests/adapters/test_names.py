"""The names that adapters give to what they keep: stores hold them, so they never change."""

from __future__ import annotations

from strongroom.services.sessions.beside import digest, plain


def test_a_digest_is_what_it_was() -> None:
    assert [digest("a", "bc"), digest("ab", "c"), digest("\ud800")] == [
        "14f8ff5d57d07e48aec56042",
        "82b55d4aacc7cdfb12089806",
        "3e6974f7d13c5816ed11c49f",
    ]


def test_the_id_of_a_checkpoint_is_part_of_a_key_if_it_fits() -> None:
    assert plain("1f0-x") == "1f0-x" and plain("x" * 65) == digest("x" * 65) and plain("a\nb") == digest("a\nb")
