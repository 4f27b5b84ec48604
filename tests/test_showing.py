"""What is printed of a value is a line that says what it is. What it holds and equals is not changed by that."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom.values import Event

LONG = "word " * 400


@pytest.fixture(scope="module")
def values() -> Iterator[dict[str, Any]]:
    """One of each value that a program gets, with more in it than anybody wants to see."""
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective=LONG[:500], run_id="ticket-7", state={"note": LONG})
        chat = ctx.sessions.open("support-7", user_id="ana", metadata={"note": LONG})
        chat.append([{"role": "user", "content": f"{LONG} {number}"} for number in range(30)])
        slide = {"id": "x", "content": LONG[:300], "timestamp": "2026-01-01T00:00:00Z", "priority": 3}
        run.update(status="BUSY", append={"sliding_context": [slide]})
        known = ctx.memories.add(f"likes tea {LONG}", user_id="ana")
        ctx.memories.add(f"lives in Rome {LONG}", user_id="ana", proposer="agent-7")
        [batch] = ctx.memories.pending()
        prompt, window = ctx.prompt(session=chat, max_tokens=5000), chat.window(max_tokens=5000)
        ctx.files.write("/notes.md", LONG)
        found = [
            *(run.working_set, run.record("TOOL_CALL", {"tool_name": "fetch", "arguments": {"q": LONG}})),
            *(run.brief(), run.diff(0, 1), *run.diff(0, 1).changes, next(iter(run.replay())), run.milestone(LONG)),
            *(chat.info(), chat.search("word")[0], window, window.receipt, prompt, prompt.receipt),
            *(prompt.receipt.parts[0], batch, batch.proposals[0], batch.proposals[0].request),
            *(ctx.memories.get(known.id), ctx.memories.search("tea", user_id="ana")[0]),
            *(ctx.memories.history(known.id)[0], ctx.memories.commit(batch, reviewer="bo"), run.usage(), run.verify()),
            *(ctx.files.read("/notes.md"), ctx.files.list()[0], ctx.files.history("/notes.md")[0]),
            *(ctx.memories.erase(user_id="ana"), ctx.erase(user_id="ana"), known, run.config, ctx.durability),
        ]
        yield {type(one).__name__: one for one in found}


def test_every_value_is_shown_in_a_line_or_two(values: dict[str, Any]) -> None:
    assert len(values) > 25
    assert {name: repr(one) for name, one in values.items() if len(repr(one)) > 240 or "\n" in repr(one)} == {}


def test_what_matters_of_it_is_shown(values: dict[str, Any]) -> None:
    memory, batch, prompt = values["Memory"], values["Batch"], values["Prompt"]
    assert repr(memory).startswith(
        f"<Memory '{memory.id}' status='active' type='fact' scope='user' user_id='ana' content='likes tea word "
    )
    assert repr(batch).startswith(f"<Batch '{batch.id}' status='pending' proposer='agent-7' 1 proposal created_at='20")
    assert repr(prompt) == (
        f"<Prompt {len(prompt.messages)} messages format='openai' total_tokens={prompt.total_tokens} max_tokens=5000 "
        "approximate=True>"
    )
    assert repr(values["WorkingSet"]).startswith(
        "<WorkingSet 'ticket-7' seq=1 status='BUSY' current_stage='BOOT' objective="
    )


def test_how_it_is_shown_changes_nothing_else(values: dict[str, Any]) -> None:
    for one in values.values():
        assert pickle.loads(pickle.dumps(one)) == one
    memory = values["Memory"]
    other = msgspec.structs.replace(memory, rationale="another one")
    assert repr(other) == repr(memory) and other != memory
    assert msgspec.structs.asdict(memory)["rationale"] == memory.rationale
    assert Event.__name__ == "Event" and Event.__doc__
