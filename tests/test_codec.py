"""JSON goes in strictly and comes out as it was; equal values have equal bytes."""

from __future__ import annotations

import json
import re
from collections import OrderedDict, UserDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom import codec
from strongroom.codec import INT_MAX, INT_MIN, MAX_DEPTH, Json, encode, pack, parse, trusted
from strongroom.errors import InvalidInput

text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none() | st.booleans() | st.integers(INT_MIN, INT_MAX) | st.floats(allow_nan=False, allow_infinity=False) | text
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=12)


class Colour(Enum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Loud(str):
    """A string that is not just a string."""


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


# ---- round trips ----------------------------------------------------------------------------------------------------


@given(values)
def test_what_goes_in_comes_out(value: Any) -> None:
    assert encode(value).load() == value


@given(values)
def test_types_survive(value: Any) -> None:
    """1, 1.0 and True are equal in Python and different in JSON."""
    assert repr(shape(encode(value).load())) == repr(shape(value))


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(item) for key, item in sorted(value.items())}
    return [shape(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_the_bytes_are_json_that_others_read(value: Any) -> None:
    assert json.loads(encode(value)) == value


@given(values)
def test_reading_what_we_wrote_needs_no_leniency(value: Any) -> None:
    assert parse(encode(value)) == value


@given(values)
def test_encoding_is_a_fixed_point(value: Any) -> None:
    assert encode(encode(value).load()) == encode(value)


@given(values)
def test_equal_objects_have_equal_bytes(value: Any) -> None:
    assert encode(backwards(value)) == encode(value)


def backwards(value: Any) -> Any:
    """The same value, every object of it built in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(item) for key, item in reversed(value.items())}
    return [backwards(item) for item in value] if isinstance(value, list) else value


def test_there_is_no_white_space() -> None:
    assert encode({"b": [1, 2], "a": {"c": None}}) == b'{"a":{"c":null},"b":[1,2]}'


def test_text_is_utf8_and_not_escaped() -> None:
    assert encode("é\U0001f600") == '"é\U0001f600"'.encode()


def test_tuples_are_lists() -> None:
    assert encode((1, (2, 3))) == encode([1, [2, 3]])


def test_the_whole_range_of_64_bits_is_kept() -> None:
    assert encode([INT_MIN, INT_MAX]).load() == [INT_MIN, INT_MAX]


def test_every_depth_up_to_the_limit_is_kept() -> None:
    assert encode(nested(MAX_DEPTH)).load() == nested(MAX_DEPTH)


def test_loading_gives_fresh_objects() -> None:
    stored = encode({"list": []})
    stored.load()["list"].append("spoiled")
    assert stored.load() == {"list": []}


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "path", "says"),
    [
        (float("nan"), "$", "nan is not a JSON number"),
        ({"a": [1, float("inf")]}, "$.a[1]", "inf is not a JSON number"),
        ([-float("inf")], "$[0]", "-inf is not a JSON number"),
        ("\ud800", "$", "lone surrogate"),
        ({"a": {"b": "x\udfff"}}, "$.a.b", "lone surrogate"),
        ({"ok": 1, "\ud800": 2}, "$", "key holds a lone surrogate"),
        ({"a": [{"\udc00": 2}]}, "$.a[0]", "key holds a lone surrogate"),
        (INT_MAX + 1, "$", "64 bits"),
        ({"n": INT_MIN - 1}, "$.n", "64 bits"),
        ([10**4000], "$[0]", "64 bits"),
        ({1: "a"}, "$", "key must be a string, not int"),
        ({"a": {None: 1}}, "$.a", "key must be a string, not NoneType"),
        ({"a": {Loud("k"): 1}}, "$.a", "key must be a string, not Loud"),
        (b"bytes", "$", "bytes is not JSON data"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "$.at", "datetime is not JSON data"),
        ([{1, 2}], "$[0]", "set is not JSON data"),
        ([frozenset()], "$[0]", "frozenset is not JSON data"),
        (Decimal("1.1"), "$", "Decimal is not JSON data"),
        ({"id": UUID(int=1)}, "$.id", "UUID is not JSON data"),
        ([Colour.RED], "$[0]", "Colour is not JSON data"),
        (Number.ONE, "$", "Number is not JSON data"),
        (Loud("x"), "$", "Loud is not JSON data"),
        (OrderedDict(a=1), "$", "OrderedDict is not JSON data"),
        (UserDict(a=1), "$", "UserDict is not JSON data"),
        (iter([]), "$", "list_iterator is not JSON data"),
        ([object()], "$[0]", "object is not JSON data"),
        (1j, "$", "complex is not JSON data"),
        (bytearray(), "$", "bytearray is not JSON data"),
    ],
    ids=lambda part: re.sub(r" at 0x\w+", "", repr(part)),
)
def test_what_would_come_back_changed_is_refused_and_named(value: Any, path: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says.replace(".", r"\.")) as caught:
        encode(value)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")


def test_depth_over_the_limit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nested deeper than 100 levels"):
        encode(nested(MAX_DEPTH + 1))


def test_depth_counts_objects_too() -> None:
    value: Any = {}
    for _ in range(MAX_DEPTH):
        value = {"a": value}
    with pytest.raises(InvalidInput, match="nested deeper than 100 levels") as caught:
        encode(value)
    assert caught.value.path.startswith("$.a.a")


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidInput, match="nested deeper"):
        encode(endless)


@given(values, st.lists(st.sampled_from(["a", "b"]), max_size=4))
def test_a_bad_value_is_found_wherever_it_is(value: Any, where: list[str]) -> None:
    hidden: Any = {"good": value, "zzz": {1}}
    for name in reversed(where):
        hidden = {"good": value, name: hidden}
    with pytest.raises(InvalidInput) as caught:
        encode(hidden)
    assert caught.value.path == "$" + "".join(f".{name}" for name in where) + ".zzz"


# ---- reading what others wrote --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('[{"b": {"a": 1, "a": 1}}]', "duplicate key 'a'"),
        ('{"a": 1, "\\u0061": 2}', "duplicate key 'a'"),
        ("NaN", "NaN is not a JSON number"),
        ('{"a": [Infinity]}', "Infinity is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("1e999", "inf is not a JSON number"),
        ('"\\ud800"', "lone surrogate"),
        ('{"\\udfff": 1}', "lone surrogate"),
        (str(INT_MAX + 1), "64 bits"),
        (str(INT_MIN - 1), "64 bits"),
        ("9" * 100_000, "64 bits"),
        ("-" + "9" * 100_000, "64 bits"),
        ("[" * 101 + "]" * 101, "nested deeper than 100 levels"),
        ("[" * 200_000, "nested deeper than 100 levels"),
        ('{"a":' * 200_000, "nested deeper than 100 levels"),
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ("[1,]", "not valid JSON"),
        ("1 2", "not valid JSON"),
        ("\ufeff1", "not valid JSON"),
        ("// comment\n1", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        ('"\ud800"'.encode("utf-8", "surrogatepass"), "not valid JSON"),
        ("é".encode("utf-16"), "not valid JSON"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_parsers_let_slip_is_refused(raw: bytes | str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse(raw)


def test_a_pair_of_surrogate_escapes_is_one_character() -> None:
    assert parse('"\\ud83d\\ude00"') == "\U0001f600"


@given(values)
def test_pretty_printed_json_is_read(value: Any) -> None:
    assert parse(json.dumps(value, indent=2)) == value


@given(st.binary())
def test_reading_bytes_ends_in_a_value_or_in_invalid_input(raw: bytes) -> None:
    try:
        value = parse(raw)
    except InvalidInput:
        return
    assert encode(value).load() == value


# ---- typed values ---------------------------------------------------------------------------------------------------


class Note(msgspec.Struct, frozen=True):
    zeta: str
    alpha: int = 0


def test_a_struct_is_packed_like_its_fields() -> None:
    assert pack(Note("z", 1)) == encode({"alpha": 1, "zeta": "z"})


def test_a_struct_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidInput, match="lone surrogate") as caught:
        pack(Note("\ud800"))
    assert caught.value.path == "$.zeta"


def test_holding_json_proves_that_it_is_valid() -> None:
    assert type(encode(1)) is type(pack(Note("a"))) is type(trusted(b"1")) is Json


def test_a_refusal_is_a_value_error() -> None:
    """Callers that know nothing of this library catch the error they expect."""
    with pytest.raises(ValueError, match="not JSON data"):
        encode(object())


def test_the_slow_check_agrees_with_the_quick_one() -> None:
    """`encode` asks a quick question first, and explains only what it refused."""
    for value in (None, True, 1, 1.5, "x", [1], (1,), {"a": [None]}):
        assert codec._storable(value, 0)
        assert codec._problem(value, "$", 0) is None


def _spelled(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(['"a"', '"b"', '"\\u0061"', '""', '"é"'])
    pairs = st.lists(st.tuples(names, items).map(": ".join), max_size=3)  # a name may come twice
    return st.lists(items, max_size=3).map(lambda found: f"[{','.join(found)}]") | pairs.map(
        lambda found: f"{{{', '.join(found)}}}"
    )


LEAVES = [
    "1",
    "-0",
    "1e3",
    "0.10",
    str(2**63),
    "9" * 30,
    "NaN",
    '"a"',
    '"\\""',
    '"\\\\"',
    '"\\ud800"',
    "true",
    "nul",
    "",
]


@given(st.recursive(st.sampled_from(LEAVES), _spelled, max_leaves=8))
def test_bytes_are_read_as_their_text_is(text: str) -> None:
    """Bytes without escapes take a shorter way, which must lead to the same place."""

    def outcome(raw: str | bytes) -> tuple[str, object]:
        try:
            found = parse(raw)
        except InvalidInput as problem:
            return "refused", str(problem)
        return repr(found), found  # repr tells 1 from 1.0, and keeps the order

    assert outcome(text.encode()) == outcome(text)
