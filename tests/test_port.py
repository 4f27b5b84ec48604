"""What goes into a store is valid by construction: the port's own values refuse what no backend could keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.codec import encode
from strongroom.errors import InvalidInput
from strongroom.store import (
    EXISTS,
    MAX_ANSWER,
    MAX_DIGEST,
    MAX_NAME,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Key,
    Put,
    Range,
    ReceiptOf,
    Scan,
    Tail,
    Truncate,
    cursor,
    new_id,
)

KEY = Key("s", "k", "i")
ONE = encode(1)


def entry(**columns: Any) -> Entry:
    return Entry(**{"type": "t", "body": ONE, **columns})


@pytest.mark.parametrize("part", ["", "x" * (MAX_NAME + 1), "a\n", "a\x00", "\x7f", "\ud800", "\u2028", None, 5, b"x"])
@pytest.mark.parametrize("place", ["space", "kind", "id"])
def test_a_key_part_must_be_a_printable_name(place: str, part: Any) -> None:
    with pytest.raises(InvalidInput, match="printable"):
        Key(**{"space": "s", "kind": "k", "id": "i", place: part})


@given(
    st.text(
        st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"]), min_size=1, max_size=255
    )
)
def test_any_printable_name_is_a_key_part(part: str) -> None:
    assert Key(part, part, part).id == part


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: entry(body=b"1"),
        lambda: entry(body="1"),
        lambda: entry(weight=-1),
        lambda: entry(weight=2**53),
        lambda: entry(weight=1.0),
        lambda: entry(weight=True),
        lambda: entry(at="now"),
        lambda: entry(at=1.5),
        lambda: entry(at=2**63),
        lambda: entry(type=None),
        lambda: entry(type=5),
        lambda: entry(type="\ud800"),
        lambda: entry(sender="\ud800"),
        lambda: entry(sender=5),
        lambda: entry(receiver=b"x"),
        lambda: entry(text="cut off \ud83d"),
        lambda: entry(text=["x"]),
        lambda: entry(commitment=b"short"),
        lambda: entry(commitment="x" * 32),
        lambda: Put(KEY, b"1"),  # type: ignore[arg-type]
        lambda: Put(KEY, ONE, {"a": 5}),  # type: ignore[dict-item]
        lambda: Put(KEY, ONE, {"a": "\ud800"}),
        lambda: Put(KEY, ONE, {"a\n": "x"}),
        lambda: Put(KEY, ONE, {}, "\ud800"),
        lambda: Put(KEY, ONE, {}, 5),  # type: ignore[arg-type]
        lambda: Append(KEY, ()),
        lambda: Append(KEY, (entry(),), -1),
        lambda: Append(KEY, (entry(),), "5"),  # type: ignore[arg-type]
        lambda: Truncate(KEY, -1),
        lambda: Truncate(KEY, None),  # type: ignore[arg-type]
        lambda: Erase(KEY, -1, 2),
        lambda: Erase(KEY, 0, 2**70),
        lambda: Expect(KEY, -2),
        lambda: Expect(KEY, 1.0),  # type: ignore[arg-type]
        lambda: Range(KEY, -1),
        lambda: Range(KEY, 0, -1),
        lambda: Range(KEY, limit=-1),
        lambda: Range(KEY, 2**70),
        lambda: Tail(KEY, -1),
        lambda: Tail(KEY, max_weight=-1),
        lambda: Tail(KEY, before=-1),
        lambda: Tail(KEY, 1.5),  # type: ignore[arg-type]
        lambda: Scan("", "k"),
        lambda: Scan("s", "k", limit=-1),
        lambda: Scan("s", "k", limit=2**63),
        lambda: Scan("s", "k", {"a": "\ud800"}),
        lambda: Scan("s", "k", {"a": 5}),  # type: ignore[dict-item]
        lambda: Commit("", writes=(Delete(KEY),)),
        lambda: Commit("x" * (MAX_NAME + 1), writes=(Delete(KEY),)),
        lambda: Commit("a\n", writes=(Delete(KEY),)),
        lambda: Commit("id"),
        lambda: Commit("id", writes=(Delete(KEY), Delete(Key("other", "k", "i")))),
        lambda: Commit("id", (Expect(Key("other", "k", "i"), 0),), (Delete(KEY),)),
        lambda: cursor(Scan("s", "k", after=5)),  # type: ignore[arg-type]
        lambda: cursor(Scan("s", "k", after="five")),
    ],
)
def test_what_no_store_could_keep_cannot_be_made(wrong: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput):
        wrong()


def test_the_edges_are_allowed() -> None:
    entry(weight=2**53 - 1, at=-(2**63), sender="", text="\x00\U0001f600", commitment=bytes(32))
    Key("x" * MAX_NAME, "\U0001f600" * MAX_NAME, " ")
    Expect(KEY, EXISTS)
    Scan("s", "k", limit=0)
    Append(KEY, (entry(),), 0)
    assert Commit("x" * MAX_NAME, (Expect(KEY, 0),)).space == "s"


def test_ids_are_unique_and_sort_by_time() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert [id[:12] for id in ids] == sorted(id[:12] for id in ids)


# ---- repeats --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", [None, "text", bytearray(16), b"x" * (MAX_DIGEST + 1)])
def test_a_digest_is_a_few_bytes(digest: Any) -> None:
    with pytest.raises(InvalidInput, match="a digest must be at most 32 bytes"):
        Commit("c", (), (Delete(KEY),), digest)


@pytest.mark.parametrize("answer", [b"1", "1", 1, encode("x" * MAX_ANSWER)])
def test_an_answer_is_short_json(answer: Any) -> None:
    with pytest.raises(InvalidInput, match=r"an answer must .* hold at most 65536"):
        Commit("c", (), (Delete(KEY),), b"", answer)


@pytest.mark.parametrize(
    ("space", "id"), [("", "c"), ("s", ""), ("s", "x" * 256), ("s", "a\nb"), (None, "c"), ("s", 1)]
)
def test_a_receipt_is_asked_for_by_names(space: Any, id: Any) -> None:
    with pytest.raises(InvalidInput):
        ReceiptOf(space, id)
