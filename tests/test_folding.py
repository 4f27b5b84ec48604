"""Names that look the same are the same where caution wants it, and different names stay different."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.folding import folded, same_person


@pytest.mark.parametrize(
    "spelling",
    [
        *("ANA", "Ana ", " a n a", "an\u200ba", "\ufeffana", "\u0430na", "\u0410na", "\uff21\uff4e\uff41", "a\u00adna"),
        *("\u0391na", "an\u0251", "an\U000e0041a", "\u202eana"),
    ],
)
def test_another_spelling_is_the_same_name(spelling: str) -> None:
    assert folded(spelling) == folded("ana")


@pytest.mark.parametrize("other", ["anna", "an", "hana", "ana1", "an\u00e1", "\u5b89\u5a1c", ""])
def test_another_name_is_another_name(other: str) -> None:
    assert folded(other) != folded("ana")


@given(st.text())
def test_folding_twice_changes_nothing_more(name: str) -> None:
    assert folded(folded(name)) == folded(name)


@given(st.text())
def test_case_never_makes_another_name(name: str) -> None:
    assert folded(name.casefold()) == folded(name)


@pytest.mark.parametrize("spelling", ["agent_7", "Agent 7", "agent7", "agent\u20137", "(agent.7)", "\u0430gent|7"])
def test_separators_make_no_other_person(spelling: str) -> None:
    assert same_person(spelling, "agent-7")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("aIice", "alice"),
        ("a1ice", "alice"),
        ("ALICE", "a1ice"),
        ("b0b", "bob"),
        ("B0B", "bOb"),
        ("adrnin", "admin"),
        ("agent-1O", "agent-10"),
        ("\u0430Iice", "alice"),
    ],
)
def test_letters_that_are_drawn_alike_make_no_other_person(spelling: str, name: str) -> None:
    assert same_person(spelling, name)


@pytest.mark.parametrize(
    ("one", "other"),
    [("agent-1", "agent-7"), ("bob", "bab"), ("alice", "alce"), ("agent-10", "agent-100"), ("5ue", "sue")],
)
def test_names_that_are_drawn_differently_are_two_people(one: str, other: str) -> None:
    assert not same_person(one, other)


@pytest.mark.parametrize(
    ("one", "other"), [("agent-7", "agent-8"), ("-", "_"), ("\u0928\u0940", "\u0928\u093e"), ("", "-")]
)
def test_other_letters_and_other_marks_make_another_person(one: str, other: str) -> None:
    assert not same_person(one, other)
