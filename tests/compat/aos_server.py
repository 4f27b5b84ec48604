"""The HTTP API of AoS in this process, and what is asked of it again and again."""

from __future__ import annotations

import warnings
from typing import Any

from strongroom.compat.aos_context.api import main
from tests.compat.aos_samples import lines_of, patch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # which HTTP client the test client should prefer is not our business
    from starlette.testclient import TestClient

__all__ = ["TestClient", "events", "main", "propose", "step"]


def step(client: TestClient, run_id: str, expected_seq: int, **fields: Any) -> Any:
    return client.post(f"/runs/{run_id}/step/update", json={"patch": patch(expected_seq, **fields)})


def propose(client: TestClient, run_id: str, *mcrs: dict[str, Any]) -> str:
    answer = client.post(f"/runs/{run_id}/memory/propose", json={"mcrs": list(mcrs), "scope_filters": {}}).json()
    assert answer["ok"], answer
    found: str = answer["batch_id"]
    return found


def events(run_id: str) -> list[str]:
    return [line["event_type"] for line in lines_of(main.RUNS_ROOT / run_id / "ledger" / "run.v2.1.jsonl")]
