"""Resume packs: a whole run out and in again, signed or not."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import strongroom
from strongroom.errors import Conflict, InvalidInput, NotFound
from strongroom.services.runs.working_set import initial
from strongroom.values import Head
from tests.services.pack_files import contents, mended, write
from tests.services.test_episodes import REQUEST

LARGE = b"0123456789abcdef" * 120_000


async def busy(ctx: Any, run_id: str = "r") -> Any:
    run = await ctx.runs.create(objective="Build it", run_id=run_id, acceptance_criteria=["works"])
    await run.update(status="BUSY", next_action="one")
    await run.record("TOOL_CALL", {"tool_name": "fetch", "arguments": {"n": 1.5}}, actor="bot", parent="evt_2")
    await run.attach(LARGE, type="page", path="page.html")
    await run.milestone("half way", next_entry_point="two")
    await run.update(next_action="two")
    return run


async def bytes_of(run: Any, artifact_id: str) -> bytes:
    return b"".join([chunk async for chunk in run.artifact(artifact_id)])


def facts(events: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(told.sequence_id, told.event_id, told.type, told.payload, told.actor, told.at) for told in events]


# ---- out and in again -----------------------------------------------------------------------------------------------


async def test_a_run_comes_back_whole_under_another_id(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    events = facts(await run.events())
    await run.export(tmp_path / "pack.zip")
    back = await ctx.runs.restore(tmp_path / "pack.zip", run_id="back")
    assert back.working_set.to_dict() == {**run.working_set.to_dict(), "run_id": "back"}
    assert facts(await back.events())[:-1] == events
    assert (await back.events())[-1].payload["run_id"] == "r"
    assert [made.reason for made in await back.episodes()] == ["half way"]
    assert await bytes_of(back, back.working_set.artifact_refs[0].id) == LARGE
    assert (await back.at(1)).next_action == "one"
    assert (await back.verify()).ok


async def test_the_same_run_in_another_store_has_the_same_chain(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    kept = await run.head()
    pack = await run.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as other:
        found = other.runs.restore(tmp_path / "pack.zip").verify(head=kept)
    assert found.ok
    assert pack.head == kept


async def test_export_restore_export_is_identical_but_for_the_restoring(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "one.zip")
    with strongroom.open("memory://") as other:
        other.runs.restore(tmp_path / "one.zip").export(tmp_path / "two.zip")
    one, two = contents(tmp_path / "one.zip"), contents(tmp_path / "two.zip")
    assert one.keys() == two.keys()
    assert two.pop("run.jsonl").startswith(one.pop("run.jsonl"))
    del one["manifest.json"], two["manifest.json"]
    assert one == two


async def test_the_same_run_gives_the_same_bytes(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "one.zip")
    restored = []
    for place in ("a", "b"):
        with strongroom.open("memory://") as other:
            back = other.runs.restore(tmp_path / "one.zip")
            back.export(tmp_path / f"{place}.zip")
            restored.append(contents(tmp_path / f"{place}.zip")["working_set.json"])
    assert restored[0] == restored[1]


async def test_a_restored_run_goes_on_and_packs_again(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "pack.zip")
    back = await ctx.runs.restore(tmp_path / "pack.zip", run_id="back")
    await back.update(next_action="three")
    await back.milestone("later")
    await back.export(tmp_path / "again.zip")
    third = await ctx.runs.restore(tmp_path / "again.zip", run_id="third")
    assert (third.working_set.next_action, len(await third.episodes())) == ("three", 2)
    assert (await third.at(1)).next_action == "one"
    assert (await third.verify()).ok


async def test_an_erased_run_travels_erased(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await ctx.runs.erase("r", reason="asked to")
    await run.export(tmp_path / "pack.zip")
    back = await ctx.runs.restore(tmp_path / "pack.zip", run_id="back")
    assert (await back.verify()).ok
    assert [told.erased for told in await back.events()][:3] == [True] * 3


async def test_an_existing_run_is_not_overwritten(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "pack.zip")
    await run.update(next_action="newer")
    with pytest.raises(Conflict):
        await ctx.runs.restore(tmp_path / "pack.zip")
    assert (await ctx.runs.get("r")).working_set.next_action == "newer"


async def test_a_pack_that_is_not_there_is_not_found(ctx: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await ctx.runs.restore(tmp_path / "nothing.zip")


async def test_an_export_is_complete_or_not_there(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    with pytest.raises(InvalidInput):
        await run.export(tmp_path / "pack.zip", signing_key=b"too short")
    assert list(tmp_path.glob("*.zip")) == list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize("whole", [False, True], ids=["a run", "everything"])
async def test_an_export_takes_the_place_of_a_pack_and_of_nothing_else(ctx: Any, tmp_path: Path, whole: bool) -> None:
    run, note = await busy(ctx), tmp_path / "note.txt"
    note.write_text("of mine")
    export = ctx.export if whole else run.export
    with pytest.raises(InvalidInput, match=r"is there already, is no file of this kind.* \(nothing was written\)"):
        await export(note)
    assert note.read_text() == "of mine"
    for key in (None, "a passphrase", None):
        await export(tmp_path / "pack.zip", key=key)


async def test_a_manifest_that_nobody_would_take_back_is_not_exported(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    with pytest.raises(InvalidInput, match=r"a manifest of a pack holds at most .*; nothing exported"):
        await run.export(tmp_path / "r.zip", pointers={"x": "y" * 17_000_000})
    assert not [*tmp_path.glob("*.zip*")]


async def test_the_older_format_of_two_files_is_accepted(ctx: Any, tmp_path: Path) -> None:
    state = {**initial(run_id="old", task_id="t", thread_id="th", objective="o"), "_update_seq": 7}
    line = {
        "_schema_version": "2.1",
        "event_id": "e-1",
        "parent_event_id": None,
        "sequence_id": 5,
        "event_type": "WS_UPDATE_APPLIED",
        "timestamp": "2026-01-01T10:00:00+02:00",
        "writer_id": "w",
        "task_id": "t",
        "thread_id": "th",
        "run_id": "old",
        "payload": {"new_seq": 7},
    }
    with zipfile.ZipFile(tmp_path / "old.zip", "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("working_set.json", json.dumps(state))
        pack.writestr("run.jsonl", json.dumps(line) + "\n")
    back = await ctx.runs.restore(tmp_path / "old.zip", run_id="new")
    assert (back.seq, back.working_set.run_id) == (7, "new")
    told = (await back.events())[0]
    assert (told.event_id, told.sequence_id, told.actor, told.at.hour) == ("e-1", 1, "w", 8)
    assert (await back.update(status="BUSY")).seq == 8
    assert (await back.verify()).ok


async def test_a_working_set_alone_is_accepted(ctx: Any, tmp_path: Path) -> None:
    state = initial(run_id="old", task_id="t", thread_id="th", objective="o")
    write(tmp_path / "old.zip", {"working_set.json": json.dumps(state).encode()})
    assert (await ctx.runs.restore(tmp_path / "old.zip")).id == "old"


async def test_memories_come_along_to_another_store(ctx: Any, tmp_path: Path) -> None:
    run = await ctx.runs.create(objective="o", run_id="r")
    batch = await ctx.memories.propose([REQUEST], proposer="agent-7", run_id="r")
    made = await run.milestone("learned", memory_batch_id=batch.id, reviewer="ana")
    await run.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as other:
        other.runs.restore(tmp_path / "pack.zip")
        assert other.memories.get(made.memory_commits[0]).content == REQUEST["content"]


class Memories:
    """Long-term memory that can travel, in as few lines as it takes."""

    expects = ()
    writes = ()
    memory_ids = ("m1",)

    def __init__(self) -> None:
        self.brought: list[Any] = []

    async def batch_writes(self, batch_id: str, *, reviewer: str, run_id: str | None = None) -> Memories:
        return self

    async def search(self, query: str, k: int = 8, *, user_id: str | None, project_id: str | None) -> Sequence[Any]:
        return ()

    async def pack_items(self, memory_ids: Sequence[str]) -> Sequence[dict[str, Any]]:
        return [{"memory_id": id, "content": "known"} for id in memory_ids]

    async def unpack_writes(self, items: Sequence[Any]) -> Memories:
        self.brought = list(items)
        return self


def test_memories_come_along(tmp_path: Path) -> None:
    from strongroom.blocking.runs import Runs
    from strongroom.bridge import Inline
    from strongroom.opening import open_store
    from strongroom.scope import Scope
    from strongroom.services.runs.runs import AsyncRuns

    memories = Memories()
    runs = Runs(AsyncRuns(Scope(Inline(open_store("memory://"))), memories=memories))
    run = runs.create(objective="o", run_id="r")
    run.milestone("m", memory_batch_id="b", reviewer="ana")
    run.export(tmp_path / "pack.zip")
    runs.restore(tmp_path / "pack.zip", run_id="back")
    assert memories.brought == [{"memory_id": "m1", "content": "known"}]


# ---- signatures and heads -------------------------------------------------------------------------------------------

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()


async def test_a_signed_pack_is_accepted_by_its_key_only(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "pack.zip", signing_key=bytes(range(32)))
    with pytest.raises(InvalidInput, match="another key"):
        await ctx.runs.restore(tmp_path / "pack.zip", run_id="back", public_key=OTHER)
    assert (await ctx.runs.restore(tmp_path / "pack.zip", run_id="back", public_key=PUBLIC)).id == "back"


async def test_a_signed_pack_that_was_mended_is_refused_even_without_a_key(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "pack.zip", signing_key=bytes(range(32)))
    entries = contents(tmp_path / "pack.zip")
    entries["memories.jsonl"] = b'{"a": 1}\n'
    write(tmp_path / "forged.zip", mended(entries))
    with pytest.raises(InvalidInput, match="signature is not valid"):
        await ctx.runs.restore(tmp_path / "forged.zip", run_id="back")


async def test_an_unsigned_pack_is_refused_when_a_key_is_demanded(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "pack.zip")
    with pytest.raises(InvalidInput, match="not signed"):
        await ctx.runs.restore(tmp_path / "pack.zip", run_id="back", public_key=PUBLIC)
    plain = {"working_set.json": contents(tmp_path / "pack.zip")["working_set.json"]}
    write(tmp_path / "stripped.zip", plain)
    with pytest.raises(InvalidInput, match="not signed"):
        await ctx.runs.restore(tmp_path / "stripped.zip", run_id="back", public_key=PUBLIC)


async def test_an_older_pack_is_refused_when_a_head_is_demanded(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "older.zip")
    await run.update(next_action="three")
    head = await run.head()
    with pytest.raises(InvalidInput, match="older than the head"):
        await ctx.runs.restore(tmp_path / "older.zip", run_id="back", head=head)
    with pytest.raises(InvalidInput, match="not the one whose head"):
        await ctx.runs.restore(tmp_path / "older.zip", run_id="back", head=Head(2, "00" * 32))
    await run.export(tmp_path / "newer.zip")
    assert (await ctx.runs.restore(tmp_path / "newer.zip", run_id="back", head=head)).id == "back"


def test_the_manifest_hash_is_in_the_receipt(tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        pack = run.export(tmp_path / "pack.zip")
        told = run.events()[-1].payload
    raw = contents(tmp_path / "pack.zip")["manifest.json"]
    assert pack.manifest_sha256 == told["manifest_sha256"] == sha256(raw).hexdigest()
