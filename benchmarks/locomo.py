"""How often the evidence for a question is among the first ten hits, over real conversations, without a model and with.

The conversations are not part of this repository: STRONGROOM_LOCOMO names a JSON file, a list of
{"id", "turns": [{"id", "speaker", "text", "caption", "at"}], "questions": [{"question", "evidence", "category"}]}.
The model is wordllama's table of word vectors, which comes inside its package: nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import Result
from strongroom.embedders import Embedder
from strongroom.embedders.wordllama import wordllama
from strongroom.errors import Unavailable
from strongroom.services.memories.policy import Policy

K = 10
WANTED = 0.80
WANTED_WITH_VECTORS = 0.825
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}


def measure() -> Iterator[Result]:
    """Yield the recall over all questions and by category. Without the file there is nothing to measure."""
    path = os.environ.get("STRONGROOM_LOCOMO")
    if not path or not Path(path).exists():
        print("  locomo: STRONGROOM_LOCOMO names no file of conversations, so there is nothing to measure")
        return
    conversations = json.loads(Path(path).read_text())
    yield from recall(conversations, "words only", None, WANTED)
    yield from recall(conversations, "words only, as memories", None, WANTED, memories=True)
    embedder = model()
    if embedder is None:
        print("  locomo: wordllama is not installed, so there is no figure with a model")
        return
    yield from recall(conversations, "words and a model", embedder, WANTED_WITH_VECTORS)


def recall(
    conversations: list[dict[str, Any]], how: str, embedder: Embedder | None, wanted: float, *, memories: bool = False
) -> Iterator[Result]:
    found: dict[str, list[float]] = defaultdict(list)
    look = from_memories if memories else from_session
    for conversation in conversations:
        for category, share in look(conversation, embedder):
            found["all"].append(share)
            found[CATEGORIES.get(category, str(category))].append(share)
    for name in ("all", *sorted(set(found) - {"all"})):
        goal = wanted if name == "all" else None
        note = f"{len(found[name])} questions, {len(conversations)} conversations"
        value = sum(found[name]) / len(found[name])
        yield Result(f"LoCoMo evidence recall@{K}, {how}, {name}", value, goal, note=note)


def from_session(conversation: dict[str, Any], embedder: Embedder | None) -> Iterator[tuple[int, float]]:
    """Yield for each question its category and the share of its evidence that was found in the conversation."""
    with strongroom.open("memory://") as ctx:
        sessions = ctx.sessions if embedder is None else ctx.sessions.using(embedder=embedder)
        session = sessions.open(conversation["id"])
        session.append([message(turn) for turn in conversation["turns"]])
        session.wait()
        for question, category, evidence in answerable(conversation):
            hits = session.search(question, k=K)
            assert hits.degraded is None
            yield category, len(evidence & {hit.message_id for hit in hits}) / len(evidence)


def from_memories(conversation: dict[str, Any], embedder: Embedder | None) -> Iterator[tuple[int, float]]:
    """Yield the same for memories: one for each turn, which says who said what."""
    policy = Policy(review_own=True, max_items=1_000)
    with strongroom.open("memory://") as ctx:
        memories = ctx.memories.using(policy=policy, embedder=embedder)
        facts: list[strongroom.MemoryRequest] = [
            {
                "op": "add",
                "type": "fact",
                "scope": "global",
                "confidence": 1.0,
                "rationale": "said",
                "source_refs": [],
                "memory_id": f"turn-{turn['id']}",
                "content": f"{turn['speaker']}: {shown(turn)}",
            }
            for turn in conversation["turns"]
        ]
        memories.commit(memories.propose(facts, proposer="bench"), reviewer="bench")
        for question, category, evidence in answerable(conversation):
            found = {hit.memory.id.removeprefix("turn-") for hit in memories.search(question, K)}
            yield category, len(evidence & found) / len(evidence)


def answerable(conversation: dict[str, Any]) -> Iterator[tuple[str, int, set[str]]]:
    known = {turn["id"] for turn in conversation["turns"]}
    for question in conversation["questions"]:
        evidence = known.intersection(re.findall(r"D\d+:\d+", " ".join(question["evidence"])))
        if evidence:
            yield question["question"], question.get("category", 0), evidence


def model() -> Embedder | None:
    try:
        return wordllama()
    except Unavailable:
        return None


def message(turn: dict[str, Any]) -> dict[str, Any]:
    """Write a turn as one would in a chat of several people: who speaks, what is said and shown, when."""
    said = {"role": "user", "id": turn["id"], "name": turn["speaker"], "content": shown(turn)}
    return said | ({"timestamp": turn["at"]} if turn.get("at") else {})


def shown(turn: dict[str, Any]) -> str:
    return turn["text"] + (f" [picture: {turn['caption']}]" if turn.get("caption") else "")
