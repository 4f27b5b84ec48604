"""Packs that lie: every one is refused with a reason, before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import bridge
from strongroom.bridge import Inline
from strongroom.errors import InvalidInput, NotFound
from strongroom.scope import Scope
from strongroom.store import Scan
from tests.services.pack_files import Part, build, contents, mended, write

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
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="Build it", run_id="r")
        run.update(next_action="one")
        run.record("TOOL_CALL", {"tool_name": "fetch"}, actor="bot")
        run.attach(b"content", type="page")
        run.milestone("half way")
        run.export(path)
    return contents(path)


def test_the_honest_pack_is_accepted(honest: dict[str, bytes], tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        assert ctx.runs.restore(write(tmp_path / "pack.zip", honest)).verify().ok
        assert ctx.runs.restore(write(tmp_path / "pack.zip", mended(honest)), run_id="again").verify().ok


@pytest.mark.parametrize("lie", LIES)
def test_a_pack_that_lies_is_refused_with_a_reason_and_nothing_is_written(
    honest: dict[str, bytes], tmp_path: Path, lie: str
) -> None:
    (tmp_path / "pack.zip").write_bytes(LIES[lie](honest))
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match="nothing changed"):
            ctx.runs.restore(tmp_path / "pack.zip")
        kinds = ("run", "staging", "artifact", "artifact-use")
        scans = [Scan("default", kind) for kind in kinds]
        found = bridge.run(Scope(Inline(ctx.store)).get_all(scans))
        assert [page.documents for page in found] == [()] * 4


def test_a_pack_larger_than_allowed_is_refused(honest: dict[str, bytes], tmp_path: Path) -> None:
    write(tmp_path / "pack.zip", honest)
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput, match="are allowed"):
        ctx.runs.restore(tmp_path / "pack.zip", max_bytes=1000)


def test_a_pack_that_changes_between_the_two_readings_writes_nothing(
    honest: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strongroom.services.runs import restores

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
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput):
            ctx.runs.restore(path)
        with pytest.raises(NotFound):
            ctx.runs.get("r")
