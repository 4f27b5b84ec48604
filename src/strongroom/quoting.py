"""Text of others inside Markdown of ours: it makes no heading there, and swallows none. Pure, and linear in time.

A line that Markdown would read as a heading, as what underlines one, or as the beginning of code or HTML that goes on
until something ends it, gets a backslash before it. Each line is judged by itself, in lists and quotes too, and in a
block of code as well: which lines are code depends on what is around them, and a text could lie about that.
"""

from __future__ import annotations

import re

from strongroom.unseen import HIDDEN

_BLANKS = rf" \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000{HIDDEN}"
_BLANK = f"[{_BLANKS}]"
_OPENS = re.compile(
    rf"^({_BLANK}*(?:(?:[-+*]|[0-9]{{1,9}}[.)]){_BLANK}+|>{_BLANK}*)*)"
    rf"(?:##|#(?:{_BLANK}|$)|```+[^`]*$|~~~|</?h[1-6]\b|<(?:pre|script|style|textarea)\b|<[!?])",
    re.IGNORECASE,
)
_UNDERLINES = re.compile(rf"^([>{_BLANKS}]*)(?:=+|-+){_BLANK}*$")


def quoted(before: str, text: str) -> str:
    """Return a text behind words of ours, its further lines indented.

    A line ends at whatever ends one for anybody: U+2028 or a form feed, too.
    """
    first, *others = text.strip().splitlines() or [""]
    begun = before + first
    # Of a text in which nothing is seen a list's own mark is left, and underlines what stands before it.
    lines = [_kept(_OPENS.match(begun) or (_UNDERLINES.match(begun) if before else None), begun)]
    lines += [_kept(_OPENS.match(line) or _UNDERLINES.match(line), line) for line in others]
    return "\n  ".join(lines)


def flat(text: str) -> str:
    """Return a text on one line, for a place behind words of ours."""
    return " ".join(text.split())


def _kept(found: re.Match[str] | None, line: str) -> str:
    return line if found is None else f"{found[1]}\\{line[found.end(1) :]}"
