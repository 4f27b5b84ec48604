"""Sealed heads: a ledger that was written anew, with every hash right, does not go through what was kept elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import strongroom
from strongroom.blocking import Context
from strongroom.errors import Damaged, InvalidInput, NotFound, Unavailable
from strongroom.files import add_line, read_lines
from strongroom.services.runs import verifying

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PRIVATE, PUBLIC = KEY.private_bytes_raw(), KEY.public_key().public_bytes_raw()
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32)).private_bytes_raw()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "anchors.jsonl"


@pytest.fixture
def here() -> Iterator[Context]:
    with strongroom.open("memory://") as ctx:
        yield ctx


def paid(ctx: Context, amount: int, more: int = 2) -> Any:
    """Return a run that says what was paid: what somebody with the file could write in place of another."""
    run = ctx.runs.create(objective="Pay the bill", run_id="r")
    run.record("TOOL_CALL", {"tool_name": "pay", "arguments": {"amount": amount}})
    for place in range(more):
        run.update(next_action=f"step {place}")
    return run


async def test_a_ledger_goes_through_its_own_anchors(ctx: Any, file: Path) -> None:
    run = await ctx.runs.create(objective="o")
    first = await run.anchor(file)
    await run.update(status="BUSY")
    second = await run.anchor(file)
    await run.update(status="IDLE")
    found = await run.verify(anchors=file)
    assert (found.ok, found.anchored, found.note) == (True, 2, "")
    assert (await run.verify(anchors=[first, second])).ok


def test_no_anchor_is_added_to_what_holds_none(tmp_path: Path) -> None:
    with strongroom.open(tmp_path / "agent.db") as ctx:
        run = paid(ctx, 100)
        with pytest.raises(InvalidInput, match="is there already, is no file of this kind and would be damaged"):
            run.anchor(tmp_path / "agent.db")


def test_a_ledger_that_was_written_anew_does_not(here: Context, file: Path) -> None:
    paid(here, 1_000_000).anchor(file)
    with strongroom.open("memory://") as forged:
        run = paid(forged, 0)
        assert run.verify().ok  # a chain without a key
        found = run.verify(anchors=file)
    assert (found.ok, found.field, found.first_bad) == (False, "ledger", 4)


def test_nor_does_one_whose_end_was_cut_off(here: Context, file: Path) -> None:
    run = paid(here, 1)
    run.anchor(file)
    line = {**json.loads(file.read_text()), "length": 9}
    file.write_text(json.dumps(line) + "\n")
    found = run.verify(anchors=file)
    assert (found.ok, found.first_bad) == (False, 5) and "9 events long" in found.reason


def test_anchors_of_other_runs_and_spaces_vouch_for_nothing(here: Context, file: Path) -> None:
    here.runs.create(objective="o").anchor(file)
    found = paid(here, 1).verify(anchors=file)
    assert (found.ok, found.field, found.anchored) == (False, "anchors", 0)
    with strongroom.open("memory://", space="another") as ctx:
        paid(ctx, 1).anchor(file)
    assert here.runs.get("r").verify(anchors=file).field == "anchors"


def test_a_line_tells_whose_head_it_is_and_when(here: Context, file: Path) -> None:
    run = paid(here, 1)
    run.anchor(file)
    told = json.loads(file.read_text())
    head = run.head()
    assert (told["space"], told["run"], told["length"], told["chain"]) == ("default", "r", head.length, head.chain)
    assert told["time"].endswith("Z") and told["signature"] is None


def test_a_signed_anchor_is_held_against_the_key(here: Context, file: Path) -> None:
    run = paid(here, 1)
    run.anchor(file, signing_key=PRIVATE)
    assert run.verify(anchors=file, public_key=PUBLIC).ok
    assert run.verify(anchors=file).ok


@pytest.mark.parametrize("how", ["not signed", "signed by another key", "signature is not valid"])
def test_an_anchor_that_the_key_does_not_vouch_for_is_named(here: Context, file: Path, how: str) -> None:
    run = paid(here, 1)
    run.anchor(file, signing_key={"not signed": None, "signed by another key": OTHER}.get(how, PRIVATE))
    if how == "signature is not valid":
        told = json.loads(file.read_text())
        run.update(next_action="go on")
        head = run.head()
        file.write_text(json.dumps({**told, "length": head.length, "chain": head.chain}) + "\n")
    found = run.verify(anchors=file, public_key=PUBLIC)
    assert (found.ok, found.field) == (False, "anchors") and how in found.reason


def test_a_signature_of_a_pack_is_none_of_an_anchor(here: Context, file: Path) -> None:
    from strongroom.services.packs import signing

    run = paid(here, 1)
    told = json.loads(json.dumps({**_unsigned(run.anchor())}))
    file.write_text(json.dumps({**told, "signature": signing.sign(told, PRIVATE)}) + "\n")
    assert "not valid" in run.verify(anchors=file, public_key=PUBLIC).reason


def _unsigned(anchor: Any) -> dict[str, Any]:
    return {name: getattr(anchor, name) for name in ("space", "run", "length", "chain", "time")}


def test_a_public_key_without_anchors_is_refused(here: Context) -> None:
    with pytest.raises(InvalidInput, match="give those too"):
        paid(here, 1).verify(public_key=PUBLIC)
    with pytest.raises(NotFound):
        here.runs.get("r").verify(anchors="nowhere.jsonl")


def test_an_erased_run_still_goes_through_its_anchors(here: Context, file: Path) -> None:
    run = paid(here, 1)
    run.anchor(file)
    here.runs.erase("r", reason="asked to")
    assert run.verify(anchors=file).ok


def test_a_restored_run_goes_through_the_anchors_it_had(here: Context, file: Path, tmp_path: Path) -> None:
    run = paid(here, 1)
    run.anchor(file)
    run.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as elsewhere:
        assert elsewhere.runs.restore(tmp_path / "pack.zip").verify(anchors=file).ok


async def test_every_milestone_can_be_anchored(ctx: Any, file: Path) -> None:
    done = ctx.runs.anchor_milestones(file, signing_key=PRIVATE)
    if done is not None:  # over a blocking context the test sees everything as awaitable
        await done
    run = await ctx.runs.create(objective="o", config={"milestone_step_cap": 2})
    await run.milestone("by hand")
    await run.update(status="BUSY")
    await run.update(status="IDLE")  # and one by itself
    assert [json.loads(line)["length"] for line in read_lines(file)] == [2, 5]
    assert (await run.verify(anchors=file, public_key=PUBLIC)).ok


def test_a_milestone_whose_head_is_damaged_says_that_it_was_made(
    here: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: Any) -> Any:
        raise Damaged("event 1 is not what was written", reason="checksum")

    here.runs.anchor_milestones(tmp_path / "anchors.jsonl")
    run = paid(here, 1)
    monkeypatch.setattr(verifying, "head", broken)
    with pytest.raises(Damaged, match="the milestone was made; its anchor was not: event 1") as told:
        run.milestone("m")
    assert (told.value.reason, len(run.episodes())) == ("checksum", 1)


def test_a_milestone_whose_anchor_cannot_be_written_says_so(here: Context, tmp_path: Path) -> None:
    here.runs.anchor_milestones(tmp_path / "no" / "folder.jsonl")
    run = paid(here, 1)
    with pytest.raises(Unavailable, match="the milestone was made; its anchor was not"):
        run.milestone("m", commit_id="c")
    assert len(run.episodes()) == 1
    here.runs.anchor_milestones(tmp_path / "anchors.jsonl")
    run.milestone("m", commit_id="c")
    assert len(run.episodes()) == 1 and run.verify(anchors=tmp_path / "anchors.jsonl").ok


# ---- the file -------------------------------------------------------------------------------------------------------


def test_a_line_torn_anywhere_is_left_out_and_told(here: Context, file: Path) -> None:
    run = paid(here, 1)
    run.anchor(file)
    whole = file.read_bytes()
    for cut in range(1, len(whole) - 1):
        file.write_bytes(whole + whole[:cut])
        assert (run.verify(anchors=file).ok, run.verify(anchors=file).anchored) == (True, 4)
        assert "line 2 of the anchors is torn" in run.verify(anchors=file).note
        run.anchor(file)
        lines = list(read_lines(file))
        assert len(lines) == 3 and json.loads(lines[2])["length"] == 4


WRITER = """
import sys
from strongroom.files import add_line
for number in range(1_000_000):
    add_line(sys.argv[1], b'{"number":%d}' % number)
    print(number, flush=True)
"""


def test_a_killed_writer_loses_no_line_that_was_acknowledged(file: Path) -> None:
    for _ in range(3):
        file.unlink(missing_ok=True)
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE) for _ in range(2)
        ]
        told = [int(_last(writer, 20)) for writer in writers]
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.communicate()
        add_line(file, b'{"number":-1}')
        numbers = [json.loads(line)["number"] for line in read_lines(file) if line.endswith(b"}")]
        assert numbers[-1] == -1
        assert all(numbers.count(number) == 2 for number in range(min(told) + 1))


def _last(writer: subprocess.Popen[bytes], count: int) -> bytes:
    assert writer.stdout is not None
    return [writer.stdout.readline() for _ in range(count)][-1]
