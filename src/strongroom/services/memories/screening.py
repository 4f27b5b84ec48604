"""What a proposed text is, before anybody believes it: its plain form, and what is odd about it. Pure, linear in time.

A flag is a hint, everywhere. It refuses nothing: it is shown to the reviewer, and it keeps a batch from being committed
automatically. Whoever writes a command in words that are not listed here is not flagged; what protects is that a
person reviews, and that a memory is never trusted more than its source.

There is no pattern with a star in it: a text is brought into one spelling, cut into words once, and each word that may
begin a command is held against the few words that follow it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from strongroom.caching import cached_if_short
from strongroom.folding import invisible, latin
from strongroom.unseen import hides

# Ends of lines that nobody types: what follows them may pass for a line of ours where it is shown.
_ODD_ENDS = "\u2028\u2029"
_NO_LAYOUT = dict.fromkeys(map(ord, "\n\r\t"))
# A long run of what Base64 is written with.
_ENCODED_RUN = 80
_AS_A = {code: "a" if chr(code).isalnum() or chr(code) in "+/=_-" else " " for code in range(128)}
_ENCODED = "a" * _ENCODED_RUN
_MARKUP = ("<system", "</system", "<assistant", "</assistant", "<user>", "</user>", "<tool>", "</tool>",
           "<instruction", "</instruction", "<|", "|>", "[inst]", "[/inst]")  # fmt: skip
_ROLES = ("system", "assistant")
_ADDRESS = "@"


def spelled(text: str) -> str:
    """Return a text as commands are looked for in it: no accents, no case, look-alikes made Latin."""
    if text.isascii():
        return text.casefold()
    bare = "".join([char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) != "Mn"])
    return latin(unicodedata.normalize("NFKC", bare))


def _words(text: str) -> frozenset[str]:
    return frozenset(spelled(text).split())


class _Rule:
    """A command: one of the first words, and one of the second within so many words after it (or before)."""

    def __init__(self, first: str, second: str, reach: int, either_way: bool = False) -> None:
        self.first, self.second, self.reach, self.either_way = _words(first), _words(second), reach, either_way


_RULES = (
    _Rule(
        "ignore ignoring disregard forget override bypass neglect skip overlook",
        "previous prior above earlier preceding all any system safety your instructions instruction rules guidelines",
        6,
    ),
    _Rule("dont never not", "tell inform mention reveal ask warn", 1),
    _Rule("always automatically silently", "approve run execute call send trust commit allow", 1),
    _Rule("send post forward upload exfiltrate email leak", _ADDRESS, 14),
    # German, French, Italian, Spanish, Portuguese
    _Rule(
        "ignoriere ignoriert ignorieren missachte vergiss vergesst umgehe uebergehe",
        "anweisung anweisungen vorherigen vorherige bisherigen bisherige obigen regeln alle sicherheit",
        6,
        True,
    ),
    _Rule(
        "ignore ignorez oublie oubliez contourne contournez ignora ignorate dimentica olvida olvide omite ignorar "
        "esqueca desconsidere ignorad",
        "instructions consignes precedentes regles toutes istruzioni precedenti regole instrucciones anteriores "
        "previas reglas todas instrucoes regras todos",
        6,
        True,
    ),
    # Russian, Ukrainian, Arabic, Hindi
    _Rule(
        "игнорируй игнорируйте забудь забудьте ігноруй забудьте",
        "инструкции инструкций указания предыдущие предыдущих правила все попередні інструкції",
        6,
        True,
    ),
    _Rule("تجاهل انس تجاهلوا", "التعليمات تعليمات السابقة جميع القواعد", 6, True),
    _Rule("अनदेखा नजरअंदाज भूल भूलो", "निर्देश निर्देशों पिछले पिछली सभी नियम", 6, True),
)
_PHRASES = tuple(
    tuple(spelled(phrase).split())
    for phrase in (
        *(f"you {verb} {when}" for verb in ("are", "must", "should", "will") for when in ("now", "always", "never")),
        *("from now on", "new instruction", "new instructions", "system prompt", "developer mode", "jailbreak mode"),
        *("ab sofort", "du bist jetzt", "neue anweisungen", "a partir de ahora", "a partir de agora", "eres ahora"),
        *("desormais tu", "tu es maintenant", "nouvelles instructions", "d ora in poi", "da questo momento"),
        *("с этого момента", "ты теперь", "новые инструкции", "system message"),
    )
)
# Written without spaces: one of the first within so many characters of one of the second.
_UNSPACED = (
    (("忽略", "无视", "忘记", "無視"), ("指令", "指示", "之前", "以上", "规则", "命令", "上記", "これまで", "以前")),
    (("무시", "잊어"), ("지시", "명령", "이전", "규칙")),
)  # fmt: skip
_UNSPACED_REACH = 24
_BEGINNINGS = {phrase[0]: [other for other in _PHRASES if other[0] == phrase[0]] for phrase in _PHRASES}
_RULES_OF: dict[str, list[_Rule]] = {}
for _rule in _RULES:
    for _word in _rule.first:
        _RULES_OF.setdefault(_word, []).append(_rule)
_STARTS = frozenset(_BEGINNINGS) | frozenset(_RULES_OF)


def plain(text: str) -> str:
    """Return the text as a reader sees it: compatible forms made equal, invisible characters gone."""
    return text if _ordinary(text) else _plain(text)


@cached_if_short(maxsize=2_048)
def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text)
    gone = {char for char in set(folded) if invisible(char) and char not in "\n\r\t"}
    return folded.translate(dict.fromkeys(map(ord, gone))) if gone else folded


def normal(text: str) -> str:
    """Return the form in which two plain texts that say the same are equal: without case or spacing."""
    return " ".join(text.casefold().split())


def flags(text: str) -> tuple[str, ...]:
    """Return a word for each odd thing about a text, in a fixed order; nothing for an ordinary one."""
    ordinary = _ordinary(text)
    seen = text if ordinary else plain(text)
    found = []
    if not ordinary and hides(text):
        found.append("hidden_characters")
    if _commands(seen):
        found.append("instruction_like")
    if _ENCODED in text.translate(_AS_A):
        found.append("encoded_text")
    if not ordinary and _mixed_scripts(seen):
        found.append("mixed_scripts")
    return tuple(found)


def _ordinary(text: str) -> bool:
    """Tell whether a text is of letters that nothing can hide behind: most are, and need no closer look."""
    return text.isascii() and (text.isprintable() or text.translate(_NO_LAYOUT).isprintable())


def _commands(text: str) -> bool:
    said = spelled(text)
    if _marks_up(said):
        return True
    words = _cut(said)
    if not _STARTS.isdisjoint(words) and _orders(words):
        return True
    if "-" in said and _orders(_cut(said.replace("-", ""))):  # ig-nore
        return True
    if _letters(words) and _orders(_joined(words)):  # i g n o r e
        return True
    return not said.isascii() and any(_near(said, first, second) for first, second in _UNSPACED)


def _cut(said: str) -> list[str]:
    """Return the words of a text, an address as one of its own. What stands between letters parts them, an apostrophe
    does not."""
    if said.isascii() and "@" not in said and "://" not in said:
        return said.translate(_SPACED).split()
    words: list[str] = []
    for piece in said.split():
        inner = piece.strip(".,;:!?()<>[]{}\"'")
        if "://" in inner or ("@" in inner and inner[0] != "@" and inner[-1] != "@"):
            words.append(_ADDRESS)
            continue
        bare = piece.translate(_APOSTROPHES)
        words += bare.translate(_APART).split() if bare.isascii() else _apart(bare)
    return words


_APOSTROPHES = dict.fromkeys(map(ord, "'`\u2018\u2019\u02bc\u2032"))
_APART = {code: " " for code in range(128) if not chr(code).isalnum()}
_SPACED = {**_APART, ord("'"): None, ord("`"): None}


def _apart(text: str) -> list[str]:
    # Marks that belong to a letter (vowel signs of Hindi) are no letters themselves.
    return "".join([char if char.isalnum() or unicodedata.category(char)[0] == "M" else " " for char in text]).split()


def _orders(words: Sequence[str]) -> bool:
    for place in [place for place, word in enumerate(words) if word in _STARTS]:
        word = words[place]
        for phrase in _BEGINNINGS.get(word, ()):
            if tuple(words[place : place + len(phrase)]) == phrase:
                return True
        for rule in _RULES_OF.get(word, ()):
            since = max(place - rule.reach, 0) if rule.either_way else place + 1
            if not rule.second.isdisjoint(words[since : place + rule.reach + 1]):
                return True
    return False


def _marks_up(said: str) -> bool:
    if "<" in said or "[" in said or "|" in said:
        dense = "".join(said.split())
        if any(mark in dense for mark in _MARKUP):
            return True
    if ":" not in said:
        return False
    before = said.split(":")
    # "system:" says who speaks where a line or a sentence begins.
    for part in before[:-1]:
        line = part[max(part.rfind(sign) for sign in f"\n\r.!?{_ODD_ENDS}") + 1 :].strip()
        if line in _ROLES:
            return True
    return False


def _letters(words: Sequence[str]) -> bool:
    return list(map(len, words)).count(1) >= 5


def _joined(words: Iterable[str]) -> list[str]:
    """Put together what was written letter by letter; a word that was not stays as it is."""
    joined: list[str] = []
    run: list[str] = []
    for word in words:
        if len(word) == 1:
            run.append(word)
            continue
        if run:
            joined += _split("".join(run))
            run = []
        joined.append(word)
    return [*joined, *_split("".join(run))]


def _split(letters: str) -> Iterable[str]:
    """Find the words of commands in letters that had spaces between all of them."""
    place = 0
    while place < len(letters):
        for length in range(min(_LONGEST, len(letters) - place), 1, -1):
            if letters[place : place + length] in _ALL:
                yield letters[place : place + length]
                place += length
                break
        else:
            place += 1


_ALL = frozenset(word for phrase in _PHRASES for word in phrase) | frozenset(
    word for rule in _RULES for word in rule.first | rule.second if len(word) > 1
)
_LONGEST = max(map(len, _ALL))


def _near(said: str, first: Sequence[str], second: Sequence[str]) -> bool:
    for start in first:
        place = said.find(start)
        while place >= 0:
            around = said[max(place - _UNSPACED_REACH, 0) : place + _UNSPACED_REACH]
            if any(other in around for other in second):
                return True
            place = said.find(start, place + 1)
    return False


def _mixed_scripts(text: str) -> bool:
    """Tell whether one word mixes Latin with letters that look like Latin ones."""
    for word in "".join([char if char.isalpha() else " " for char in text]).split():
        if not word.isascii():
            scripts = {unicodedata.name(char, "").split(" ")[0] for char in word}
            if "LATIN" in scripts and scripts & {"CYRILLIC", "GREEK", "CHEROKEE", "ARMENIAN"}:
                return True
    return False
