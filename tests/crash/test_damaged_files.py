"""Bit flips, zeroed and swapped pages, lost tails: what is served is what was written, and the rest is noticed.

Every record and document carries a checksum that covers its key and place, so an altered one is never served. What a
row's checksum cannot show is that the row is not found at all, because the index above it is damaged; `check()` does,
so the test demands: an answer is right, or lacks something and `check()` says so, or is an error of ours.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strongroom.backends.sqlite import SqliteStore, rows
from strongroom.codec import Json, encode
from strongroom.errors import StoreError
from strongroom.store import (
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Entry,
    Get,
    Key,
    Page,
    Put,
    Range,
    Record,
    Scan,
    Slice,
    Tail,
)
from tests.crash.scale import FLIPS, SEED
from tests.faults.checks import PAGE, Broken, check, damage, glance, step

DOCUMENTS = [Key("faults", "document", f"d{n}") for n in range(30)]
STREAMS = [Key("faults", "stream", f"s{n}") for n in range(6)]
QUESTIONS: list[AnyQuestion] = [
    *(Get(key) for key in DOCUMENTS),
    *(Range(key) for key in STREAMS),
    *(Tail(key, count=5) for key in STREAMS),
    *(Tail(key, max_weight=40) for key in STREAMS),
    Scan("faults", "document"),
    Scan("faults", "document", {"odd": "1"}),
    Scan("faults", "document", reverse=True, limit=3),
]


def _fill(path: Path) -> None:
    with SqliteStore(path) as store:
        for n, key in enumerate(DOCUMENTS):
            value = encode({"n": n, "text": "é" * (n * 13)})
            store.commit(Commit(f"document-{n}", (), (Put(key, value, tags={"odd": str(n % 2)}),)))
        for n in range(36):
            entry = Entry("Note", encode({"n": n, "x": "y" * (n * 9)}), n // 3, 0, "ana", "bö", "hé", bytes([n]) * 32)
            store.commit(Commit(f"record-{n}", (), tuple(Append(key, (entry,)) for key in STREAMS)))
        for n in range(0, 30, 7):
            store.commit(Commit(f"delete-{n}", (), (Delete(DOCUMENTS[n]),)))


def _answers(store: SqliteStore) -> Iterator[Any]:
    for question in QUESTIONS:
        try:
            yield store.read([question])[0]
        except StoreError as error:
            yield error


def _lacks_at_most(answer: Any, truth: Any) -> bool:
    """Tell whether everything in an answer is exactly as it was written."""
    if isinstance(truth, Slice):
        written = {record.index: record for record in truth.records}
        return isinstance(answer, Slice) and all(written.get(found.index, found) == found for found in answer.records)
    if isinstance(truth, Page):
        return isinstance(answer, Page) and set(_names(answer)) <= set(_names(truth)) | set(_names_of_all(truth))
    return answer is None


def _names(page: Page) -> list[tuple[str, bytes]]:
    return [(document.key.id, bytes(document.value)) for document in page.documents]


def _names_of_all(_: Page) -> list[tuple[str, bytes]]:
    return [(key.id, bytes(encode({"n": n, "text": "é" * (n * 13)}))) for n, key in enumerate(DOCUMENTS)]


def _sees_nothing_wrong(store: SqliteStore) -> bool:
    try:
        return store.check().ok
    except StoreError:
        return False


def _try(path: Path, truth: list[Any]) -> str:
    """Open a damaged file, ask everything, and return what became of it. Anything but our own errors is raised."""
    try:
        with SqliteStore(path) as store:
            answers = list(_answers(store))
            sound = _sees_nothing_wrong(store)
    except StoreError:
        return "refused"
    refused = [answer for answer in answers if isinstance(answer, StoreError)]
    wrong = [
        (answer, right)
        for answer, right in zip(answers, truth, strict=True)
        if not isinstance(answer, StoreError) and answer != right
    ]
    for answer, right in wrong:
        if not _lacks_at_most(answer, right):
            raise Broken(f"served {answer!r:.300} instead of {right!r:.300}")
    if (wrong or refused) and sound:
        raise Broken("check() finds nothing wrong with a file that gives wrong answers or errors")
    return "lacking" if wrong else "refused" if refused else "harmless" if sound else "harmless, seen by check()"


def _campaign(folder: Path, count: int, seed: int) -> Counter[str]:
    path = folder / "agent.db"
    _fill(path)
    with SqliteStore(path) as store:
        truth = list(_answers(store))
    good = path.read_bytes()
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    for _ in range(count):
        for old in folder.iterdir():
            old.unlink(
                missing_ok=True
            )  # what a store keeps beside its file may go by itself, once its last user is gone
        path.write_bytes(good)
        what = damage(path, rng)
        try:
            seen[_try(path, truth)] += 1
        except Exception as problem:
            raise Broken(f"{what}: {problem!r}") from problem
    return seen


def test_a_damaged_file_never_serves_what_was_not_written(
    fast_folder: Path, record_property: Callable[[str, object], None]
) -> None:
    seen = _campaign(fast_folder, FLIPS, SEED)
    for what, times in seen.items():
        record_property(what, times)
    assert seen["refused"] > FLIPS // 3
    assert seen["lacking"] < FLIPS // 10


def _damage_logs(folder: Path, count: int, spoil: Callable[[Path, random.Random], str]) -> Counter[str]:
    """Spoil the log of a store that was killed after 20 steps, again and again; return what was found afterwards."""
    live = folder / "live"
    live.mkdir()
    with SqliteStore(live / "agent.db") as store:
        for number in range(1, 21):
            store.commit(step(0, number))
        good = {part: (live / f"agent.db{part}").read_bytes() for part in ("", "-wal")}
    rng = random.Random(SEED)
    seen: Counter[str] = Counter()
    for _ in range(count):
        for old in folder.glob("agent.db*"):
            old.unlink(missing_ok=True)
        for part, content in good.items():
            (folder / f"agent.db{part}").write_bytes(content)
        what = spoil(folder / "agent.db-wal", rng)
        try:
            with SqliteStore(folder / "agent.db") as store:
                found = glance(store, 1)
                check(store, found, in_flight=0)
                sound = store.check()
                if not sound.ok:
                    raise Broken(f"{what}: {sound.problems}")
                seen["all there" if found == [20] else "an earlier state"] += 1
        except (StoreError, Broken):
            seen["a mixture"] += 1
    return seen


def _damage_and_seal(log: Path, rng: random.Random) -> str:
    """Flip a bit of what a log holds, and make the checksums match: what SQLite would read if it had none."""
    data = bytearray(log.read_bytes())
    frames = [at for at in range(32, len(data), 24 + PAGE) if any(data[at : at + 4])]  # zeros lie ahead of the writer
    live = {data[at : at + 4].hex(): at for at in frames}  # of each page, the last frame is the one that counts
    first = rng.choice(sorted(live.values()))
    spot = rng.choice([at for at in range(first + 24, first + 24 + PAGE) if data[at]])
    data[spot] ^= 1 << rng.randrange(8)
    sums = struct.unpack_from(">II", data, first - PAGE - 8 if first > 32 else 24)
    for at in range(first, frames[-1] + 1, 24 + PAGE):
        sums = _log_sum(data[at : at + 8], sums)
        sums = _log_sum(data[at + 24 : at + 24 + PAGE], sums)
        struct.pack_into(">II", data, at + 16, *sums)
    log.write_bytes(data)
    return f"flip at {spot}"


def _log_sum(data: bytearray, start: tuple[int, ...]) -> tuple[int, int]:
    first, second = start
    words = struct.unpack(f"<{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second


def test_a_damaged_log_leaves_a_whole_earlier_state_and_never_a_mixture(fast_folder: Path) -> None:
    # SQLite ends a log at its first bad frame, as after a torn write; commits behind it are gone, and nothing in the
    # file can tell. A client that remembers a head (a run's, a receipt) can.
    seen = _damage_logs(fast_folder, max(100, FLIPS // 20), damage)
    assert seen["a mixture"] == 0
    assert seen["an earlier state"] > 0


def test_the_check_sees_the_mixture_that_a_log_without_checksums_would_leave(fast_folder: Path) -> None:
    assert _damage_logs(fast_folder, 30, _damage_and_seal)["a mixture"] > 0


def test_the_campaign_catches_a_store_that_skips_its_checksums(
    fast_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believe(key: Key, row: tuple[Any, ...], index: int) -> Any:
        return Record(index, row[1], row[2] and Json(row[2]), *row[3:-1])

    monkeypatch.setattr(rows, "to_record", believe)
    with pytest.raises(Broken, match="served"):
        _campaign(fast_folder, 2000, SEED)
