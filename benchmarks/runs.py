"""Runs beside the file protocol they replace, re-enacted: a JSON file, jsonschema, fsync of file and folder."""

from __future__ import annotations

import fcntl
import json
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holdfast
from benchmarks.measuring import Result, duel, micro
from holdfast import schemas

EVENTS = 10_000
UPDATES = 10_000


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        yield updating(Path(folder))
        yield recording(Path(folder))
        yield growing(Path(folder))


class FileRun:
    """A working set as one JSON file, replaced whole; a ledger as JSON lines whose next number is found by reading."""

    def __init__(self, folder: Path, state: dict[str, Any]) -> None:
        import jsonschema

        folder.mkdir()
        self._state, self._ledger = folder / "working_set.json", folder / "run.jsonl"
        self._validate = jsonschema.Draft202012Validator(schemas.document("working_set")).validate
        self._check_event = jsonschema.Draft202012Validator(EVENT).validate
        self._save(state)
        self._ledger.touch()

    def update(self, **fields: Any) -> None:
        state = json.loads(self._state.read_text())
        self._validate(state)
        state |= fields
        state["_update_seq"] += 1
        self._validate(state)
        self._save(state)

    def append(self, payload: dict[str, Any]) -> None:
        with self._ledger.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            event = {"sequence_id": sum(1 for _ in file) + 1, "event_type": "TOOL_CALL", "payload": payload}
            self._check_event(event)
            file.seek(0, os.SEEK_END)
            file.write(json.dumps(event) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _save(self, state: dict[str, Any]) -> None:
        partial = self._state.with_suffix(".tmp")
        with partial.open("w") as file:
            json.dump(state, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._state)
        folder = os.open(self._state.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


EVENT = {
    "type": "object",
    "required": ["sequence_id", "event_type", "payload"],
    "properties": {"sequence_id": {"type": "integer", "minimum": 1}, "event_type": {"type": "string"}},
}


def updating(folder: Path) -> Result:
    with holdfast.open(folder / "update.db") as ctx:
        run = ctx.runs.create(objective="measure", constraints=["be fair"])
        files = FileRun(folder / "update", run.working_set.to_dict())
        ours, theirs = duel(
            lambda: run.update(expected_seq=run.seq, next_action="one more"),
            lambda: files.update(next_action="one more"),
            200,
        )
    return Result(
        "update", theirs / ours, 3, ours=micro(ours), peer=micro(theirs), note="against apply_patch's protocol"
    )


def recording(folder: Path) -> Result:
    payload = {"tool_name": "fetch", "arguments": {"url": "https://example.com/a"}}
    with holdfast.open(folder / "record.db") as ctx:
        run = ctx.runs.create(objective="measure")
        files = FileRun(folder / "record", run.working_set.to_dict())
        line = json.dumps({"sequence_id": 1, "event_type": "TOOL_CALL", "payload": payload}) + "\n"
        (folder / "record" / "run.jsonl").write_text(line * EVENTS)
        with holdfast.open(folder / "record.db", durability="relaxed") as filling:
            filled = filling.runs.get(run.id)
            for _ in range(EVENTS):
                filled.record("TOOL_CALL", payload)
        ours, theirs = duel(lambda: run.record("TOOL_CALL", payload), lambda: files.append(payload), 100)
    return Result(f"record at {EVENTS:,} events", theirs / ours, 10, ours=micro(ours), peer=micro(theirs))


def growing(folder: Path) -> Result:
    path = folder / "grow.db"
    rng = random.Random(1)
    items = [{"id": f"i{n}", "content": rng.randbytes(100).hex(), "source_ref": "x"} for n in range(10)]
    criteria = [rng.randbytes(450).hex() for _ in range(20)]
    with holdfast.open(path, durability="relaxed") as ctx:
        run = ctx.runs.create(objective="measure", acceptance_criteria=criteria, config={"ws_max_tokens": 100_000})
        run.update(expected_seq=0, pinned_context=items)
        size = len(json.dumps(run.working_set.to_dict()))
        ctx.store.compact()  # type: ignore[attr-defined]
        before = path.stat().st_size
        for number in range(UPDATES):
            run.update(expected_seq=run.seq, next_action=f"step {number}")
        for seq in rng.sample(range(2, run.seq), 20):
            assert run.at(seq).next_action == f"step {seq - 2}"
    grown = (path.stat().st_size - before) / 1e6
    note = f"{UPDATES:,} one-field updates of a working set of {size:,} bytes, every version readable"
    return Result("growth in MB", grown, 10, at_most=True, ours=f"{grown:.1f} MB", note=note)
