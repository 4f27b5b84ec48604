"""Blocks marked `py` need something that is not there: a service, a server, a runner of tests. Here they have it.

As in test_docs each runs twice, in one folder, and a page that gets such a block needs a stage here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any

import pytest

import strongroom
from tests.server.serving import served
from tests.test_docs import PAGES

BLOCK = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
STAGED = {"guide.md": 1, "machines.md": 2, "meaning.md": 1, "server.md": 1, "testing.md": 1}
TIMES = 2


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def blocks(name: str) -> list[str]:
    [page] = [page for page in PAGES if page.name == name]
    return BLOCK.findall(page.read_text())


def run(block: str, page: str, **names: Any) -> dict[str, Any]:
    exec(compile(block, page, "exec"), names)
    return names


def test_every_block_that_needs_something_has_a_stage() -> None:
    found = {page.name: len(BLOCK.findall(page.read_text())) for page in PAGES}
    assert {name: count for name, count in found.items() if count} == STAGED  # server.md: tests/server/test_page.py


def test_no_block_is_in_python_and_marked_as_something_else() -> None:
    marked = {mark for page in PAGES for mark in re.findall(r"^```(\w+)$", page.read_text(), re.MULTILINE)}
    assert {mark for mark in marked if mark.startswith("py")} == {"python", "py"}


def test_a_real_model_takes_the_place_of_the_one_in_the_guide() -> None:
    called = Thing(function=Thing(name="refund", arguments='{"order": "4711"}'))
    answers = [Thing(tool_calls=[called], content=None), Thing(tool_calls=None, content="It is lost.")] * TIMES
    asked: list[dict[str, Any]] = []

    def create(**given: Any) -> Thing:
        asked.append(given)
        return Thing(choices=[Thing(message=answers.pop(0))])

    def service() -> Thing:
        return Thing(chat=Thing(completions=Thing(create=create)))

    [block] = blocks("guide.md")
    for _ in range(TIMES):
        names = run(block, "guide.md", OpenAI=service, MODEL="m", SCHEMAS=[{"type": "function"}], json=json)
        model: Callable[..., object] = names["model"]
        assert model([{"role": "user", "content": "?"}]) == {"tool": "refund", "arguments": {"order": "4711"}}
        assert model([{"role": "user", "content": "?"}]) == {"say": "It is lost."}
    assert {tuple(sorted(given)) for given in asked} == {("messages", "model", "tools")}


def test_meaning_finds_what_no_word_says(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"job": 1, "nurse": 1, "works": 1}  # a table of two word vectors stands in for that of the package

    def encode_batch(texts: list[str], **_: Any) -> list[Thing]:
        return [Thing(ids=[kinds.get(word, 0) for word in text.lower().split()]) for text in texts]

    loaded = Thing(embedding=[[1.0, 0.1], [0.1, 1.0]], tokenizer=Thing(encode_batch=encode_batch, no_padding=list))
    package = Thing(__file__=__file__, WordLlama=Thing(load=lambda **_: loaded))
    monkeypatch.setitem(sys.modules, "wordllama", package)
    [block] = blocks("meaning.md")
    for _ in range(TIMES):
        with strongroom.open("agent.db") as before:
            before.memories.add("ana works as a nurse", user_id="ana")
        names = run(block, "meaning.md")
        [hit] = names["hits"]
        assert hit.content == "ana works as a nurse" and "meaning" in hit.why


def test_the_fixture_runs_a_test_on_both_stores() -> None:
    [block] = blocks("testing.md")
    test = "\n\ndef test_a_run(ctx):\n    assert ctx.runs.create(objective='o').verify().ok\n"
    Path("test_it.py").write_text(block + test)
    for _ in range(TIMES):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "test_it.py"]
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert "2 passed" in told.stdout, told.stdout + told.stderr


def test_several_machines_share_a_postgres(postgres: str) -> None:
    block, _ = blocks("machines.md")
    said = "postgresql://strongroom@db/agents"
    assert block.count(said) == 1
    for number in range(TIMES):
        names = run(block.replace(said, postgres), "machines.md")
        with names["ctx"] as ctx:
            assert ctx.space == "acme" and len(ctx.runs.list()) == number
            ctx.runs.create(objective="o")


def test_several_machines_share_a_server() -> None:
    _, block = blocks("machines.md")
    said, key = "https://strongroom.example", "srk_..."
    assert block.count(said) == block.count(key) == 1
    with served() as server:
        for _ in range(TIMES):
            told = block.replace(said, server.url).replace(key, server.key("acme", "writer"))
            with run(told, "machines.md")["ctx"] as ctx:
                assert ctx.space == "acme"
