"""Each command, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import strongroom
from tests.cli.commands import CASES, ELSEWHERE, groups, leaves
from tests.cli.conftest import Type, memory_id


def test_no_command_is_left_out() -> None:
    assert {name for name, _ in leaves()} <= CASES.keys() | ELSEWHERE


def filled(name: str, folder: Path) -> list[str]:
    return [*name.split(), *(memory_id(folder) if part == "MEMORY" else part for part in CASES[name][0])]


@pytest.mark.parametrize("name", CASES)
def test_people_are_told(name: str, here: Path, type_in: Type) -> None:
    answer = type_in(*filled(name, here))
    assert (answer.code, answer.err) == (0, "")
    assert CASES[name][1] in answer.out


@pytest.mark.parametrize("name", CASES)
def test_programs_get_json(name: str, here: Path, type_in: Type) -> None:
    answer = type_in(*filled(name, here), "--json")
    assert (answer.code, answer.err) == (0, "")
    documents = [answer.json] if not name.endswith("tail") else [json.loads(line) for line in answer.out.splitlines()]
    assert documents
    for document in documents:
        assert CASES[name][2] in document or not CASES[name][2]


@pytest.mark.parametrize("name", [*groups(), *(name for name, _ in leaves())])
def test_help_says_what_a_command_is_for(name: str, type_in: Type) -> None:
    for flag in ("--help", "-h"):
        answer = type_in(*name.split(), flag)
        assert answer.code == 0
        assert answer.out.startswith(f"Usage: {' '.join(['strongroom', name]).strip()}")
        assert "--json" in answer.out
        assert len(answer.out.split("\n\n")[1].strip()) > 10


@pytest.mark.parametrize("name", ["runs list", "sessions list", "threads show errands", "runs events scraper"])
def test_pages_lead_to_each_other(name: str, here: Path, type_in: Type) -> None:
    import strongroom

    with strongroom.open(here / "agent.db") as ctx:
        ctx.runs.create(objective="another", run_id="another")
        ctx.sessions.open("another")
    whole = type_in(*name.split(), "--json").json
    [kind] = whole.keys() - {"next"}
    assert whole["next"] is None
    pages, after = [], None
    while True:
        page = type_in(
            *name.split(), "--json", "--limit", "1", *([] if after is None else ["--after", str(after)])
        ).json
        pages += page[kind]
        after = page["next"]
        if after is None:
            break
    assert pages == whole[kind]
    assert len(pages) > 1


def test_json_may_be_asked_for_anywhere(here: Path, type_in: Type) -> None:
    asked = [type_in("--json", "runs", "list"), type_in("runs", "--json", "list"), type_in("runs", "list", "--json")]
    assert asked[0].json["runs"]
    assert asked[0] == asked[1] == asked[2]


def test_a_run_is_shown_as_it_was(here: Path, type_in: Type) -> None:
    assert type_in("runs", "show", "scraper", "--at", "0", "--json").json["working_set"]["status"] == "BOOT"


def test_a_run_is_shown_with_its_own_state(here: Path, type_in: Type) -> None:
    with strongroom.open(here / "agent.db") as ctx:
        ctx.runs.create(objective="Answer", run_id="ticket", state={"step": 3})
    assert '{"step":3}' in type_in("runs", "show", "ticket").out
    assert type_in("runs", "show", "ticket", "--json").json["state"] == {"step": 3}


def test_a_head_kept_elsewhere_shows_a_cut_end(here: Path, type_in: Type) -> None:
    head = type_in("runs", "verify", "scraper", "--json").json["head"]
    assert type_in("runs", "verify", "scraper", "--head", f"{head['length']}:{head['chain']}").code == 0
    longer = type_in("runs", "verify", "scraper", "--head", f"{head['length'] + 1}:{head['chain']}")
    assert longer.code == 3
    assert "not as recorded" in longer.out


def test_a_rewritten_ledger_does_not_go_through_signed_anchors(here: Path, type_in: Type) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    secret = Ed25519PrivateKey.generate()
    (here / "secret").write_bytes(secret.private_bytes_raw())
    (here / "public").write_bytes(secret.public_key().public_bytes_raw())
    asked = ["--anchors", "a.jsonl", "--public-key", "public"]
    assert "signed" in type_in("anchor", "a.jsonl", "scraper", "--signing-key", "secret").out
    assert type_in("runs", "verify", "scraper", *asked).code == 0
    (here / "a.jsonl").write_text((here / "a.jsonl").read_text() + '{"torn')
    assert "line 2 of the anchors is torn" in type_in("runs", "verify", "scraper", *asked).out
    (here / "agent.db").rename(here / "real.db")
    with strongroom.open(here / "agent.db") as forged:
        run = forged.runs.create(objective="another past", run_id="scraper")
        for place in range(10):
            run.update(next_action=f"step {place}")
    assert type_in("runs", "verify", "scraper").code == 0
    found = type_in("runs", "verify", "scraper", *asked)
    assert found.code == 3 and "not the ledger whose head was kept" in found.out


def test_one_proposal_may_be_left_out(here: Path, type_in: Type) -> None:
    made = type_in("memories", "commit", "batch_second", "--except", "0=too vague", "--json").json
    assert (made["memory_ids"], made["rejected"]) == ([], [0])


def test_a_signed_pack_is_restored_only_with_the_right_key(here: Path, type_in: Type) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    secret = Ed25519PrivateKey.generate()
    (here / "secret").write_bytes(secret.private_bytes_raw())
    (here / "public").write_bytes(secret.public_key().public_bytes_raw())
    (here / "other").write_bytes(Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    assert "signed" in type_in("runs", "export", "scraper", "s.zip", "--signing-key", "secret").out
    assert type_in("runs", "restore", "s.zip", "--as", "no", "--public-key", "other").code == 1
    assert type_in("runs", "restore", "s.zip", "--as", "yes", "--public-key", "public").code == 0


def test_a_revoked_key_is_gone(here: Path, type_in: Type) -> None:
    made = type_in("keys", "create", "--space", "acme", "--role", "reader", "--label", "ci", "--json").json
    assert "ci" in type_in("keys", "list").out
    assert type_in("keys", "revoke", made["name"]).code == 0
    assert type_in("keys", "list", "--json").json == []
    assert type_in("keys", "list").out == "no keys\n"
    assert type_in("keys", "revoke", made["name"]).code == 1


def test_serve_refuses_the_world_without_keys(here: Path, type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []

    def run(host: str, port: int, *, announce: Callable[[str], None], **options: object) -> None:
        started.append(host)
        announce("http://there")

    monkeypatch.setattr("strongroom.server.running.run", run)
    monkeypatch.setenv("STRONGROOM_URL", "agent.db")
    monkeypatch.setenv("STRONGROOM_SPACE", "default")
    monkeypatch.delenv("STRONGROOM_JWT_KEYS_URL", raising=False)
    refused = type_in("serve", "--host", "0.0.0.0")
    assert (refused.code, started) == (1, [])
    assert "keys create" in refused.err
    assert "console: /" in type_in("serve").out
    assert type_in("serve", "--json").json["keys"] is False
    type_in("keys", "create", "--space", "acme", "--role", "admin")
    assert type_in("serve", "--host", "0.0.0.0").code == 0
    assert started == ["127.0.0.1", "127.0.0.1", "0.0.0.0"]


def test_a_key_opens_the_space_that_is_named_anywhere_or_the_default_one(empty: Path, type_in: Type) -> None:
    def opened(*options: str) -> object:
        return type_in(*options, "keys", "create", "--role", "writer", "--json").json["space"]

    assert (opened(), opened("--space", "acme")) == ("default", "acme")


def test_a_shown_file_is_the_bytes_that_were_written(here: Path, type_in: Type) -> None:
    for text in ("ends its line\n", "does not", "\ttab\r\n\x1b[2J\n\n", ""):
        (here / "note.txt").write_bytes(text.encode())
        type_in("files", "write", "/exact", "note.txt")
        assert type_in("files", "show", "/exact").out == text
