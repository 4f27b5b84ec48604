"""What agents stored cannot steer the terminal of whoever looks at it."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path

import pytest

import strongroom
from strongroom.cli.output import brief, clean, hide_secrets, many
from tests.cli.commands import CASES
from tests.cli.conftest import HOSTILE, Type, memory_id

STEERING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u00ad\u034f\u115f\u200d\u2800\u3164\ue000\ufe0f\uffa0"
    "\U000e0000-\U000e01ef]"
)
SHOWING = [
    "runs show", "runs list", "runs events", "runs tail", "runs diff", "sessions list", "sessions show",
    "sessions search", "sessions window", "threads show", "threads tail", "memories pending", "memories search",
    "memories history",
]  # fmt: skip


@pytest.fixture
def trap(empty: Path, hostile: Path) -> Path:
    shutil.copytree(hostile, empty, dirs_exist_ok=True)
    return empty


def filled(name: str, folder: Path) -> list[str]:
    return [*name.split(), *(memory_id(folder) if part == "MEMORY" else part for part in CASES[name][0])]


@pytest.mark.parametrize("name", SHOWING)
def test_people_see_text_and_nothing_else(name: str, trap: Path, type_in: Type) -> None:
    shown = type_in(*filled(name, trap))
    assert shown.code == 0
    assert STEERING.findall(shown.out) == []
    assert "[bold red]" in shown.out, "markup is shown, not obeyed"


@pytest.mark.parametrize("name", SHOWING)
def test_programs_get_the_very_text_without_its_powers(name: str, trap: Path, type_in: Type) -> None:
    shown = type_in(*filled(name, trap), "--json")
    assert STEERING.findall(shown.out) == []
    documents = [json.loads(line) for line in shown.out.splitlines()] if name.endswith("tail") else shown.json
    assert any(HOSTILE in text for text in texts(documents))


@pytest.mark.parametrize("name", ["runs show", "sessions delete", "memories commit", "keys revoke", "worker"])
def test_errors_do_not_repeat_what_could_steer(name: str, trap: Path, type_in: Type) -> None:
    refused = type_in(*name.split(), "\x1b[2J[bold]x")
    assert refused.code == 1
    assert STEERING.findall(refused.err) == []
    assert "[bold]x" in refused.err


def test_the_check_above_would_see_a_sequence() -> None:
    assert STEERING.findall(HOSTILE)


def test_clean_text_stays_as_it_is() -> None:
    assert clean("zwölf 猫 🐈\nlines") == "zwölf 猫 🐈\nlines"


def test_a_brief_is_one_short_line() -> None:
    assert brief("a\n b\t c") == "a b c"
    assert brief("word " * 1000, 20) == "word word word word…"


@pytest.mark.parametrize(
    ("count", "what", "told"),
    [(0, "memory", "0 memories"), (1, "memory", "1 memory"), (2, "batch", "2 batches"), (1_000, "slot", "1,000 slots")],
)
def test_one_is_not_called_several(count: int, what: str, told: str) -> None:
    assert many(count, what) == told


def texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("agent.db", "agent.db"),
        ("redis://:s3cret@host:6379/0", "redis://***@host:6379/0"),
        ("postgresql://db/app?user=app&password=s3cret&schema=a", "postgresql://db/app?user=app&password=***&schema=a"),
        ("postgresql://u:s3?cret@db/app", "postgresql://***"),
        ("postgresql://db/app?password=s3@cret", "postgresql://***"),
        ("postgresql://u:s3@cret@db/app?sslpassword=s3cret", "postgresql://***@db/app?sslpassword=***"),
    ],
)
def test_an_address_is_shown_without_its_password_wherever_that_stands(address: str, shown: str) -> None:
    assert hide_secrets(address) == shown


def test_a_reviewer_sees_what_is_hidden_and_that_it_is(
    trap: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    shown = type_in("review")
    assert r"\u{e0069}\u{e0067}\u{e006e}" in shown.out and r"\u3164\u115f\uffa0" in shown.out
    assert "flag hidden_characters" in shown.out and STEERING.findall(shown.out) == []


def test_a_reviewer_sees_what_is_said_beside_the_words(
    empty: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    with strongroom.open("agent.db") as ctx:
        ctx.memories.propose(
            {"op": "add", "type": "fact", "scope": "global", "content": "likes tea", "rationale": "said so",
             "confidence": 0.9, "source_refs": ["from a page"], "tags": ["a tag"], "metadata": {"note": "a note"},
             "expires_at": "2100-01-02T00:00:00Z"}, proposer="bot",
        )  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    shown = type_in("review").out
    assert [
        text for text in ('["from a page"]', '["a tag"]', '{"note":"a note"}', "2100-01-02") if text not in shown
    ] == []
