"""Names and texts in one spelling: two that look the same to a person are the same here. Pure, and linear in time.

What is compared folded is compared for caution: whether a reviewer is the proposer, whether a source was revoked.
What grants something (a trusted proposer, a reviewer on a list) is compared as it is written.
"""

from __future__ import annotations

import unicodedata

from strongroom.caching import cached_if_short
from strongroom.unseen import leaves_nothing

# Letters of other alphabets that are drawn like a Latin one (Unicode lists them as confusable).
_LOOKALIKES = {
    "a": "ɑαаᎪᗅꓮ",
    "b": "ƄƅΒβВЬвьᏏᏴᑲᖯᗷꓐꞴꞵ",
    "c": "ϲсᏟᴄⲥꓚꮯ",
    "d": "ԁᎠᏧᑯᗞᗪꓒꓓ",
    "e": "ΕεеҽᎬⴹꓰꬲ",
    "f": "Ϝϝքᖴẝꓝꞙꬵ",
    "g": "ƍɡԌԍցᏀᏳᶃꓖ",
    "h": "ΗηНнһհᎻᏂᕼⲎⲏꓧ",
    "i": "ıɩɪͺιіӏᎥꙇꭵ",
    "j": "ʝϳјᎫᒍꓙꞲ",
    "k": "ΚκКкᏦᛕⲔⲕꓗ",
    "l": "ǀᏞᒪᛁⲒⲓⳐⳑⵏꓡꓲ",
    "m": "ΜμϺϻМмᎷᗰᛖⲘⲙꓟ",
    "n": "ΝνոռⲚⲛꓠ",
    "o": "οσоօଠഠဝჿዐᴏᴑⲟⵔꓳꬽ",
    "p": "ρрᏢᑭⲣꓑ",
    "q": "ԛգզⵕ",
    "r": "ƦʀгᎡᎱᏒᖇᴦⲅꓣꭇꭈꮁ",
    "s": "ƽѕՏտᏕᏚꓢꜱꮪ",
    "t": "ΤτТтᎢⲦⲧꓔ",
    "u": "ʋυսሀᑌᴜꓴꞟꭎꭒ",
    "v": "ѵᏙᐯᴠⴸꓦꛟꮩ",
    "w": "ɯѡԝաᎳᏔᴡꓪꮃ",
    "x": "ΧχхᕁᕽᚷⲬⲭⵝꓫꞳꭓ",
    "y": "ɣʏγϒуүყᎩᎽᶌỿℽⲨⲩꓬꭚ",
    "z": "ΖζᏃᴢꓜꮓ",
}
# Letters and digits of ASCII that are drawn alike; without case a capital I is an i, so i, l and 1 are one.
_ALIKE = str.maketrans("l10", "iio")
_TO_LATIN = {ord(letter): latin for latin, letters in _LOOKALIKES.items() for letter in letters}
_INVISIBLE = ("Cf", "Cc", "Cs", "Co", "Cn")


@cached_if_short(maxsize=4_096)
def folded(name: str) -> str:
    """Return a name without case, spacing, invisible characters, and with look-alike letters made Latin."""
    if name.isascii() and name.isprintable():
        return "".join(name.casefold().split())
    before, after = "", name
    while before != after:  # a letter made Latin may join the mark behind it; twice is enough in practice
        before, after = after, _fold(after)
    return after


def same_person(one: str, other: str) -> bool:
    """Tell whether two names may be one person's: `agent-7`, `Agent_7` and `agent 7` are, and so are `alice`, `aIice`
    and `a1ice`."""
    return _drawn(one) == _drawn(other)


def _drawn(name: str) -> str:
    """Return how a name looks, without separators; one that is nothing else stays as it is."""
    seen = folded(name)
    bare = "".join([char for char in seen if unicodedata.category(char)[0] not in "PSZ"]) or seen
    return bare.translate(_ALIKE).replace("rn", "m")


def _fold(name: str) -> str:
    compatible = unicodedata.normalize("NFKC", name)
    return latin("".join([char for char in compatible if not char.isspace() and not invisible(char)]))


def latin(text: str) -> str:
    """Return a text without case, letters that look Latin made so."""
    # Before and after: some look Latin as capitals only, others as small letters only.
    return text.translate(_TO_LATIN).casefold().translate(_TO_LATIN)


def invisible(char: str) -> bool:
    """Tell whether a character leaves no mark, or none that anybody knows: unassigned ones, too."""
    return unicodedata.category(char) in _INVISIBLE or leaves_nothing(char)
