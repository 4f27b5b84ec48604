"""Endings of languages other than English, removed lightly: enough that forms of one word meet. Pure.

Each list was written for this file from the grammar of the language; none is complete, and a stem need not be a word.
What is removed leaves at least three letters (two in Hindi and Arabic).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence

_GERMAN = "ungen ung heiten heit keiten keit lich isch ern sten test tet ten est em en er es et st te e n t"
_FRENCH = (
    "issements issement atrices ateurs ateur ations ation ements ement euses euse eurs eur ments ment ives ive ifs if "
    "eraient erait erons eront erez aient ions iez ais ait ant ent ees ee es er ez ir is it e s x"
)
_SPANISH = (
    "amientos amiento imientos imiento aciones acion adoras adores ador adora mente iendo ando ieron aron aban aba "
    "amos emos imos adas ados idas idos ada ado ida ido ian ia ar er ir as os es an en a o e s"
)
_RUSSIAN = (
    "иями ями ами ости ость ыми ими ого его ому ему ешь ете ишь ите ала ила ыла ела али или ыли ели ать ить еть ыть "
    "ает яет ует ают яют уют ал ил ыл ел ой ей ий ый ая яя ое ее ые ие ую юю ых их ым им ом ем ах ях ам ям ов ев ет ит "
    "ут ют ат ят ия ью ье ья а я о е ы и у ю й ь"
)
_HINDI = "ाओं ियों ियां ता ते ती ना ने नी एं ओं ों ें ीं ां ा ी े ो ि ु ू"
_ARABIC_BEFORE = ("وال", "بال", "كال", "فال", "لل", "ال")
_ARABIC_AFTER = ("ها", "ان", "ات", "ون", "ين", "يه", "ية", "ه", "ة", "ي")
_ARABIC_SAME = str.maketrans(
    {"\u0623": "\u0627", "\u0625": "\u0627", "\u0622": "\u0627", "\u0649": "\u064a", "\u0640": None}
)


def _longest_first(endings: str) -> tuple[str, ...]:
    return tuple(sorted(endings.split(), key=lambda ending: (-len(ending), ending)))


_LATIN = {"de": _longest_first(_GERMAN), "fr": _longest_first(_FRENCH), "es": _longest_first(_SPANISH)}
_CYRILLIC = _longest_first(_RUSSIAN)
_DEVANAGARI = _longest_first(_HINDI)
# Frequent words that no other of these languages has.
_TELLS = {
    "de": frozenset(
        """der das und ist nicht ich wir mit ein eine einen für auf dem von zu im auch sich wo wann wer wie mein meine
        meiner meinen habe hat haben wird werden sind""".split()
    ),
    "fr": frozenset(
        """le les des est et une je nous dans pour qui pas avec sur du au mon ma mes où quand elle il ont ai sont
        ses chez""".split()
    ),
    "es": frozenset(
        """el los las y una por para con mi mis del al dónde cuándo quién qué muy tiene tengo está fue son ella su
        sus""".split()
    ),
}
_TELLING = frozenset().union(*_TELLS.values())
# Frequent in English and in one of the others as well, so they tell nothing.
_SHARED = frozenset(("a", "an", "as", "do", "he", "his", "in", "me", "of", "on", "so", "was"))


def language(tokens: Sequence[str], english: Collection[str]) -> str | None:
    """Guess which of German, French and Spanish a text is, by its most frequent words; None for English or no idea."""
    # Without generators, and without counting where there is nothing: this is asked of every text that is indexed.
    if _TELLING.isdisjoint(tokens):
        return None
    counted = {code: sum(map(tells.__contains__, tokens)) for code, tells in _TELLS.items()}
    best = max(counted, key=lambda code: counted[code])
    others = [count for code, count in counted.items() if code != best]
    said = len([token for token in tokens if token in english and token not in _SHARED])
    return best if counted[best] > max(said, *others) else None


def plain(token: str) -> str:
    """Return a word of lower-case letters without accents; vowel signs of Indian scripts stay."""
    if "\u0900" <= token[0] <= "\u0dff":
        return token.replace("\u0901", "\u0902").replace("\u093c", "")
    if "\u0400" <= token[0] <= "\u04ff":
        return token.replace("\u0451", "\u0435")
    bare = "".join([char for char in unicodedata.normalize("NFD", token) if unicodedata.category(char) != "Mn"])
    return unicodedata.normalize("NFC", bare.replace("\u00df", "ss").replace("\u0153", "oe"))


def strip(token: str, language: str | None = None) -> str:
    """Return a plain word without its ending, by its script, or as a word of the language."""
    if language is not None:
        return _without(token, _LATIN[language], 3)
    if "\u0400" <= token[0] <= "\u04ff":
        return _without(token.removesuffix("\u0441\u044f").removesuffix("\u0441\u044c"), _CYRILLIC, 3)
    if "\u0900" <= token[0] <= "\u097f":
        return _without(token, _DEVANAGARI, 2)
    if "\u0600" <= token[0] <= "\u06ff":
        return _arabic(token)
    return token


def _without(token: str, endings: Sequence[str], least: int) -> str:
    for ending in endings:
        if token.endswith(ending) and len(token) - len(ending) >= least:
            return token[: -len(ending)]
    return token


def _arabic(token: str) -> str:
    same = token.translate(_ARABIC_SAME)
    for before in _ARABIC_BEFORE:
        if same.startswith(before) and len(same) - len(before) >= 2:
            same = same[len(before) :]
            break
    return _without(same, _ARABIC_AFTER, 2)
