"""What nobody sees is spelt out and flagged, everywhere the same; what changes what is seen is left alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import strongroom
from strongroom.cli.output import clean
from strongroom.folding import same_person
from strongroom.services.memories.screening import flags, plain
from strongroom.unseen import HIDDEN, HONEST, escaped, hides, spelt
from tests.missing import not_here

FORMAT = Path(strongroom.__file__).parent / "console/static/app/format.js"
UNSEEN = [
    *"\x00\x1b\x7f\x9b\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200c\u200d\u200e\u202e\u2028\u2060\u2064",
    *"\u2066\u206a\u2800\u3164\ufe00\ufe0e\ufe0f\ufeff\uffa0\ufff9\ufff0\ue000\ufdd0\u0378\U00013430\U00016fe4",
    *"\U0001bca0\U0001d159\U0001d173\U000e0001\U000e0041\U000e007f\U000e0100\U000e01ef\U000e0fff\U000f0000\U0010fffd",
]
LEGITIMATE = [
    "zwölf 猫 🐈, “quoted” – and so on…\nwith a line\tand a tab",
    "family \U0001f468\u200d\U0001f469\u200d\U0001f467, heart \u2764\ufe0f, on fire \u2764\ufe0f\u200d\U0001f525",
    "text style \u2194\ufe0e and \u263a\ufe0e, keycaps 1\ufe0f\u20e3 #\ufe0f\u20e3 *\ufe0f\u20e3, \xa9\ufe0f",
    "rainbow \U0001f3f3\ufe0f\u200d\U0001f308, pirate \U0001f3f4\u200d\u2620\ufe0f, bird \U0001f426\u200d\u2b1b",
    "she \U0001f9d1\U0001f3fd\u200d\u2695\ufe0f runs \U0001f3c3\U0001f3fb\u200d\u2640\ufe0f\u200d\u27a1\ufe0f",
    "England \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "Scotland \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "a new face \U0001fae8 and one that is not there yet \U0001faff",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645, PDF\u200c\u0647\u0627, \u0647\u200d",  # Persian
    "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937",  # Hindi
    "\u0dc1\u0dca\u200d\u0dbb\u0dd3 \u0d28\u0d4d\u200d \u09b0\u200d\u09cd\u09af",  # Sinhala, Malayalam, Bengali
    "\u0628\u0633\u0645 \u06dd\u0661",  # the end of a verse is seen
    "\u1828\u180e\u1820 \u182d\u180b",  # Mongolian
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab \u314e\u314f\u3134",  # Hangul: syllables, their parts, letters
    "\u2813\u2811\u2807\u2807\u2815\u2800\u283a\u2815\u2817\u2807\u2819",  # Braille
    "\u3053\u3093\u306b\u3061\u306f\u3000\u4e16\u754c, 10\u00a0km, 1\u202f000",
]


@pytest.mark.parametrize("char", UNSEEN, ids=ascii)
def test_what_nobody_sees_is_spelt_out_in_a_terminal_and_flagged_in_a_review(char: str) -> None:
    text = f"pay{char}roll"
    assert clean(text) == f"pay{escaped(char)}roll"
    assert "hidden_characters" in flags(text)


@pytest.mark.parametrize("text", LEGITIMATE, ids=ascii)
def test_text_of_every_language_stays_as_it_is(text: str) -> None:
    assert spelt(text) == text and not hides(text)
    assert "hidden_characters" not in flags(text)


@pytest.mark.parametrize(
    "text",
    [
        "a\u200db", "a \u200d\u200d\u0645", "\u0645\u200c\u200cx", "x\ufe0f", "1\ufe0f", "\u2764\ufe0f\ufe0f",
        "\U0001f468\u200d", "\U0001f468\u200dx", "\u1828\u180b\u180b", "\u2801 \u2800 \u2801",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e007f", "\U0001f3f4\U000e0069\U000e0067\U000e006e\U000e007f",
    ],
    ids=ascii,
)  # fmt: skip
def test_a_joiner_or_a_style_is_honest_in_its_place_alone(text: str) -> None:
    assert hides(text) and spelt(text) != text


@pytest.mark.parametrize(
    ("char", "shown"), [("\x1b", "\\x1b"), ("\u200b", "\\u200b"), ("\u3164", "\\u3164"), ("\U000e0041", "\\u{e0041}")]
)
def test_a_character_is_spelt_by_its_number(char: str, shown: str) -> None:
    assert escaped(char) == shown


def test_all_that_unicode_calls_a_format_or_a_control_is_in_the_table() -> None:
    seen = {*"\n\r\t", *map(chr, range(0x600, 0x606)), *"\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"}
    every = map(chr, range(sys.maxunicode + 1))
    formats = {char for char in every if unicodedata.category(char) in ("Cf", "Cc", "Cs", "Co", "Zl", "Zp")}
    assert {char for char in formats if not hides(char)} == seen


def test_a_text_is_the_same_with_and_without_what_nobody_sees() -> None:
    for char in ("\u3164", "\u115f", "\uffa0", "\u034f", "\u180b", "\U000e0041", "\u17b4"):
        assert plain(f"pass{char}word") == "password"
        assert same_person(f"agent{char}-7", "agent-7")


def test_the_console_holds_the_same_table() -> None:
    told = dict(re.findall(r"^const (\w+) = String\.raw`(.*)`;", FORMAT.read_text(), re.MULTILINE))
    honest = re.sub(r"\$\{(\w+)\}", lambda name: told[name[1]], told["HONEST"])
    assert (in_python(told["HIDDEN"]), in_python(honest)) == (HIDDEN, HONEST)


def in_python(pattern: str) -> str:
    return re.sub(r"\\u\{(\w+)\}", lambda number: f"\\U{number[1]:0>8}", pattern)


def test_the_console_spells_out_what_a_terminal_does() -> None:
    if shutil.which("node") is None:
        not_here("Node", "the two tables are compared without it")
    texts = [*(f"pay{char}roll" for char in UNSEEN), *LEGITIMATE]
    program = (
        f"import {{ pieces }} from {json.dumps(FORMAT.as_uri())};"
        "const told = JSON.parse(await new Response(process.stdin).text());"
        "const shown = (part) => typeof part === 'string' ? part : `<${part.code}>`;"
        "console.log(JSON.stringify(told.map((text) => pieces(text).map(shown).join(''))));"
    )
    ran = subprocess.run(
        ["node", "--input-type=module", "-e", program], input=json.dumps(texts), capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [spelt(text, lambda char: f"<U+{ord(char):04X}>") for text in texts]
