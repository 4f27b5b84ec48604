"""Words of nine languages: forms of one word meet, other words do not, and no text is cut into pieces of words."""

from __future__ import annotations

from inspect import unwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strongroom
from strongroom.stemming import words

# For each language: what is remembered, and a question of which only the first is the answer.
CORPORA = {
    "German": (
        ["Meine Schwestern wohnen in alten Häusern am See", "Der Arzt hat die Tabletten verschrieben",
         "Wir haben den Hund im Park ausgeführt", "Das Auto ist in der Werkstatt"],
        "Wo wohnt meine Schwester, und wie ist das Haus?",
    ),
    "French": (
        ["Mes enfants mangent à l'école avec leurs amis", "Le médecin est arrivé pour la réunion",
         "Nous avons acheté une voiture rouge", "Le chat dort sur le canapé"],
        "Où est-ce que mon enfant mange, et avec quel ami?",
    ),
    "Spanish": (
        ["Las hermanas trabajan en los hospitales de la ciudad", "El perro corre por el parque",
         "Mi padre tiene una bicicleta nueva", "Compramos pan en el mercado"],
        "¿En qué hospital trabaja mi hermana?",
    ),
    "Russian": (
        ["Мои сёстры живут в новых домах у реки", "Врач выписал таблетки", "Мы купили красную машину",
         "Собака бегает по парку"],
        "В каком доме живёт сестра?",
    ),
    "Arabic": (
        ["يشرب أخي القهوة في المكتبة كل صباح", "اشترى أبي سيارة حمراء", "الكلب في الحديقة", "وصل الطبيب مساء"],
        "أين قهوة أخي ومكتبة؟",
    ),
    "Hindi": (
        ["मेरी बहनें पुरानी किताबें पढ़ती हैं", "कुत्ता बगीचे में दौड़ता है", "पिताजी ने लाल गाड़ी खरीदी", "डॉक्टर शाम को आए"],
        "मेरी बहन कौन सी किताब पढ़ती है?",
    ),
    "Chinese": (
        ["我妹妹在图书馆工作", "爸爸买了一辆红色的车", "狗在公园里跑", "医生晚上来了"],
        "妹妹在哪里工作？",
    ),
    "Japanese": (
        ["妹は図書館で働いています", "父は赤い車を買いました", "犬が公園を走っています", "医者は夜に来ました"],
        "妹はどこで働いていますか？",
    ),
    "English": (
        ["My sisters live in old houses by the lake", "The doctor prescribed tablets", "We bought a red car",
         "The dog runs in the park"],
        "Where does my sister live, and what's the house like?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", CORPORA)
def test_a_question_in_other_forms_of_the_words_finds_its_answer_first(language: str) -> None:
    texts, question = CORPORA[language]
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        session.append([{"role": "user", "content": text} for text in texts])
        assert session.search(question, k=1)[0].message["content"] == texts[0]


@pytest.mark.parametrize("language", CORPORA)
def test_an_answer_is_found_among_two_hundred_others_of_its_language(language: str) -> None:
    texts, question = CORPORA[language]
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        others = 66 * texts[1:]
        session.append([{"role": "user", "content": text} for text in (*others[:150], texts[0], *others[150:])])
        assert session.search(question, k=1)[0].message.index == 150


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Häuser und der See", "Haus und der See"), ("l'école", "école"), ("café", "cafe"), ("she's tea", "tea"),
        ("книгами", "книга"), ("новый", "новая"), ("والكتاب", "كتاب"), ("किताबें", "किताब"), ("猫が好き", "猫"),
        ("don't", "won't"),
    ],
)  # fmt: skip
def test_forms_of_one_word_meet(one: str, other: str) -> None:
    assert not set(words(one)).isdisjoint(words(other)) or words(one) == words(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("кот", "код"), ("किताब", "कमल"), ("tea", "team"), ("Haus", "Maus"), ("茶", "水"), ("قلم", "علم")],
)
def test_other_words_stay_apart(one: str, other: str) -> None:
    assert set(words(one)).isdisjoint(words(other))


LONG = ["a1" * 40, "gattaca" * 20, "я" * 100, "é" * 100, "猫" + "x" * 100, "x" * 100 + "猫", "कि" * 50, "٣" * 70]


@pytest.mark.parametrize("word", LONG, ids=lambda word: ascii(word[:3] + word[-1]))
def test_long_words_with_the_same_beginning_stay_apart(word: str) -> None:
    one, other = (set(words(f"the key is {word[:-1]}{end}")) for end in (word[-1], word[-1] * 2))
    assert one != other and max(map(len, one | other)) <= 64
    assert one == set(words(f"the key is {word}")) and words(word)[-1] in one


@pytest.mark.parametrize("word", ["a1" * 32, "x" * 64])
def test_a_word_of_the_longest_length_is_itself(word: str) -> None:
    assert words(word) == (word,)


def test_of_two_long_keys_the_one_that_is_asked_for_is_found() -> None:
    keys = [f"{'deadbeef' * 8}{number:04}" for number in range(3)]
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("s")
        session.append([{"role": "user", "content": f"the key is {key}"} for key in keys])
        assert [hit.message.index for key in keys for hit in session.search(key, k=1)] == [0, 1, 2]


def test_a_person_called_don_is_found() -> None:
    assert words("Don's tea") == ("don", "tea")


def test_vowel_signs_do_not_cut_a_word() -> None:
    assert len(words("हिन्दी")) == 1


def test_a_guess_at_the_language_never_loses_a_word() -> None:
    assert set(words("Kinder")) <= set(words("Die Kinder und der Hund sind im Haus, und ich bin mit dem Auto da"))


@given(st.text(max_size=200))
def test_any_text_is_cut_the_same_way_twice_and_no_word_is_empty(text: str) -> None:
    assert all(words(text)) and unwrap(words)(text) == words(text)
