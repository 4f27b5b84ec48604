"""Generated calls to the port: nonsense in MessagePack."""

from __future__ import annotations

import msgspec
import schemathesis
from hypothesis import strategies as st

from strongroom.protocol import wire

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["key", "id", "kind"]), inner),
    max_leaves=6,
)
KEYS = st.fixed_dictionaries(
    {"space": st.just("default") | PLAIN, "kind": st.text(max_size=3), "id": st.text(max_size=3)}
)
FIELDS = st.fixed_dictionaries(
    {"key": KEYS | PLAIN},
    optional={
        "start": PLAIN,
        "limit": PLAIN,
        "value": PLAIN,
        "entries": st.lists(PLAIN),
        "space": PLAIN,
        "words": PLAIN,
    },
)
PARTS = st.lists(st.tuples(st.sampled_from([*wire.QUESTIONS, *wire.WRITES, "x"]), FIELDS) | PLAIN, max_size=3)
PACKED = (
    PARTS
    | FIELDS
    | st.fixed_dictionaries({"id": st.text(max_size=3), "expects": st.lists(PLAIN, max_size=1), "writes": PARTS})
)


def register() -> None:
    """Teach schemathesis the two bodies that are not JSON."""
    schemathesis.openapi.media_type("application/zip", st.binary())
    schemathesis.openapi.media_type(wire.MEDIA, st.binary() | PACKED.map(msgspec.msgpack.encode))
