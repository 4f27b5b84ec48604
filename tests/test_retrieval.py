"""The ranking itself: pure, the same for any store, bounded, and harmless where its opinions have nothing to say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.dates import SOON, Day, day_named, nearness
from strongroom.queries import Asked
from strongroom.retrieval import RANKED, Position, Text, promising, rank, spoken
from strongroom.stemming import words
from strongroom.telling import asks, name_like


def ranked(query: str, texts: list[str], **more: Any) -> list[int]:
    rows: dict[Position, Text] = {("row", n): Text(text, words(text), **more) for n, text in enumerate(texts)}
    counts = Counter(word for text in rows.values() for word in set(text.words))
    opinions = rank(Asked.of(query), rows, len(rows), counts)
    return [n for _, n in sorted(opinions, key=lambda place: -opinions[place].score)]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("What happened on 7 May 2023?", Day(2023, 5, 7)), ("on May 7th, 2023", Day(2023, 5, 7)),
        ("the 7th of May", Day(0, 5, 7)), ("in May 2023", Day(2023, 5)), ("in June", Day(0, 6)), ("in 2022", Day(2022)),
        ("1:56 pm on 8 May, 2023", Day(2023, 5, 8)), ("2023-05-07T10:00:00Z", Day(2023, 5, 7)),
        ("am 7. Mai 2023", Day(2023, 5, 7)), ("7.5.2023", Day(2023, 5, 7)), ("le 14 juillet 2023", Day(2023, 7, 14)),
        ("el 3 de agosto de 2023", Day(2023, 8, 3)), ("9 мая 2023", Day(2023, 5, 9)), ("2023年5月7日", Day(2023, 5, 7)),
        ("she may come", None), ("they march on", None), ("no day at all", None), ("2023-99-99", None),
    ],
)  # fmt: skip
def test_a_day_is_read_from_a_text(text: str, day: Day | None) -> None:
    assert day_named(text) == day


def test_things_are_told_that_day_or_soon_after() -> None:
    asked = Day(2023, 5, 7)
    fits = [nearness(Day(2023, *day), asked) for day in ((5, 7), (5, 9), (5, 15), (5, 30), (6, 30))]
    assert fits == sorted(fits, reverse=True) and fits[0] == 1.0 and fits[-1] == 0.0
    assert nearness(Day(2022, 5, 7), asked) == 0.0
    assert fits == sorted(set(fits), reverse=True)


@pytest.mark.parametrize("asked", [Day(2022, 12, 31), Day(0, 12, 31)])
def test_the_day_after_the_last_of_a_year_is_soon_after(asked: Day) -> None:
    assert nearness(Day(2023, 1, 1), asked) == SOON and nearness(Day(2023, 3, 1), asked) == 0.0


@pytest.mark.parametrize(
    ("text", "does"),
    [("Is it?", True), ("Is it? Yes.", False), ("真的吗？", True), ("هل وصلت؟", True), ("No", False),
     ("Look? [picture: a cat]", True)],
)  # fmt: skip
def test_a_question_is_known_by_its_last_sign(text: str, does: bool) -> None:
    assert asks(text) is does


@pytest.mark.parametrize(
    ("text", "count"),
    [("I met Ana in Lisbon. Then home", 2), ("I'm here, I've eaten", 0), ("我在图书馆", 0), ("ЯСНО", 0)],
)
def test_names_are_counted_inside_of_sentences_only(text: str, count: int) -> None:
    assert name_like(text) == count


def test_an_answer_is_found_wherever_it_stands_in_a_long_history() -> None:
    # What a text tells by itself must not favour the old or the new.
    for place in (0, 500, 999):
        texts = [f"we talked about topic{n} again" for n in range(1_000)]
        texts[place] = "the passport lies in the blue drawer"
        assert ranked("where is the passport", texts)[0] == place


def test_a_bounded_number_of_candidates_gets_a_second_look() -> None:
    texts: dict[Position, Text] = {("row", 7 * n): Text("tea", ("tea",)) for n in range(5_000)}
    assert len(promising(Asked.of("tea"), texts, 5_000, {"tea": 5_000})) == RANKED


def test_texts_alone_in_their_rows_have_no_neighbours() -> None:
    rows: dict[Position, Text] = {(name, 0): Text("tea", ("tea",)) for name in "ab"}
    opinions = rank(Asked.of("tea"), rows, 2, {"tea": 2})
    assert {(one.window, one.block, one.speaker) for one in opinions.values()} == {(0.0, 0.0, "")}


words_of = st.lists(st.sampled_from(["tea", "milk", "Ana", "run", "чай", "茶"]), max_size=6).map(" ".join)


@given(st.lists(words_of, max_size=12), words_of)
def test_the_order_in_which_texts_are_given_changes_nothing(texts: list[str], query: str) -> None:
    rows: dict[Position, Text] = {("row", n): Text(text, words(text)) for n, text in enumerate(texts)}
    counts = Counter(word for text in rows.values() for word in set(text.words))
    one = rank(Asked.of(query), rows, len(rows), counts)
    other = rank(Asked.of(query), dict(reversed(rows.items())), len(rows), counts)
    assert {place: opinion.score for place, opinion in one.items()} == {p: o.score for p, o in other.items()}


def test_how_close_an_embedder_finds_all_texts_changes_nothing() -> None:
    rows: dict[Position, Text] = {("row", n): Text("tea", ("tea",)) for n in range(6)}
    cosines = [0.1, 0.6, 0.2, 0.3, 0.1, 0.4]
    scores = []
    for floor in (0.0, 0.7):
        meaning: dict[Position, float] = {("row", n): floor + (1 - floor) * cosine for n, cosine in enumerate(cosines)}
        opinions = rank(Asked.of("milk"), rows, 6, {}, meaning)
        scores.append([round(opinions["row", n].meaning, 6) for n in range(6)])
    assert scores[0] == scores[1] and scores[0][1] == 1.0


def test_the_only_text_that_is_near_is_as_near_as_can_be() -> None:
    rows: dict[Position, Text] = {(name, 0): Text("tea", ("tea",)) for name in "ab"}
    opinions = rank(Asked.of("milk"), rows, 2, {}, {("a", 0): 0.2})
    assert opinions["a", 0].meaning == 1.0 and opinions["a", 0].found and not opinions["b", 0].found


def test_a_question_of_when_favours_what_tells_a_time() -> None:
    texts = ["the boat arrived with tea", "nothing else", "more of it", "yet more", "the boat arrived yesterday"]
    assert ranked("When did the boat arrive?", texts)[0] == 4
    assert ranked("How did the boat arrive?", texts)[0] == 0


def test_the_very_day_that_is_asked_for_is_found_without_a_word_in_common() -> None:
    rows: dict[Position, Text] = {
        ("row", 10 * n): Text("tea", ("tea",), day=Day(2023, 5, day)) for n, day in enumerate((1, 7, 30))
    }
    opinions = rank(Asked.of("What happened on 7 May 2023?"), rows, 3, {})
    assert [place for place, one in opinions.items() if one.found] == [("row", 10)]


def test_words_count_less_where_meaning_is_asked_too() -> None:
    rows: dict[Position, Text] = {(name, 0): Text(name, (name,)) for name in ("tea", "chai")}
    alone = rank(Asked.of("tea"), rows, 2, {"tea": 1})
    beside = rank(Asked.of("tea"), rows, 2, {"tea": 1}, {("chai", 0): 0.9, ("tea", 0): 0.9})
    assert alone["tea", 0].words > beside["tea", 0].words > 0


@pytest.mark.parametrize("name", ["Ana", "Ana Maria", "Dr. J. O'Neil", "李雷", "Émile"])
def test_a_text_that_begins_with_a_name_and_a_colon_is_said_by_it(name: str) -> None:
    assert spoken(f"{name}: here it is") == (name, "here it is")


@pytest.mark.parametrize(
    "text", ["Here is my bank's export: 3 rows", "note: buy tea", "The Very Long Name Here: x", "http://a", "3: x"]
)
def test_other_words_before_a_colon_are_part_of_what_is_said(text: str) -> None:
    assert spoken(text) == ("", text)
