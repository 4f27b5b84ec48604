"""The operations that must not get slower, through nothing but public names, so that an older tree has them too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import strongroom
from benchmarks.workload import BUDGET, message, messages
from strongroom.codec import encode
from strongroom.store import Append, Commit, Entry, Key, new_id

LENGTH = 2_000
EVENT = {"tool_name": "fetch", "arguments": {"url": "https://example.com/a"}}


@contextmanager
def operations(path: str) -> Iterator[dict[str, Callable[[], object]]]:
    key, body, numbers = Key("bench", "stream", "one"), encode({"v": "x" * 290}), count()
    with strongroom.open(path) as ctx, strongroom.open("memory://") as in_process:
        session, run = ctx.sessions.open("s"), ctx.runs.create(objective="measure")
        session.append(messages(0, LENGTH))
        session.search("lake", k=1)
        said: Any = message(1)

        def propose_and_commit() -> None:
            request: Any = {
                "op": "add", "type": "fact", "scope": "global", "confidence": 0.9, "source_refs": [],
                "rationale": "measured", "content": f"{said['content']} {next(numbers)}",
            }  # fmt: skip
            ctx.memories.commit(ctx.memories.propose([request], proposer="a").id, reviewer="b")

        yield {
            "session.append": lambda: session.append([said]),
            "session.window": lambda: session.window(max_tokens=BUDGET),
            "session.search": lambda: session.search("swimming with cousins", k=10),
            "run.update": lambda: run.update(expected_seq=run.seq, next_action="one more"),
            "run.record": lambda: run.record("TOOL_CALL", EVENT),
            "memories.propose + commit": propose_and_commit,
            "a slot in process": lambda: in_process.threads.append("t", said, from_id="a", to_id="b"),
            "a commit of the store": lambda: ctx.store.commit(
                Commit(new_id(), (), (Append(key, (Entry("note", body),)),))
            ),
        }
