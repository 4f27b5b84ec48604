"""The steps of an agent's loop, as LangGraph stores them: one message of forty words at each, for two tasks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

TEXT = Path(argparse.__file__).read_text(encoding="utf-8").split()
WORDS = 40


def message(number: int) -> Any:
    kind = AIMessage if number % 2 else HumanMessage
    return kind(" ".join(_words(number)), id=f"0192a3b4-0000-7000-8000-{number:012d}")


def text_bytes(steps: int) -> int:
    return sum(len(" ".join(_words(number)).encode()) for number in range(steps))


def _words(number: int) -> list[str]:
    return TEXT[number * 37 % (len(TEXT) - 50) :][:WORDS]


def run(saver: Any, steps: int) -> None:
    """Let an empty thread make so many steps."""
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    history: list[Any] = []
    versions: dict[str, Any] = {}
    seen: dict[str, Any] = {"__input__": {}, "__start__": {"__start__": "1"}}
    for step in range(steps):
        said = message(step)
        history = [*history, said]
        version = saver.get_next_version(versions.get("messages"), None)
        versions = {"__start__": f"{2:032}.0.1234", "messages": version, "branch:to:agent": version}
        seen = {**seen, "agent": {"branch:to:agent": version}, "tools": {"branch:to:tools": version}}
        if step:
            writes = [("messages", [said]), ("branch:to:agent", None)]
            saver.put_writes(config, writes, f"task-{step:030d}", "~__pregel_pull, agent")
        checkpoint: Any = empty_checkpoint() | {
            "id": str(uuid6(clock_seq=step)),
            "channel_values": {"messages": history},
            "channel_versions": versions,
            "versions_seen": seen,
            "updated_channels": ["messages"],
        }
        new = {"messages": version, "branch:to:agent": version}
        config = saver.put(config, checkpoint, {"source": "loop", "step": step, "parents": {}}, new)
