"""Resume packs: a whole run out and in again, and every pack that lies refused before anything is written."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import holdfast
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.services.runs.working_set import initial
from holdfast.store import Scan
from holdfast.values import Head
from tests.services.pack_files import Part, build, contents, mended, write
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
    with holdfast.open("memory://") as other:
        found = other.runs.restore(tmp_path / "pack.zip").verify(head=kept)
    assert found.ok
    assert pack.head == kept


async def test_export_restore_export_is_identical_but_for_the_restoring(ctx: Any, tmp_path: Path) -> None:
    run = await busy(ctx)
    await run.export(tmp_path / "one.zip")
    with holdfast.open("memory://") as other:
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
        with holdfast.open("memory://") as other:
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
    with holdfast.open("memory://") as other:
        other.runs.restore(tmp_path / "pack.zip")
        assert other.memories.get(made.memory_commits[0]).content == REQUEST["content"]


class Memories:
    """Long-term memory that can travel, in as few lines as it takes."""

    expects = ()
    writes = ()
    memory_ids = ("m1",)

    def __init__(self) -> None:
        self.brought: list[Any] = []

    def inline(self) -> Memories:
        return self

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
    from holdfast.blocking.runs import Runs
    from holdfast.bridge import Inline
    from holdfast.opening import open_store
    from holdfast.scope import Scope
    from holdfast.services.runs.runs import AsyncRuns

    memories = Memories()
    runs = Runs(AsyncRuns(Scope(Inline(open_store("memory://"))), memories=memories))
    run = runs.create(objective="o", run_id="r")
    run.milestone("m", memory_batch_id="b")
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


# ---- packs that lie -------------------------------------------------------------------------------------------------

Forge = Callable[[dict[str, bytes]], bytes]


def parts(entries: dict[str, bytes]) -> list[Part]:
    return [Part(name, data) for name, data in entries.items()]


def with_extra(name: str | bytes, **lies: Any) -> Forge:
    return lambda entries: build([*parts(entries), Part(name, b"x", **lies)])


def with_first(**lies: Any) -> Forge:
    def forge(entries: dict[str, bytes]) -> bytes:
        (name, data), *rest = entries.items()
        return build([Part(name, data, **lies), *parts(dict(rest))])

    return forge


def overlapping(entries: dict[str, bytes]) -> bytes:
    first, second, *rest = parts(entries)
    second.central["offset"] = 0
    second.name = first.name
    return build([first, second, *rest])


def edited(name: str, old: bytes, new: bytes, mend: bool) -> Forge:
    def forge(entries: dict[str, bytes]) -> bytes:
        assert old in entries[name]
        changed = {**entries, name: entries[name].replace(old, new, 1)}
        return build(parts(mended(changed) if mend else changed))

    return forge


def changed(edit: Callable[[dict[str, bytes]], None], mend: bool = True) -> Forge:
    def forge(entries: dict[str, bytes]) -> bytes:
        copy = dict(entries)
        edit(copy)
        return build(parts(mended(copy) if mend else copy))

    return forge


def _renamed(entries: dict[str, bytes], old: str, new: str) -> None:
    entries[new] = entries.pop(next(name for name in entries if name.startswith(old)))


def _manifest(entries: dict[str, bytes], **fields: Any) -> dict[str, bytes]:
    return {**entries, "manifest.json": json.dumps({**json.loads(entries["manifest.json"]), **fields}).encode()}


LIES: dict[str, Forge] = {
    "not a zip": lambda entries: b"PK" + b"\0" * 100,
    "empty": lambda entries: b"",
    "cut in the middle": lambda entries: build(parts(entries))[:-500],
    "something after the end": lambda entries: build(parts(entries), tail=b"#!/bin/sh"),
    "a comment": lambda entries: build(parts(entries), comment=b"hello"),
    "something before": lambda entries: b"MZ" + build(parts(entries)),
    "hidden bytes between entries": lambda entries: build(parts(entries), gap=b"hidden"),
    "overlapping entries": overlapping,
    "more entries than there are": lambda entries: build(parts(entries), entries=65_000),
    "fewer entries than there are": lambda entries: build(parts(entries), entries=2),
    "two of the same name": with_extra("working_set.json"),
    "names that differ in case": with_extra("Working_Set.json"),
    "names that differ in normal form": with_extra("episodes/u\u0308.json"),
    "a name in another script's normal form": with_extra("episodes/\ufb01.json"),
    "a way out": with_extra("../evil"),
    "a way out in the middle": with_extra("episodes/../../evil"),
    "a dot": with_extra("./manifest.json"),
    "an absolute name": with_extra("/etc/passwd"),
    "a drive": with_extra("C:/evil"),
    "a backslash": with_extra("episodes\\..\\evil"),
    "a control character": with_extra("episodes/a\x01"),
    "a NUL": with_extra("episodes/a\0.json"),
    "not UTF-8": with_extra(b"episodes/\xff.json"),
    "a folder": with_extra("episodes/"),
    "a symbolic link": with_extra("link", mode=0o120777),
    "a device": with_extra("device", mode=0o020600),
    "a nested pack": with_extra("inner.zip"),
    "an entry nobody listed": with_extra("extra.txt"),
    "encrypted": with_first(flags=0x801),
    "a data descriptor": with_first(flags=0x808),
    "an unknown method": with_first(method=14),
    "zip64": with_first(extra=b"\x01\x00\x08\x00" + b"\0" * 8),
    "a second name": with_first(extra=b"\x75\x70\x02\x00ab"),
    "a torn extra field": with_first(extra=b"\x99\x99\xff"),
    "another name before the data": with_first(local={"name": b"other.json"}),
    "another size before the data": with_first(local={"size": 1}),
    "a larger size than there is": with_first(local={"size": 10**6}, central={"size": 10**6}),
    "a wrong checksum": with_first(local={"crc": 1}, central={"crc": 1}),
    "a size only zip64 could have": with_first(central={"size": 0xFFFFFFFF}),
    "an edited working set": edited("working_set.json", b"Build it", b"Break it", mend=False),
    "an edited working set, mended": edited("working_set.json", b"Build it", b"Break it", mend=True),
    "an edited event": edited("run.jsonl", b'"fetch"', b'"steal"', mend=False),
    "an edited event, mended": edited("run.jsonl", b'"fetch"', b'"steal"', mend=True),
    "an edited actor, mended": edited("run.jsonl", b'"bot"', b'"ana"', mend=True),
    "an edited salt, mended": edited("run.jsonl", b'"salt":"', b'"salt":"AAAA', mend=True),
    "a cut tail, mended": changed(
        lambda entries: entries.update({"run.jsonl": b"\n".join(entries["run.jsonl"].split(b"\n")[:-2]) + b"\n"})
    ),
    "a line that is not JSON": changed(lambda entries: entries.update({"run.jsonl": b"{nope}\n"})),
    "a line with a key twice": changed(lambda entries: entries.update({"run.jsonl": b'{"a":1,"a":2}\n'})),
    "a line with NaN": changed(lambda entries: entries.update({"run.jsonl": b'{"a":NaN}\n'})),
    "a working set that is none": changed(lambda entries: entries.update({"working_set.json": b'{"a": 1}'})),
    "a working set nested too deeply": changed(
        lambda entries: entries.update({"working_set.json": b"[" * 10**5 + b"]" * 10**5})
    ),
    "an edited artifact, mended": changed(
        lambda entries: entries.update({next(name for name in entries if name.startswith("artifacts/")): b"other"})
    ),
    "an artifact that is missing": changed(lambda entries: _drop(entries, "artifacts/")),
    "an episode by another name": changed(
        lambda entries: _renamed(entries, "episodes/", "episodes/00000000-ep_ff.json")
    ),
    "no ledger": changed(lambda entries: _drop(entries, "run.jsonl")),
    "no manifest": lambda entries: build(parts({k: v for k, v in entries.items() if k != "manifest.json"})),
    "another format": lambda entries: build(parts(_manifest(entries, format=2))),
    "a manifest of another run": lambda entries: build(
        parts(_manifest(entries, origin={"space": "default", "run_id": "other"}))
    ),
    "another head in the manifest": lambda entries: build(
        parts(_manifest(entries, ledger_head={"length": 3, "chain": "00" * 32}))
    ),
    "a configuration out of nowhere": lambda entries: build(parts(_manifest(entries, config={"ws_max_tokens": "x"}))),
    "a bomb": lambda entries: build([*parts(entries), Part("memories2.jsonl", bytes(50_000_000), method=8)]),
    "a bomb that lies about its size": lambda entries: build(
        [*parts(entries), Part("b", bytes(5_000_000), method=8, local={"size": 9}, central={"size": 9})]
    ),
}


def _drop(entries: dict[str, bytes], prefix: str) -> None:
    del entries[next(name for name in entries if name.startswith(prefix))]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The entries of a pack that is accepted."""
    path = tmp_path_factory.mktemp("packs") / "pack.zip"
    with holdfast.open("memory://") as ctx:
        run = ctx.runs.create(objective="Build it", run_id="r")
        run.update(next_action="one")
        run.record("TOOL_CALL", {"tool_name": "fetch"}, actor="bot")
        run.attach(b"content", type="page")
        run.milestone("half way")
        run.export(path)
    return contents(path)


def test_the_honest_pack_is_accepted(honest: dict[str, bytes], tmp_path: Path) -> None:
    with holdfast.open("memory://") as ctx:
        assert ctx.runs.restore(write(tmp_path / "pack.zip", honest)).verify().ok
        assert ctx.runs.restore(write(tmp_path / "pack.zip", mended(honest)), run_id="again").verify().ok


@pytest.mark.parametrize("lie", LIES)
def test_a_pack_that_lies_is_refused_with_a_reason_and_nothing_is_written(
    honest: dict[str, bytes], tmp_path: Path, lie: str
) -> None:
    (tmp_path / "pack.zip").write_bytes(LIES[lie](honest))
    with holdfast.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match="nothing changed"):
            ctx.runs.restore(tmp_path / "pack.zip")
        kinds = ("run", "staging", "artifact", "artifact-use")
        assert [page.documents for page in ctx.store.read([Scan("default", kind) for kind in kinds])] == [()] * 4


def test_a_pack_larger_than_allowed_is_refused(honest: dict[str, bytes], tmp_path: Path) -> None:
    write(tmp_path / "pack.zip", honest)
    with holdfast.open("memory://") as ctx, pytest.raises(InvalidInput, match="are allowed"):
        ctx.runs.restore(tmp_path / "pack.zip", max_bytes=1000)


def test_a_pack_that_changes_between_the_two_readings_writes_nothing(
    honest: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.services.runs import restores

    path = write(tmp_path / "pack.zip", honest)
    check = restores.check

    def check_then_change(*args: Any, **kwargs: Any) -> Any:
        done = check(*args, **kwargs)
        with path.open("r+b") as file:
            raw = file.read()
            file.seek(raw.index(b'"fetch"'))
            file.write(b'"steal"')
        return done

    monkeypatch.setattr(restores, "check", check_then_change)
    with holdfast.open("memory://") as ctx:
        with pytest.raises(InvalidInput):
            ctx.runs.restore(path)
        with pytest.raises(NotFound):
            ctx.runs.get("r")


def test_the_manifest_hash_is_in_the_receipt(tmp_path: Path) -> None:
    with holdfast.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        pack = run.export(tmp_path / "pack.zip")
        told = run.events()[-1].payload
    raw = contents(tmp_path / "pack.zip")["manifest.json"]
    assert pack.manifest_sha256 == told["manifest_sha256"] == sha256(raw).hexdigest()
