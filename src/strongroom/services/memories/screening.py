"""What a proposed text is, before anybody believes it: its plain form, and what is odd about it. Pure.

Flags refuse nothing. They are shown to the reviewer, and they keep a batch from being committed automatically.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Invisible characters with an honest use: joiners in emoji and in several scripts, and the emoji style selector.
_HONEST = frozenset("\u200c\u200d\ufe0f\xad")
_SELECTORS = re.compile("[\ufe00-\ufe0e\U000e0100-\U000e01ef]")
_SPACES = re.compile(r"[^\S\n]+")
_LETTERS = re.compile(r"[a-z]+")
_APART = {code: " " for code in range(128) if not chr(code).isalpha()}
_NO_LAYOUT = dict.fromkeys(map(ord, "\n\r\t"))
_STARTS = frozenset({
    "always", "assistant", "automatically", "bypass", "developer", "disregard", "do", "don", "email", "exfiltrate",
    "forget", "forward", "from", "ignore", "never", "new", "override", "post", "send", "silently", "system", "upload",
    "you",
})  # fmt: skip
# A long run of what Base64 is written with. Each such character becomes an "a": a pattern takes several times as long.
_AS_A = {code: "a" if re.match(r"[A-Za-z0-9+/=_-]", chr(code)) else " " for code in range(128)}
_ENCODED = "a" * 80
_INSTRUCTION = re.compile(
    r"\b(ignore|disregard|forget|override|bypass)\b.{0,40}\b(previous|prior|above|earlier|all|any|system|safety|your)\b"
    r"|\b(you (are|must|should|will) (now|always|never)|from now on|new instructions?|system prompt|developer mode)\b"
    r"|\b(do not|don't|never) (tell|inform|mention|reveal|ask|warn)\b"
    r"|\b(send|post|forward|upload|exfiltrate|email)\b.{0,60}\b(to|at)\b.{0,10}(https?://|\S+@\S+)"
    r"|\b(always|automatically|silently) (approve|run|execute|call|send|trust|commit|allow)\b"
    r"|<\s*/?\s*(system|assistant|user|tool|instructions?)\s*>|<\|.{1,30}\|>|\[/?INST\]|(^|[.:!?])\s*(system|assistant)\s*:",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)


def plain(text: str) -> str:
    """Return the text as a reader sees it: compatible forms made equal, invisible characters gone."""
    return text if _ordinary(text) else _plain(text)


@lru_cache(maxsize=2_048)
def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text)
    invisible = {char for char in set(folded) if char in _HONEST or _hidden(char)}
    return folded.translate(dict.fromkeys(map(ord, invisible))) if invisible else folded


def normal(text: str) -> str:
    """Return the form in which two plain texts that say the same are equal: without case or spacing."""
    return " ".join(text.casefold().split())


def flags(text: str) -> tuple[str, ...]:
    """Return a word for each odd thing about a text, in a fixed order; nothing for an ordinary one."""
    ordinary = _ordinary(text)
    seen = text if ordinary else plain(text)
    found = []
    if not ordinary and _hides(text):
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


def _hides(text: str) -> bool:
    return any(map(_hidden, set(text))) or _SELECTORS.search(text) is not None


def _commands(text: str) -> bool:
    # A pattern of this width costs more than all other work on a memory, and few memories hold a word it starts with.
    folded = text.casefold()
    words = folded.translate(_APART).split() if text.isascii() else _LETTERS.findall(folded)
    if _STARTS.isdisjoint(words) and "<" not in text and "[" not in text:
        return False
    return _INSTRUCTION.search(_SPACES.sub(" ", text)) is not None


def _hidden(char: str) -> bool:
    category = unicodedata.category(char)
    if category in ("Cf", "Co", "Cn", "Cs"):
        return char not in _HONEST
    return category == "Cc" and char not in "\n\r\t"


def _mixed_scripts(text: str) -> bool:
    """Tell whether one word mixes Latin with letters that look like Latin ones."""
    for word in re.findall(r"[^\W\d_]+", text):
        if not word.isascii():
            scripts = {unicodedata.name(char, "").split(" ")[0] for char in word}
            if "LATIN" in scripts and scripts & {"CYRILLIC", "GREEK", "CHEROKEE", "ARMENIAN"}:
                return True
    return False
