"""Whatever is typed, there is an exit code and a sentence, never a traceback."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import pytest

from tests.cli.commands import CASES, leaves
from tests.cli.conftest import Type

ODD = [
    "", " ", "-", "-1", "0", "9" * 400, "nan", "1e999", "..", "../../etc/passwd", "/", "a" * 5000, "\udc80",
    "\x1b[2J", "[/]", "{}", "{0.__class__}", "💥", "http://[", "sqlite://", "nothing://x", "memory://", "%s%n", "\n",
    "agent.db", "pack.zip",
]  # fmt: skip
# What each kind of option takes, so that an odd argument gets past the parser.
REQUIRED = {
    "--proposer": "agent-8",
    "--reason": "why",
    "--idle-seconds": "60",
    "--max-tokens": "100",
    "--role": "reader",
    "--space": "acme",
    "--user": "u1",
    "--model": "openai:small",
}


@pytest.fixture
def harmless(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("uvicorn.run", lambda *args, **options: None)
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: setattr(server, "started", True))
    monkeypatch.setattr("strongroom.client.connect", _unreachable)
    monkeypatch.setenv("STRONGROOM_URL", "agent.db")
    monkeypatch.setenv("STRONGROOM_SPACE", "default")
    return here


def _unreachable(*_: object, **__: object) -> None:
    from strongroom.errors import Unavailable

    raise Unavailable("nobody answers", reason="unreachable")


def fitting(command: click.Command, odd: str) -> list[str]:
    """Return arguments of which each is odd, and options that are in order."""
    options = [
        text
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.required
        for text in (parameter.opts[0], REQUIRED[parameter.opts[0]])
    ]
    count = sum(isinstance(parameter, click.Argument) for parameter in command.params)
    return [*options, "--", *[odd] * max(count, 1)]


def acceptable(answer: object) -> bool:
    return getattr(answer, "code", None) in (0, 1, 2, 3) and "should not happen" not in getattr(answer, "err", "")


@pytest.mark.parametrize("name", [name for name, _ in leaves()])
def test_odd_arguments(name: str, harmless: Path, type_in: Type, plain: Path) -> None:
    command = dict(leaves())[name]
    for odd in ODD:
        answer = type_in(*name.split(), *fitting(command, odd))
        assert acceptable(answer), (odd, answer)
        if not (harmless / "agent.db").exists():
            shutil.copy(plain / "agent.db", harmless)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("demo",)])
def test_odd_options(name: str, harmless: Path, type_in: Type) -> None:
    """Each option of each command takes odd values, another few for each."""
    command = dict(leaves())[name]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag and not one.hidden]
    for place, option in enumerate(options):
        for odd in ODD[place % 3 :: 3]:
            answer = type_in(*name.split(), *CASES[name][0], f"{option.opts[-1]}={odd}")
            assert acceptable(answer), (option.opts, odd, answer)


@pytest.mark.parametrize("option", ["--url", "--space", "--key"])
def test_odd_addresses(option: str, harmless: Path, type_in: Type) -> None:
    for odd in ODD:
        for name in ("runs list", "doctor", "keys list"):
            answer = type_in(*name.split(), f"{option}={odd}")
            assert acceptable(answer), (odd, answer)


@pytest.mark.parametrize("odd", ODD)
def test_odd_commands(odd: str, harmless: Path, type_in: Type) -> None:
    assert acceptable(type_in(odd))
    assert acceptable(type_in("runs", odd))
    assert acceptable(type_in(f"--{odd}"))


def test_a_defect_would_be_seen(harmless: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr("strongroom.cli.doctor.show", broken)
    answer = type_in("version")
    assert answer.code == 3
    assert not acceptable(answer)
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("option", ["--space", "--url"])
def test_an_option_that_is_empty_is_not_taken_for_the_default(here: Path, type_in: Type, option: str) -> None:
    shown = type_in(option, "", "runs", "list")
    assert shown.code == 2 and "it is empty" in shown.err


def test_an_empty_space_of_the_environment_is_not_taken_for_the_default(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRONGROOM_SPACE", "")
    shown = type_in("runs", "list")
    assert shown.code != 0 and "STRONGROOM_SPACE is empty" in shown.err


def test_the_public_half_of_a_key_signs_nothing(here: Path, type_in: Type) -> None:
    type_in("keys", "pair", "signing.key")
    shown = type_in("runs", "export", "scraper", "signed.zip", "--signing-key", "signing.key.pub")
    assert shown.code == 1 and "public half" in shown.err and not Path("signed.zip").exists()


def test_a_source_that_is_not_there_is_not_to_be_named_by_an_option(empty: Path, type_in: Type) -> None:
    shown = type_in("copy", "nowhere.db", "target.db")
    assert shown.code != 0 and "nowhere.db" in shown.err and "--url" not in shown.err


@pytest.mark.parametrize(
    "command", [["keys", "pair", "k"], ["runs", "export", "scraper", "p.zip", "--signing-key", "k"]]
)
def test_who_signs_without_the_package_for_it_is_told_which_extra_it_is(
    here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    Path("k").write_bytes(bytes(32)) if "export" in command else None
    monkeypatch.setattr("strongroom.services.packs.signing.find_spec", lambda name: None)
    shown = type_in(*command)
    assert shown.code == 1 and "strongroom[signing]" in shown.err
