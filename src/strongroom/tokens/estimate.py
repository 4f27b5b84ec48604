"""A token count that needs no vocabulary: cut a text as a byte-pair tokenizer would, price each piece by its script.

Everything is whole numbers (hundredths of a token), so the same text has the same count on every machine. The prices
were set once against `o200k_base`; `tests/test_tokens.py` holds them to within a quarter of it, class by class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# The order matters: the first alternative that matches takes the piece. A word takes the space before it with it. The
# look ahead for an accent is bounded, or "aBaBaB..." without end would take quadratic time.
_KINDS = {
    "accented": r" ?[A-Za-z]{0,24}[\u00c0-\u024f\u1e00-\u1eff][A-Za-z\u00c0-\u024f\u1e00-\u1eff]*",
    "word": r" ?[A-Z]+(?![a-z])| ?[A-Z]?[a-z]+(?:'(?:s|t|re|ve|m|ll|d)\b)?",
    "digits": r"[0-9]{1,3}",
    "slavic": r" ?[\u0370-\u052f]+",
    "hangul": r" ?[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]+",
    "semitic": r" ?[\u0590-\u077f\u08a0-\u08ff]+",
    "indic": r" ?[\u0900-\u0dff]+",
    "asian": r" ?[\u0e00-\u10ff\u1200-\u1dff]+",
    "han": r"[\u2e80-\u2fdf\u31c0-\u31ef\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+",
    "kana": r"[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f]+",
    "wide": r"[\u3000-\u303f\uff00-\uff65]+",
    "pictograph": r" ?[\U0001f000-\U0001ffff]",
    "symbol": r" ?[\u00a1-\u00bf\u2000-\u200a\u2010-\u2bff]",
    "joiner": r"[\u200b-\u200f\ufe00-\ufe0f]",
    "rule": r" ?(?P<mark>[!-/:-@\[-`{-~])(?P=mark){3,}[\r\n]*",
    "prefix": r"[!-/:-@\[-`{-~](?=[A-Za-z])",
    "punctuation": r" ?[!-/:-@\[-`{-~]+[\r\n]*",
    "line": r"[ \t]*[\r\n]+",
    "space": r"[ \t]+",
    "other": r".",
}


def _pieces(kinds: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{_KINDS[kind]})" for kind in kinds), re.DOTALL)


_PIECES = _pieces(_KINDS)
# What is left of it for most texts, in less than half the time: no word of theirs is searched for an accent first.
_ASCII = _pieces(["word", "digits", "rule", "prefix", "punctuation", "line", "space", "other"])

# For each kind of piece: its price, how many characters that covers, and the price of each further character.
_PRICES: dict[str, tuple[int, int, int]] = {
    "accented": (115, 4, 26),
    "word": (97, 7, 15),
    "digits": (100, 3, 0),
    "slavic": (100, 6, 18),
    "hangul": (30, 0, 43),
    "semitic": (100, 4, 30),
    "indic": (100, 4, 22),
    "asian": (50, 0, 45),
    "han": (10, 0, 72),
    "kana": (10, 0, 66),
    "wide": (75, 1, 60),
    "pictograph": (190, 2, 0),
    "symbol": (110, 2, 0),
    "joiner": (95, 1, 0),
    "rule": (100, 4, 2),
    "prefix": (55, 1, 0),
    "punctuation": (95, 3, 25),
    "line": (95, 4, 6),
    "space": (90, 80, 1),
    "other": (250, 1, 0),
}


class Estimate:
    """Count tokens by the shape of the text. Deterministic, and marked as approximate."""

    name = "estimate"
    approximate = True

    def count(self, text: str) -> int:
        """Return about how many tokens `text` has; 0 only for an empty text."""
        total = 0
        for piece in (_ASCII if text.isascii() else _PIECES).finditer(text):
            start, covered, more = _PRICES[piece.lastgroup]  # type: ignore[index]
            extra = piece.end() - piece.start() - covered
            total += start + extra * more if extra > 0 else start
        return -(-total // 100)
