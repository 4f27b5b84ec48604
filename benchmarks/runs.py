"""What do a run's update and event cost, beside the file protocol they replace, re-enacted: a JSON file, jsonschema,
fsync of file and folder?"""

from __future__ import annotations

import copy
import fcntl
import itertools
import json
import os
import random
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

import strongroom
from benchmarks.measuring import Result, compare, figure, pick
from benchmarks.workload import SYNCED
from strongroom import schemas

EVENTS = pick(10_000, 1_000)
UPDATES = pick(10_000, 1_000)
FILES = f"ours: {SYNCED}; theirs: fsync of the file and its folder"


def measure() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        yield updating(Path(folder))
        yield recording(Path(folder))
        yield growing(Path(folder))


class FileRun:
    """The older system's file protocol, step by step, so that both pay for the same promises on the same disk.

    A patch is checked by its schema; the state is read, parsed and checked, copied, patched, weighed (an estimate of
    four characters a token) and checked, then checked once more and written: pretty-printed to a second file, fsync,
    rename, fsync of the folder. It takes no lock. An event is checked by its schema, then, under a lock, gets the
    number after the count of all lines, is appended and fsynced. A validator is made for every check from a schema
    that is kept. What is left out makes this faster than the original, never slower.
    """

    def __init__(self, folder: Path, state: dict[str, Any]) -> None:
        folder.mkdir()
        self._state, self._ledger = folder / "working_set.json", folder / "run.jsonl"
        self._ids = {name: state[name] for name in ("task_id", "thread_id", "run_id")}
        self._schema = schemas.document("working_set")
        self._patch_schema, self._event_schema = patch_schema(), event_schema()
        self._save(state)
        self._ledger.touch()

    def apply_patch(self, expected_seq: int, **fields: Any) -> dict[str, Any]:
        patch = {"_schema_version": "2.1", "expected_seq": expected_seq, "set": fields}
        _validate(self._patch_schema, patch)
        assert self._state.exists()
        current = json.loads(self._state.read_text(encoding="utf-8"))
        _validate(self._schema, current)
        assert current["_update_seq"] == expected_seq
        state: dict[str, Any] = copy.deepcopy(current) | fields
        assert _weight(state) <= 2000  # before it looks what must leave
        assert _weight(state) + _more_weight(state) <= 2000
        _validate(self._schema, state)
        state["_update_seq"] += 1
        _validate(self._schema, state)
        self._save(state)
        return state

    def event(self, type: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {
            "_schema_version": "2.1",
            "event_id": str(uuid.uuid4()),
            "parent_event_id": None,
            "sequence_id": None,
            "event_type": type,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "writer_id": "agent",
            **self._ids,
            "payload": payload,
        }

    def append(self, event: dict[str, Any]) -> None:
        _validate(self._event_schema, event)
        with self._ledger.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            lines = 0
            for _ in file:  # quicker than a sum over a generator
                lines += 1
            event["sequence_id"] = lines + 1
            file.seek(0, os.SEEK_END)
            file.write(json.dumps(event, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def fill(self, type: str, payload: dict[str, Any], events: int) -> None:
        with self._ledger.open("a", encoding="utf-8") as file:
            for number in range(events):
                file.write(json.dumps(self.event(type, payload) | {"sequence_id": number + 1}) + "\n")

    def _save(self, state: dict[str, Any]) -> None:
        partial = self._state.with_suffix(".tmp")
        with partial.open("w", encoding="utf-8") as file:
            file.write(json.dumps(state, ensure_ascii=False, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._state)
        folder = os.open(self._state.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def patch_schema() -> dict[str, Any]:
    """Return the patch schema without a reference to follow, which only costs time."""
    schema = schemas.document("ws_patch")
    return {**schema, "properties": {**schema["properties"], "set": schema["$defs"]["fields"]}}


def event_schema() -> dict[str, Any]:
    """Return the event schema as the older system had it: its ten types, each with the payload it allows."""
    schema = schemas.document("ledger_event")
    types = schema["properties"]["event_type"]["anyOf"][0]["enum"][:10]
    payloads = [{"properties": {"event_type": {"const": name}, "payload": schema["$defs"][name]}} for name in types]
    properties = {**schema["properties"], "event_type": {"enum": types}}
    kept = {name: schema[name] for name in ("type", "required", "additionalProperties")}
    return {**kept, "properties": properties, "allOf": [{"oneOf": payloads}]}


def _validate(schema: dict[str, Any], value: object) -> None:
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    problems = sorted(validator.iter_errors(value), key=lambda problem: problem.path)
    assert not problems, problems


def _weight(state: dict[str, Any]) -> int:
    lines = [state["objective"], *state["acceptance_criteria"], *state["constraints"]]
    lines += [item["content"] for item in state["pinned_context"]]
    return sum(-(-len(line) // 4) for line in lines) + 25


def _more_weight(state: dict[str, Any]) -> int:
    lines = [state["status"], state["current_stage"], state["next_action"], state["last_action_summary"]]
    lines += [*state["blockers"], *[item["content"] for item in state["sliding_context"]]]
    return sum(-(-len(line) // 4) for line in lines) + 6 * len(state["sliding_context"])


def updating(folder: Path) -> Result:
    with strongroom.open(folder / "update.db") as ctx:
        run = ctx.runs.create(objective="measure", constraints=["be fair"])
        files, seqs = FileRun(folder / "update", run.working_set.to_dict()), itertools.count()
        pair = compare(
            lambda: run.update(expected_seq=run.seq, next_action="one more"),
            lambda: files.apply_patch(next(seqs), next_action="one more"),
        )
    return pair.row("runs", "update, against the older file protocol", durability=FILES)


def recording(folder: Path) -> Result:
    payload = {"tool_name": "fetch", "arguments": {"url": "https://example.com/a"}}
    with strongroom.open(folder / "record.db") as ctx:
        run = ctx.runs.create(objective="measure")
        files = FileRun(folder / "record", run.working_set.to_dict())
        files.fill("TOOL_CALL", payload, EVENTS)
        with strongroom.open(folder / "record.db", durability="relaxed") as filling:
            filled = filling.runs.get(run.id)
            for _ in range(EVENTS):
                filled.record("TOOL_CALL", payload)
        pair = compare(
            lambda: run.record("TOOL_CALL", payload), lambda: files.append(files.event("TOOL_CALL", payload))
        )
    name = "record at 10,000 events, against the older file protocol"
    return pair.row("runs", name, durability=FILES, note=f"{EVENTS:,} events here")


def growing(folder: Path) -> Result:
    path = folder / "grow.db"
    rng = random.Random(1)
    items = [{"id": f"i{n}", "content": rng.randbytes(100).hex(), "source_ref": "x"} for n in range(10)]
    criteria = [rng.randbytes(450).hex() for _ in range(20)]
    with strongroom.open(path, durability="relaxed") as ctx:
        run = ctx.runs.create(objective="measure", acceptance_criteria=criteria, config={"ws_max_tokens": 100_000})
        run.update(expected_seq=0, pinned_context=items)
        size = len(json.dumps(run.working_set.to_dict()))
        ctx.store.compact()
        before = path.stat().st_size
        for number in range(UPDATES):
            run.update(expected_seq=run.seq, next_action=f"step {number}")
        for seq in rng.sample(range(2, run.seq), 20):
            assert run.at(seq).next_action == f"step {seq - 2}"
    grown = (path.stat().st_size - before) / 1e6
    note = f"{UPDATES:,} one-field updates of a working set of {size:,} bytes, every version readable"
    return figure("runs", "10,000 updates, megabytes", grown, ours=f"{grown:.1f} MB", note=note, durability=SYNCED)
