"""An agent's loop over HTTP: boot, fetch, update, handle a conflict, propose, commit, snapshot.

python examples/agent_loop.py                          # starts a server of its own
python examples/agent_loop.py http://127.0.0.1:8000    # uses yours; STRONGROOM_API_KEY is the key, if it needs one
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from serving import server

import strongroom

PLAN = ["search for sources", "read them", "write a summary"]


def main(url: str) -> None:
    with (
        strongroom.connect(url, key=os.environ.get("STRONGROOM_API_KEY")) as ctx,
        tempfile.TemporaryDirectory() as folder,
    ):
        run = ctx.runs.create(
            objective="Research the history of AI",
            acceptance_criteria=["Findings documented", "Sources cited"],
            constraints=["Use reliable sources"],
        )
        print(f"booted {run.id} at seq {run.seq}")

        for step in PLAN:
            run.update(status="BUSY", next_action=step)
            run.record("TOOL_CALL", {"tool_name": step.split()[0], "arguments": {"step": step}})
            run.record("TOOL_RESULT", {"tool_name": step.split()[0], "ok": True})
            print(f"seq {run.seq}: {step}")

        # Somebody else changes the run. Our next update rests on what we saw before, and is refused.
        ctx.runs.get(run.id).update(status="PAUSED", next_action="wait for a human")
        try:
            run.update(status="DONE")
        except strongroom.Conflict as lost:
            print(f"conflict: we saw {lost.expected}, it is at {lost.actual}; looking again")
            run.refresh()
            run.update(status="DONE", next_action="")

        batch = ctx.memories.propose(
            [
                {
                    "_schema_version": "2.1",
                    "op": "add",
                    "type": "fact",
                    "scope": "global",
                    "content": "The name artificial intelligence was proposed in 1955",
                    "confidence": 0.9,
                    "rationale": "stands in the proposal of the Dartmouth workshop",
                    "source_refs": [f"run:{run.id}"],
                }
            ],
            proposer=f"agent:{run.id}",
        )
        print(f"proposed {batch.id}; found before the review: {len(ctx.memories.search('artificial intelligence'))}")
        ctx.memories.commit(batch.id, reviewer="ana")
        print(f"committed; found now: {len(ctx.memories.search('artificial intelligence'))}")

        pack = run.export(Path(folder) / "pack.zip")
        print(f"snapshot {pack.pack_id}, {pack.head.length} events, verified: {run.verify().ok}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with server() as own:
            main(own)
