"""Characters that nobody sees, and how they are shown all the same. Pure, and linear in time.

Whoever approves a text must see all of it. One table says what is not seen: a terminal and an assistant's form spell it
out, a review flags it. The console is of another language and holds the same patterns (`format.js`); a test compares
them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

# Leaves no mark: controls (all but tab and ends of lines), formats, what Unicode calls default ignorable, fillers of
# Hangul and others, surrogates, and private characters, whose look nobody knows.
NOTHING = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f"
    r"\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
# Leaves a blank, and is no space that anybody types: ends of lines, the empty cell of Braille.
BLANK = r"\u2028\u2029\u2800"
HIDDEN = NOTHING + BLANK
# Scripts whose letters are joined or kept apart by U+200D and U+200C, and what emoji are made of.
_JOINED = (
    r"\u0620-\u0dff\u1000-\u109f\u1780-\u17ff\u1820-\u18aa\u1b00-\u1b7f\ua980-\ua9df\ufb50-\ufdff\ufe70-\ufefc"
    r"\U00011000-\U000117ff\U0001e900-\U0001e95f"
)
_EMOJI = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030"
    r"\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Where it changes what is seen, and is no secret: joiners beside such letters, one behind a letter of Mongolian, the
# style and the joiner of emoji, keycaps, blanks in Braille, the flags of England, Scotland and Wales.
HONEST = "|".join(
    (
        rf"(?<=[{_JOINED}])[\u200c\u200d]",
        rf"[\u200c\u200d](?=[{_JOINED}])",
        r"(?<=[\u1820-\u18aa])[\u180b-\u180f]",
        rf"(?<=[{_EMOJI}])[\ufe0e\ufe0f]",
        rf"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])",
        r"(?<=[#*0-9])\ufe0f(?=\u20e3)",
        r"(?<=[\u2801-\u28ff])\u2800",
        r"\u2800(?=[\u2801-\u28ff])",
        r"\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
        r"|\U000e0077\U000e006c\U000e0073)\U000e007f",
    )
)
_ANY = re.compile(f"[{HIDDEN}]")
_NOTHING = re.compile(f"[{NOTHING}]")
_UNSEEN = re.compile(f"{HONEST}|([{HIDDEN}])")


def leaves_nothing(char: str) -> bool:
    """Tell whether a character leaves no mark where it has no honest use."""
    return _NOTHING.match(char) is not None


def hides(text: str) -> bool:
    """Tell whether a text holds a character that nobody sees."""
    if text.isascii() and text.isprintable():
        return False
    if _ANY.search(text) is not None and any(found[1] for found in _UNSEEN.finditer(text)):
        return True
    return bool(_unassigned(text))


def escaped(char: str) -> str:
    """Return how a character is spelt out: `\\x1b`, `\\u200b` or `\\u{e0041}`."""
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\u{{{number:x}}}"


def spelt(text: str, spell: Callable[[str], str] = escaped) -> str:
    """Return a text in which what nobody sees is spelt out. Ends of lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    if _ANY.search(text) is not None:
        text = _UNSEEN.sub(lambda found: spell(found[1]) if found[1] else found[0], text)
    odd = _unassigned(text)
    return text.translate({ord(char): spell(char) for char in odd}) if odd else text


def _unassigned(text: str) -> set[str]:
    """Return the characters that this Python does not know, but where new emoji come: those are seen."""
    chars = set(text)
    return {char for char in chars if unicodedata.category(char) == "Cn" and not "\U0001f000" <= char <= "\U0001faff"}
