"""What a query asks for: whose words, and whether it asks when; as far as single words say so, in any language."""

from __future__ import annotations

import pytest

from strongroom.queries import Asked, asked_about, named
from strongroom.telling import tells_time

PEOPLE = ("Ana", "Ben", "Carla Diaz")
ROLES = ("user", "assistant")


def about(query: str, names: tuple[str, ...] = PEOPLE) -> str:
    asked = Asked.of(query)
    return asked_about(asked, named(asked, names, ROLES))


@pytest.mark.parametrize(
    ("query", "who"),
    [
        ("What did Ana book?", "Ana"), ("Where does Carla live?", "Carla Diaz"), ("What was booked?", ""),
        ("What does Ana think about Ben's boat?", "Ana"), ("Was hat Ben der Ana erzählt?", "Ben"),
        ("What did Ana give Ben?", "Ana"), ("According to Ben, what makes Ana happy?", "Ben"),
        ("Was rät Ana Ben?", ""), ("How do Ana and Ben relax?", ""), ("Wo waren Ana und Ben?", ""),
        ("¿Dónde viven Ana y Ben?", ""), ("Ana's and Ben's plans", ""), ("Ana, Ben and Carla", ""),
        ("Ana and what Ben told Ana", "Ana"),
    ],
)  # fmt: skip
def test_who_is_named_first_is_asked_about_unless_several_are_named_in_one_breath(query: str, who: str) -> None:
    assert about(query) == who


def test_a_name_that_two_share_asks_about_neither() -> None:
    assert about("What did Ana book?", ("Ana Costa", "Ana Silva")) == ""


@pytest.mark.parametrize(
    ("query", "role"),
    [
        ("What did I tell you about my dog?", "user"), ("What did you tell me about my dog?", "assistant"),
        ("Do you remember my address?", "user"), ("Do you remember what you recommended?", "assistant"),
        ("Can you please tell me where I was born?", "user"), ("remind me what you said about boots", "assistant"),
        ("Which boots did you say I should buy?", "assistant"), ("Did you tell me about the gorge?", "assistant"),
        ("What did the user say to the assistant?", "user"), ("tell me about boots", ""), ("boots", ""),
    ],
)  # fmt: skip
def test_in_a_chat_of_two_who_is_named_first_is_asked_about(query: str, role: str) -> None:
    assert about(query, ()) == role


def test_where_speakers_have_names_i_and_you_are_nobody() -> None:
    assert about("What did I tell you?") == ""


@pytest.mark.parametrize(
    "query",
    [
        "When did Ana move?", "Since when is she here?", "How long did it take?", "Wann ist Ana umgezogen?",
        "Seit wann ist sie hier?", "Quand est-elle partie ?", "¿Cuándo llegó?", "Когда она приехала?", "متى وصلت؟",
        "वह कब आई?", "她什么时候来的？", "彼女はいつ来ましたか",
    ],
)  # fmt: skip
def test_a_query_that_asks_when_is_known(query: str) -> None:
    assert Asked.of(query).when


@pytest.mark.parametrize("query", ["What did Ana do when it rained?", "tea", "", "Was machte sie?", "谁来了？"])
def test_a_query_that_asks_something_else_is_known(query: str) -> None:
    assert not Asked.of(query).when


@pytest.mark.parametrize(
    "text",
    [
        "I moved last week.", "We met on Friday", "It was in June", "aujourd\u2019hui", "back in 2019", "two years ago",
        "Gestern war ich da", "am Freitag", "C'était aujourd'hui", "el viernes", "вчера вечером", "آتي غدا",
        "मैं आज आया", "我昨天到了", "昨日着きました", "3年前",
    ],
)  # fmt: skip
def test_a_text_that_tells_a_time_is_known(text: str) -> None:
    assert tells_time(text)


@pytest.mark.parametrize(
    "text", ["I may come", "They march on", "an apple", "Er ist hier", "mes amis", "one fine day", "20 boats", "", "茶"]
)
def test_a_text_that_tells_none_is_known(text: str) -> None:
    assert not tells_time(text)
