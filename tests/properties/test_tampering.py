"""Tampering: whatever is done to a stored ledger, `verify` names the exact first event that is wrong.

`STRONGROOM_TAMPERINGS=10000` runs the long campaign.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import strongroom
from strongroom.backends.memory import MemoryStore, Stream, link
from strongroom.codec import Json, trusted
from strongroom.services.runs import verifying
from strongroom.store import Key, Record
from strongroom.values import Head

COUNT = int(os.environ.get("STRONGROOM_TAMPERINGS", "400"))
LENGTH = 14


def make() -> tuple[strongroom.Context, Any, Stream, Stream, Head]:
    ctx = strongroom.open("memory://")
    run, other = (ctx.runs.create(objective=name, run_id=name) for name in ("mine", "other"))
    for each in (run, other):
        for place in range(LENGTH - 3):
            if place % 3:
                each.record(
                    "TOOL_CALL", {"tool_name": f"t{place}", "arguments": {"n": place}}, actor="ana", parent="evt_1"
                )
            else:
                each.update(next_action=f"step {place}")
        each.milestone("m")
        each.update(status="DONE")
    return ctx, run, stream(ctx, "mine"), stream(ctx, "other"), run.head()


def stream(ctx: Any, run_id: str) -> Stream:
    store = ctx.store
    assert isinstance(store, MemoryStore)
    found = store._things[Key("default", "ledger", run_id)]
    assert isinstance(found, Stream)
    return found


def replaced(record: Record, **changes: Any) -> Record:
    return msgspec.structs.replace(record, **changes)


def edited(body: Json | None, rng: random.Random) -> Json:
    assert body is not None
    raw = bytearray(body)
    place = rng.randrange(len(raw))
    raw[place] = (raw[place] + rng.randrange(1, 255)) % 256
    return trusted(bytes(raw))


def tamper(how: str, mine: Stream, other: Stream, rng: random.Random) -> int:
    """Do something to the ledger; return the sequence id of the first event that is no longer as it was."""
    records = mine.records
    place = rng.randrange(len(records))
    record = records[place]
    if how == "edit the body":
        records[place] = replaced(record, body=edited(record.body, rng))
    elif how == "edit the type":
        records[place] = replaced(record, type="ERROR" if record.type != "ERROR" else "TOOL_CALL")
    elif how == "edit the time":
        records[place] = replaced(record, at=record.at + rng.choice([-1, 1, 3600_000_000]))
    elif how == "edit the commitment":
        records[place] = replaced(record, commitment=rng.randbytes(32))
    elif how == "edit the chain":
        records[place] = replaced(record, chain=rng.randbytes(32))
    elif how == "drop the hashes":
        records[place] = replaced(record, commitment=None, chain=None)
    elif how == "blank it":
        records[place] = replaced(record, body=None)
    elif how == "add a column":
        records[place] = replaced(record, text="x") if rng.random() < 0.5 else replaced(record, sender="x")
    elif how == "edit the weight":
        records[place] = replaced(record, weight=1)
    elif how == "delete in the middle":
        place = rng.randrange(len(records) - 1)
        del records[place]
        records[:] = [replaced(kept, index=index) for index, kept in enumerate(records)]
    elif how == "insert a copy":
        records.insert(place, records[rng.randrange(len(records))])
        records[:] = [replaced(kept, index=index) for index, kept in enumerate(records)]
        if records[place].commitment == record.commitment:  # a copy of itself: the one after it is too many
            place += 1
    elif how == "swap two":
        second = rng.choice([index for index in range(len(records)) if index != place])
        records[place], records[second] = (
            replaced(records[second], index=place),
            replaced(records[place], index=second),
        )
        place = min(place, second)
    elif how == "splice from another run":
        records[place] = other.records[place]
    elif how == "splice and mend the chain":
        records[place] = other.records[place]
        _mend(mine, place)
    elif how == "edit and mend the chain":
        later = records[(place + 1) % len(records)]
        records[place] = replaced(record, body=later.body)
        _mend(mine, place)
    elif how == "cut the tail":
        place = rng.randrange(1, len(records))
        del records[place:]
    return place + 1


def _mend(mine: Stream, place: int) -> None:
    for index in range(place, len(mine.records)):
        before = mine.records[index - 1].chain if index else None
        kept = mine.records[index]
        mine.records[index] = replaced(kept, chain=link(before, kept.commitment))


WAYS = (
    "edit the body",
    "edit the type",
    "edit the time",
    "edit the commitment",
    "edit the chain",
    "drop the hashes",
    "blank it",
    "add a column",
    "edit the weight",
    "delete in the middle",
    "insert a copy",
    "swap two",
    "splice from another run",
    "splice and mend the chain",
    "edit and mend the chain",
    "cut the tail",
)


@pytest.mark.parametrize("how", WAYS)
def test_the_exact_first_bad_event_is_named(how: str) -> None:
    _, run, mine, other, head = make()
    whole, rng = list(mine.records), random.Random(how)
    assert run.verify(head=head).ok
    for _ in range(max(1, COUNT // len(WAYS))):
        first_bad = tamper(how, mine, other, rng)
        found = run.verify(head=head)
        assert (found.ok, found.first_bad) == (False, first_bad), (how, found)
        mine.records[:] = whole
    assert run.verify(head=head).ok


def test_a_rewritten_ledger_is_caught_by_a_head_that_was_kept() -> None:
    ctx, run, mine, other, head = make()
    mine.records[:] = other.records
    assert not run.verify(head=head).ok
    del ctx


def test_an_altered_working_set_does_not_agree_with_the_ledger() -> None:
    ctx, run, _, _, _ = make()
    store = ctx.store
    assert isinstance(store, MemoryStore)
    document: Any = store._things[Key("default", "run", "mine")]
    document.value = trusted(bytes(document.value).replace(b'"DONE"', b'"BUSY"'))
    found = run.verify()
    assert (found.ok, found.first_bad) == (False, None)
    assert "working set" in found.reason


def test_a_checker_that_skips_the_content_would_miss_an_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: without recomputing commitments, an edited body passes."""
    _, run, mine, _, _ = make()
    mine.records[2] = replaced(mine.records[2], body=mine.records[3].body)
    assert run.verify().first_bad == 3
    believed = iter([record.commitment for record in mine.records])
    monkeypatch.setattr(verifying, "commitment", lambda *parts: next(believed))
    assert run.verify().ok


@pytest.mark.parametrize(
    ("sql", "first_bad"),
    [
        ("UPDATE record SET body = CAST(body || ' ' AS BLOB) WHERE pos & 0xffff = 4", 5),
        ("UPDATE record SET type = 'ERROR' WHERE pos & 0xffff = 2", 3),
        ("DELETE FROM record WHERE pos & 0xffff = 6", 7),
        ("DELETE FROM record WHERE pos & 0xffff >= 5", 6),
        ("UPDATE record SET body = NULL WHERE pos & 0xffff = 3", 4),
    ],
)
def test_a_file_edited_by_hand_is_caught(tmp_path: Path, sql: str, first_bad: int) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        run = ctx.runs.create(objective="o", run_id="r")
        for place in range(10):
            run.update(next_action=f"step {place}")
        head = run.head()
    con = apsw.Connection(str(tmp_path / "agent.db"))
    con.execute(sql)
    con.close()
    with strongroom.open(tmp_path / "agent.db") as ctx:
        found = ctx.runs.get("r").verify(head=head)
    assert (found.ok, found.first_bad) == (False, first_bad)
