"""How often is the evidence for a question among the first hits? Over real conversations, without a model and with.

The conversations are not part of this repository: STRONGROOM_LOCOMO names a JSON file, a list of
{"id", "turns": [{"id", "speaker", "text", "caption", "at"}], "questions": [{"question", "evidence", "category"}]}.
The model is wordllama's table of word vectors, which comes inside its package: nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import Curve, Result, figure, pick
from strongroom.embedders import Embedder
from strongroom.embedders.wordllama import wordllama
from strongroom.errors import Unavailable
from strongroom.services.memories.policy import Policy

K = 10
AT = "%I:%M %p on %d %B, %Y"
KS = (1, 2, 3, 5, 10, 20, 50)
CONVERSATIONS = pick(10**9, 1)
Ranks = list[int | None]  # for each turn that is evidence, at which place among the hits it was, if it was


def measure() -> Iterator[Result | Curve]:
    """Yield the recall over all questions. Without the file there is nothing to measure."""
    path = os.environ.get("STRONGROOM_LOCOMO")
    if not path or not Path(path).exists():
        print("STRONGROOM_LOCOMO names no file of conversations, so there is nothing to measure")
        return
    conversations = json.loads(Path(path).read_text())[:CONVERSATIONS]
    yield from recall(conversations, "words alone", from_session, None)
    yield from recall(conversations, "words alone, as memories", from_memories, None)
    embedder = model()
    if embedder is None:
        print("wordllama is not installed, so there is no figure with a model")
        return
    yield from recall(conversations, "words and wordllama", from_session, embedder)


def recall(
    conversations: list[dict[str, Any]], how: str, look: Callable[..., Iterator[Ranks]], embedder: Embedder | None
) -> Iterator[Result | Curve]:
    found = [ranks for conversation in conversations for ranks in look(conversation, embedder)]
    points = [(float(k), sum(share(ranks, k) for ranks in found) / len(found)) for k in KS]
    note = f"{len(found)} questions, {len(conversations)} conversations"
    at_ten = dict(points)[K]
    name = f"evidence recall@{K}, {how}"
    yield figure("recall", name, at_ten, ours=f"{at_ten:.3f}", durability="a read", note=note)
    yield Curve("recall", how, points)


def share(ranks: Ranks, k: int) -> float:
    """Return the share of the evidence that is among the first k hits."""
    return sum(rank is not None and rank < k for rank in ranks) / len(ranks)


def from_session(conversation: dict[str, Any], embedder: Embedder | None) -> Iterator[Ranks]:
    """Yield for each question where its evidence was found in the conversation."""
    with strongroom.open("memory://") as ctx:
        sessions = ctx.sessions if embedder is None else ctx.sessions.using(embedder=embedder)
        session = sessions.open(conversation["id"])
        session.append([message(turn) for turn in conversation["turns"]])
        session.wait()
        for question, evidence in answerable(conversation):
            hits = session.search(question, k=max(KS))
            assert hits.degraded is None
            yield ranks(evidence, [hit.message_id for hit in hits])


def from_memories(conversation: dict[str, Any], embedder: Embedder | None) -> Iterator[Ranks]:
    """Yield the same for memories: one for each turn, which says who said what, in which sitting, and when."""
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
                "source_refs": [f"session:{conversation['id']}-{turn['id'].partition(':')[0]}"],
                "happened_at": datetime.strptime(turn["at"], AT).replace(tzinfo=UTC),
                "memory_id": f"turn-{turn['id']}",
                "content": f"{turn['speaker']}: {shown(turn)}",
            }
            for turn in conversation["turns"]
        ]
        memories.commit(memories.propose(facts, proposer="bench"), reviewer="bench")
        for question, evidence in answerable(conversation):
            hits = memories.search(question, max(KS))
            yield ranks(evidence, [hit.memory.id.removeprefix("turn-") for hit in hits])


def ranks(evidence: set[str], found: list[str]) -> Ranks:
    return [found.index(turn) if turn in found else None for turn in sorted(evidence)]


def answerable(conversation: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    known = {turn["id"] for turn in conversation["turns"]}
    for question in conversation["questions"]:
        evidence = known.intersection(re.findall(r"D\d+:\d+", " ".join(question["evidence"])))
        if evidence:
            yield question["question"], evidence


def model() -> Embedder | None:
    try:
        return wordllama()
    except Unavailable:
        return None


def message(turn: dict[str, Any]) -> Any:
    """Write a turn as one would in a chat of several people: who speaks, what is said and shown, when."""
    said = {"role": "user", "id": turn["id"], "name": turn["speaker"], "content": shown(turn)}
    return said | ({"timestamp": turn["at"]} if turn.get("at") else {})


def shown(turn: dict[str, Any]) -> str:
    return str(turn["text"]) + (f" [picture: {turn['caption']}]" if turn.get("caption") else "")
