"""Words for searching: split, fold and stem text the same way on every store.

Analysis happens here and not inside a database, so that SQLite, Postgres and a plain scan find the same things.
English suffixes are removed by Porter's algorithm (M. F. Porter, "An algorithm for suffix stripping", 1980); those of
other languages by `strongroom.endings`. Scripts without spaces (Chinese, Japanese, Thai ...) are cut into overlapping
pairs of characters, and into single Han characters.

Whether Latin letters are English, German, French or Spanish is guessed from the text, and a guess may differ between a
text and a question about it. So such a word is given in both forms, and never lost by a wrong guess.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from hashlib import blake2b

import strongroom.endings as endings
from strongroom.caching import cached_if_short

# Vowel signs of Indian scripts are no letters to Python, and belong to words all the same. One class, not a choice of
# two that is repeated: for that `re` keeps a note of each letter, 160 MB for a word of a megabyte. Underlines are
# spaces.
_WORD = re.compile(r"\w[\w\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0971-\u0dff]*")
_PLAIN_WORD = re.compile("[a-z0-9]+")  # the same in a text of ASCII, in half the time
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
# No word of a language is longer; a hash, a key or a sequence is, and then its beginning stands before a digest of all
# of it, so that two of them are one word only if they are the same.
_LONGEST, _BEGINNING = 64, 48
# What an apostrophe leaves behind: "she's", "don't" and, in French and Italian, "l'eau". None of it says anything.
_CONTRACTED = re.compile(
    r"\b[^\W\d_]{1,8}n['\u2019]t\b|['\u2019](?:s|re|ve|ll|d|m)\b|\b(?:[cdjlmnst]|qu)['\u2019](?=[^\W\d_]{2})"
)

# Words that stand everywhere and so say nothing about where an answer is. Leaving them out also keeps the index small.
_STOP = frozenset(
    """a about an and any are as at be been but by can could did do does for from had has have he her his how i if in
    into is it its me my of on or our she so some than that the their them then there these they this to was we were
    what when where which who whom whose why will with would you your""".split()  # noqa: SIM905 - a list is unreadable
)

# Each rule: suffix, replacement. Within a step the first suffix that fits decides, longest first.
_STEP2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"), ("logi", "log"),
)  # fmt: skip
_STEP3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic", "ou",
)  # fmt: skip


@cached_if_short(maxsize=16_384)
def words(text: str) -> tuple[str, ...]:
    """Return the words of a text that carry meaning, in order, ready to be indexed or looked up."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("_", " ")
    if "'" in folded or "\u2019" in folded:
        folded = _CONTRACTED.sub(" ", folded)
    plain = folded.isascii()
    tokens = (_PLAIN_WORD if plain else _WORD).findall(folded)
    language = endings.language(tokens, _STOP)
    if plain and language is None:
        said = [token for token in tokens if token not in _STOP]
        return tuple([stem(token) if len(token) <= _LONGEST else _bounded(token) for token in said])
    found: list[str] = []
    for token in tokens:
        if token in _STOP:
            continue
        if not token.isascii():
            if _UNSPACED.search(token):
                found.extend(_split_unspaced(token))
                continue
            token = endings.plain(token)
        if len(token) > _LONGEST:
            found.append(_bounded(token))
            continue
        if not token.isascii():
            found.append(endings.strip(token))
            continue
        english = stem(token)
        found.append(english)
        if language is not None and (other := endings.strip(token, language)) != english:
            found.append(other)
    return tuple(found)


def _split_unspaced(token: str) -> list[str]:
    parts: list[str] = []
    end = 0
    for run in _UNSPACED.finditer(token):
        if run.start() > end:
            parts.append(_bounded(token[end : run.start()]))
        characters = run.group()
        if len(characters) > 1:
            parts.extend(characters[i : i + 2] for i in range(len(characters) - 1))
        parts.extend(_HAN.findall(characters) or ([characters] if len(characters) == 1 else []))
        end = run.end()
    if end < len(token):
        parts.append(_bounded(token[end:]))
    return parts


def _bounded(word: str) -> str:
    """Return a word as it is if it is not too long, else its beginning and a digest of all of it."""
    if len(word) <= _LONGEST:
        return word
    return word[:_BEGINNING] + blake2b(word.encode(), digest_size=(_LONGEST - _BEGINNING) // 2).hexdigest()


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a lower-case ASCII word."""
    if len(word) <= 2 or not word.isalpha():
        return word
    word = _plurals(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(word, _STEP2)
    word = _replace(word, _STEP3)
    word = _strip(word)
    return _tidy(word)


def _plurals(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and _has_vowel(word[: -len(suffix)]):
            rest = word[: -len(suffix)]
            if rest.endswith(("at", "bl", "iz")):
                return rest + "e"
            if _double(rest) and rest[-1] not in "lsz":
                return rest[:-1]
            if _measure(rest) == 1 and _short(rest):
                return rest + "e"
            return rest
    return word


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, replacement in sorted(rules, key=lambda rule: -len(rule[0])):
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            return rest + replacement if _measure(rest) > 0 else word
    return word


def _strip(word: str) -> str:
    for suffix in _STEP4:
        if word.endswith(suffix):
            rest = word[: -len(suffix)]
            if _measure(rest) > 1 and (suffix != "ion" or rest.endswith(("s", "t"))):
                return rest
            return word
    return word


def _tidy(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _short(rest)):
            word = rest
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


def _consonant(word: str, place: int) -> bool:
    letter = word[place]
    if letter == "y":
        return place == 0 or not _consonant(word, place - 1)
    return letter not in "aeiou"


def _measure(word: str) -> int:
    """Count the vowel-consonant sequences, Porter's m."""
    shape = "".join("c" if _consonant(word, place) else "v" for place in range(len(word)))
    return shape.count("vc")  # each place where a run of vowels ends in consonants


def _has_vowel(word: str) -> bool:
    return any(not _consonant(word, place) for place in range(len(word)))


def _double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _consonant(word, len(word) - 1)


def _short(word: str) -> bool:
    """Whether it ends consonant-vowel-consonant, the last not w, x or y."""
    end = len(word) - 1
    return (
        len(word) > 2
        and _consonant(word, end)
        and not _consonant(word, end - 1)
        and _consonant(word, end - 2)
        and word[-1] not in "wxy"
    )
