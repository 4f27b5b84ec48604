"""Every example of the older systems' documents, word for word but for its import line, run twice in each time zone."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from strongroom.compat import contextstore
from strongroom.compat.xml_pipeline.memory.context_buffer import reset_context_buffer
from strongroom.compat.xml_pipeline.messages import HandlerMetadata
from tests import model_server
from tests.compat.documents import Block, blocks, document, ours, unpiped, usage
from tests.compat.shell import Shell, agrees, answer_of
from tests.compat.signatures import REQUIRED, documented_calls, parameters
from tests.hashed import hashed
from tests.missing import NotHad, had_or_skip

# What is done with each fenced block, by its place in the document. "python" and "shell" are run as they stand, their
# import line and placeholders aside; "answer" is what the command before it must have said; "calls" are signatures.
# Everything else is not run, and why.
THEIRS = "is about the older package's own files"
AOS = {
    0: f"pip: {THEIRS}",
    1: f"pip: {THEIRS}",
    **dict.fromkeys(range(2, 6), "python"),
    6: "server: its first command, with our application and a free port; its second runs a file of theirs",
    **{n: "shell" if n % 2 else "answer" for n in range(7, 13)},
    13: "answer: of the same command again, which then conflicts",
    **{n: "answer" if n % 2 else "shell" for n in range(14, 22)},
    22: "needs a Qdrant server; test_aos_http_memory.py sets both variables",
    23: "server: its environment, with a folder that is there",
    24: "runs two files of theirs",
    25: f"pytest: {THEIRS}",
    26: f"pytest: {THEIRS}",
    27: f"pytest: {THEIRS}",
}
CONTEXTSTORE = {
    0: f"pip: {THEIRS}",
    **dict.fromkeys(range(1, 8), "python"),
    8: "calls",
    9: "calls",
    **dict.fromkeys(range(10, 15), "python"),
}


@pytest.mark.parametrize(("package", "table"), [("aos_context", AOS), ("contextstore", CONTEXTSTORE)])
def test_every_block_is_in_the_table(package: str, table: dict[int, str]) -> None:
    languages = {"bash": ("shell", "server", "pip", "pytest", "needs", "runs"), "json": ("answer",)}
    found = blocks(package)
    assert sorted(table) == list(range(len(found)))
    for number, block in enumerate(found):
        assert table[number].startswith(languages.get(block.language, ("python", "calls"))), number


def run(block: Block, names: dict[str, Any]) -> None:
    exec(compile(ours(block.text), "the document", "exec"), names)


# ---- AoS Context Module ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here", "zone")
def test_the_library_examples_of_aos() -> None:
    for time in range(2):
        names: dict[str, Any] = {"__name__": "__main__"}
        for number, block in enumerate(blocks("aos_context")):
            if AOS[number] == "python":
                run(block, names)
        assert names["result"].ok and names["ws"]["_update_seq"] == 2 * time
        assert names["pack_path"].is_file()
        assert names["restored_ws"]["objective"] == names["ws"]["objective"]
        assert names["restored_ws"]["status"] == "BUSY"


APP = "strongroom.compat.aos_context.api.main:app"
# What `strongroom serve` says otherwise on purpose: docs/migrating.md.
SERVED = ("service", "pack_path")


@pytest.mark.parametrize("server", ["the documented command", "strongroom serve"])
def test_the_server_examples_of_aos(here: Path, zone: str, server: str) -> None:
    found = blocks("aos_context")
    environment, command = found[23].text, ours(found[6].text.split("\n\n")[0], app=APP)
    others: tuple[str, ...] = ()
    if server == "strongroom serve":
        command, others = "python -m strongroom serve --port 8000", SERVED

    def documented(block: Block) -> dict[str, Any]:
        return {name: value for name, value in answer_of(block.text).items() if name not in others}

    with Shell(here, zone) as shell:
        shell.serve(ours(environment, root=str(here / "runs")), command)
        for _ in range(2):
            filled: dict[str, str] = {}
            for number, block in enumerate(found):
                if AOS[number] == "shell":
                    status, said = shell.run(block.text, filled)
                    assert status == "200", said
                    filled |= {name: said[name] for name in ("run_id", "batch_id") if name in said}
                elif AOS[number] == "answer":
                    assert agrees(documented(block), said), (number, said)
                elif AOS[number].startswith("answer"):
                    status, said = shell.run(found[11].text, filled)
                    assert status == "409" and agrees(documented(block), said), said
    assert (here / "runs" / "strongroom.db").is_file()


# ---- ContextStore ---------------------------------------------------------------------------------------------------


@pytest.fixture
def embedding_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for a package whose model would have to be downloaded, with one that knows words."""

    class SentenceTransformer:
        def __init__(self, name: str) -> None: ...

        def encode(self, texts: list[str]) -> Any:
            return hashed(texts)

    module = ModuleType("sentence_transformers")
    vars(module)["SentenceTransformer"] = SentenceTransformer
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("here", "zone", "embedding_model")
def test_the_examples_of_contextstore(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    had_or_skip(openai)
    with model_server.serving() as model:
        monkeypatch.setenv("OPENAI_API_KEY", model_server.KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        for time in range(2):
            names: dict[str, Any] = {"__name__": "__main__"}
            for number, block in enumerate(blocks("contextstore")):
                if CONTEXTSTORE[number] == "python":
                    run(block, names)
                    after_contextstore(number, names, capsys.readouterr().out, model, time)


def openai() -> None:
    try:
        import openai  # noqa: F401 - the example imports it
    except ImportError:
        raise NotHad("openai", "it is not installed") from None


def after_contextstore(number: int, names: dict[str, Any], said: str, model: Any, time: int) -> None:
    """Look at what an example has done."""
    if number == 1:
        assert said.count("'role': ") == 2 and Path("chat.db").is_file()
    if number == 3:
        assert names["result"].messages == names["messages"]
    if number == 4:
        assert names["result"].strategy_used == "none"
    if number == 5:
        assert names["tokenizer"].count_tokens("one two").approximate
    if number == 6:
        conversation(names["chat"], names["memory"], model)
    if number == 7:
        assert asyncio.run(names["RedisBackend"]().load_context("session-1")) is None
    if number == 11:
        model.replies.append(lambda request, body: model_server.send(request, 200, EMBEDDED))
        assert names["embed_fn"](["Hello!"]) == [[0.5, 0.25]]
    if number == 13:
        assert sorted(re.findall(r"^(msg-\d): -?\d\.\d{3} - \S", said, re.MULTILINE)) == ["msg-1", "msg-2"]
    if number == 14:
        found = re.findall(r"^(\d): -?\d\.\d{3} - \S", said, re.MULTILINE)
        assert len(found) == 3 and found[0] == "2"  # the one that shares a word with the question


EMBEDDED = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    "model": "any",
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}


def conversation(chat: Any, memory: Any, model: Any) -> None:
    """Talk for three turns after what was there: each time the model sees all that was said before, in order."""
    for turn in range(3):
        before = asyncio.run(memory.load_context("session-1"))
        model.text = f"answer {turn}"
        assert asyncio.run(chat("session-1", f"question {turn}")) == f"answer {turn}"
        sent = [(one["role"], one["content"]) for one in model.requests[-1][2]["messages"]]
        assert sent == [*((one["role"], one["content"]) for one in before), ("user", f"question {turn}")]


@pytest.mark.parametrize("number", [number for number, done in CONTEXTSTORE.items() if done == "calls"])
def test_the_documented_signatures_of_contextstore(number: int) -> None:
    calls = list(documented_calls(blocks("contextstore")[number].text))
    assert calls
    for name, said in calls:
        taken = parameters(contextstore, name)
        assert taken[: len(said)] == said, name
        assert REQUIRED not in [default for _, default in taken[len(said) :]], name


def test_the_documented_methods_of_contextstore() -> None:
    """Tables of methods stand under the name of their class."""
    sections = re.findall(r"^### (\w+)(?: Methods)?\n\n((?:\|.*\n)+)", document("contextstore"), re.MULTILINE)
    seen = 0
    for owner, table in sections:
        for call in re.findall(r"^\| `(\w+\(.*?\))`", table, re.MULTILINE):
            [(name, said)] = documented_calls(call)
            named = [(parameter, None) for parameter, _ in parameters(contextstore, f"{owner}.{name}")]
            assert named == [(parameter, None) for parameter, _ in said], name
            seen += 1
    assert seen == 8


# ---- the context buffer ---------------------------------------------------------------------------------------------


@dataclass
class Greeting:
    message: str


@pytest.fixture
def reader() -> Any:
    """What the examples leave to their reader: who sends what to whom. And a process that has no buffer yet."""
    reset_context_buffer()
    handled: list[Any] = []
    yield {
        "thread_id": "thread-1",
        "payload": Greeting("hello"),
        "metadata": HandlerMetadata("thread-1", "user", own_name="greeter"),
        "handler": lambda *told: handled.append(told),
        "handled": handled,
    }
    reset_context_buffer()


IMPORTED = "from {}.memory.context_buffer import get_context_buffer"


@pytest.mark.parametrize("package", ["xml_pipeline", "agentserver"])
@pytest.mark.usefixtures("zone")
def test_the_usage_of_the_buffer(package: str, reader: dict[str, Any]) -> None:
    example, _ = usage("xml_pipeline")
    if package == "agentserver":  # the earlier document has the same one on a single line, where it cannot run
        assert " ".join(example.split()) in " ".join(document(package).split())
    for time in range(2):
        exec(ours(IMPORTED.format(package)), reader)
        exec(ours(example), reader)
        assert [slot.payload for slot in reader["history"]] == [reader["payload"]] * (time + 1)
        assert reader["handled"][-1] == (reader["payload"], reader["ref"].metadata)
        assert (reader["ref"].from_id, reader["ref"].to_id) == ("user", "greeter")


@pytest.mark.usefixtures("zone")
def test_the_usage_of_the_buffer_over_redis(reader: dict[str, Any], redis: str) -> None:
    example, over_redis = usage("xml_pipeline")
    for time in range(3):
        exec(ours(IMPORTED.format("xml_pipeline")), reader)
        exec(ours(over_redis, redis=redis), reader)
        exec(ours(example), reader)
        assert reader["buffer"].is_shared and reader["buffer"].get_stats()["backend"] == "shared"
        assert [slot.payload for slot in reader["history"]] == [reader["payload"]] * (time + 1)
        if time == 1:
            reset_context_buffer()  # the third time is another process's first


@pytest.mark.parametrize("package", ["xml_pipeline", "agentserver"])
def test_what_the_documents_of_the_buffer_import_of_their_own_package_is_there(package: str) -> None:
    text = "\n".join(unpiped(package))
    lines = set(re.findall(rf"from {package}[\w.]* import [\w, ]*?\w(?=$| return| config|\n)", text))
    assert lines
    for line in lines:
        exec(ours(line), {})


def test_answers_are_compared_as_far_as_they_are_written_out() -> None:
    said = answer_of('{\n  "ok": true,\n  "id": "run_abc...",\n  "ws": {"_update_seq": 1,\n ...\n }\n}')
    assert agrees(said, json.loads('{"ok": true, "id": "run_12", "ws": {"_update_seq": 1, "more": 2}}'))
    assert not agrees(said, json.loads('{"ok": true, "id": "run_12", "ws": {"_update_seq": 2}}'))
    assert not agrees(said, json.loads('{"ok": true, "id": "mem_12", "ws": {"_update_seq": 1}}'))
