"""How often the evidence for a question is among the first ten hits, over real conversations and without a model.

The conversations are not part of this repository: HOLDFAST_LOCOMO names a JSON file, a list of
{"id", "turns": [{"id", "speaker", "text", "caption"}], "questions": [{"question", "evidence": [turn ids]}]}.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holdfast
from benchmarks.measuring import Result

K = 10
WANTED = 0.70


def measure() -> Iterator[Result]:
    """Yield the recall over all questions. Without the file there is nothing to measure."""
    path = os.environ.get("HOLDFAST_LOCOMO")
    if not path or not Path(path).exists():
        return
    conversations = json.loads(Path(path).read_text())
    found = [share for conversation in conversations for share in recalls(conversation)]
    note = f"{len(found)} questions, {len(conversations)} conversations, words only"
    yield Result(f"LoCoMo evidence recall@{K}", sum(found) / len(found), WANTED, note=note)


def recalls(conversation: dict[str, Any]) -> Iterator[float]:
    """Yield for each question the share of its evidence that was found."""
    with holdfast.open("memory://") as ctx:
        session = ctx.sessions.open(conversation["id"])
        session.append([message(turn) for turn in conversation["turns"]])
        known = {turn["id"] for turn in conversation["turns"]}
        for question in conversation["questions"]:
            evidence = known.intersection(question["evidence"])
            if evidence:
                hits = {hit.message_id for hit in session.search(question["question"], k=K)}
                yield len(evidence & hits) / len(evidence)


def message(turn: dict[str, Any]) -> dict[str, Any]:
    """Write a turn as one would in a chat of several people: who speaks, what is said, what a picture shows."""
    picture = f" [picture: {turn['caption']}]" if turn.get("caption") else ""
    return {"role": "user", "id": turn["id"], "content": f"{turn['speaker']}: {turn['text']}{picture}"}
