"""Several workers on one run: nobody overwrites anybody, and every finding is counted once.

python examples/several_workers.py [http://127.0.0.1:8000]
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from serving import server

import strongroom

WORKERS = 4
FINDINGS_EACH = 5


def work(url: str, run_id: str, worker: int) -> int:
    """One worker, with a connection of its own, as if on a machine of its own."""
    conflicts = 0
    with strongroom.connect(url, key=os.environ.get("STRONGROOM_API_KEY")) as ctx:
        run = ctx.runs.get(run_id, actor=f"worker-{worker}")
        for number in range(FINDINGS_EACH):
            # Appending to a list commutes: no worker can be too late.
            run.update(append={"blockers": [f"finding {worker}.{number}"]})
            # Deciding from what is there does not: whoever was overtaken looks again and decides anew.
            while True:
                try:
                    done = int(run.refresh().last_action_summary or 0)
                    run.update(last_action_summary=str(done + 1))
                    break
                except strongroom.Conflict:
                    conflicts += 1
    return conflicts


def main(url: str) -> None:
    with strongroom.connect(url, key=os.environ.get("STRONGROOM_API_KEY")) as ctx:
        run = ctx.runs.create(objective="Find things together", config={"ws_max_tokens": 20_000})
        with ThreadPoolExecutor(WORKERS) as pool:
            conflicts = list(pool.map(lambda worker: work(url, run.id, worker), range(WORKERS)))
        state = run.refresh()
        print(f"{WORKERS} workers, {len(state.blockers)} findings, {state.last_action_summary} counted")
        print(f"{sum(conflicts)} conflicts were noticed and resolved; ledger verified: {run.verify().ok}")
        assert len(set(state.blockers)) == int(state.last_action_summary) == WORKERS * FINDINGS_EACH


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with server() as own:
            main(own)
