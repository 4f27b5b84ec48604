"""How often the evidence for a question is among the first ten hits, over real conversations, without a model and with.

The conversations are not part of this repository: STRONGROOM_LOCOMO names a JSON file, a list of
{"id", "turns": [{"id", "speaker", "text", "caption"}], "questions": [{"question", "evidence": [turn ids]}]}.
The model is wordllama's table of word vectors, which comes inside its package: nothing is downloaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import strongroom
from benchmarks.measuring import Result
from strongroom.embedders import Embedder

K = 10
WANTED = 0.70


def measure() -> Iterator[Result]:
    """Yield the recall over all questions. Without the file there is nothing to measure."""
    path = os.environ.get("STRONGROOM_LOCOMO")
    if not path or not Path(path).exists():
        print("  locomo: STRONGROOM_LOCOMO names no file of conversations, so there is nothing to measure")
        return
    conversations = json.loads(Path(path).read_text())
    yield recall(conversations, "words only", None)
    embedder = model()
    if embedder is None:
        print("  locomo: wordllama is not installed, so there is no figure with a model")
        return
    yield recall(conversations, "words and a model", embedder)


def recall(conversations: list[dict[str, Any]], how: str, embedder: Embedder | None) -> Result:
    found = [share for conversation in conversations for share in recalls(conversation, embedder)]
    note = f"{len(found)} questions, {len(conversations)} conversations"
    return Result(f"LoCoMo evidence recall@{K}, {how}", sum(found) / len(found), WANTED, note=note)


def recalls(conversation: dict[str, Any], embedder: Embedder | None) -> Iterator[float]:
    """Yield for each question the share of its evidence that was found."""
    with strongroom.open("memory://") as ctx:
        sessions = ctx.sessions if embedder is None else ctx.sessions.using(embedder=embedder)
        session = sessions.open(conversation["id"])
        session.append([message(turn) for turn in conversation["turns"]])
        session.wait()
        known = {turn["id"] for turn in conversation["turns"]}
        for question in conversation["questions"]:
            evidence = known.intersection(question["evidence"])
            if evidence:
                hits = session.search(question["question"], k=K)
                assert hits.degraded is None
                yield len(evidence & {hit.message_id for hit in hits}) / len(evidence)


def model() -> Embedder | None:
    try:
        import wordllama
    except ImportError:
        return None
    # Its own default looks for the files where the package does not put them, and then for the network.
    loaded = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return Embedder(loaded.embed, name="wordllama")


def message(turn: dict[str, Any]) -> dict[str, Any]:
    """Write a turn as one would in a chat of several people: who speaks, what is said, what a picture shows."""
    picture = f" [picture: {turn['caption']}]" if turn.get("caption") else ""
    return {"role": "user", "id": turn["id"], "content": f"{turn['speaker']}: {turn['text']}{picture}"}
