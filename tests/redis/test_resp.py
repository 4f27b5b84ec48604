"""The server's language: whatever it says, in whatever pieces it arrives, is understood or refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.backends.redis.failures import Garbled, Refused
from strongroom.backends.redis.resp import MORE, Replies, pack
from tests.servers.valkey import ValkeyServer

lines = st.binary(max_size=20).filter(lambda text: b"\r" not in text and b"\n" not in text)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=40) | st.just([]),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=20,
)


def said(value: Any) -> bytes:
    """Write a value as a server does."""
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    return b"*%d\r\n%b" % (len(value), b"".join(map(said, value)))


def heard(pieces: list[bytes]) -> list[Any]:
    replies, found = Replies(), []
    for piece in pieces:
        replies.feed(piece)
        while (reply := replies.take()) is not MORE:
            found.append(reply)
    return found


@given(st.lists(values, min_size=1, max_size=4), st.lists(st.integers(0, 500), max_size=8))
def test_replies_are_the_same_in_whatever_pieces_they_come(wanted: list[Any], cuts: list[int]) -> None:
    data = b"".join(map(said, wanted))
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert heard([data[start:stop] for start, stop in pairwise(edges)]) == wanted


@given(values)
def test_byte_by_byte_is_enough(wanted: Any) -> None:
    data = said(wanted)
    assert heard([data[n : n + 1] for n in range(len(data))]) == [wanted]


@given(lines)
def test_an_error_is_an_answer(text: bytes) -> None:
    (reply,) = heard([b"-WORD " + text + b"\r\n"])
    assert isinstance(reply, Refused)
    assert (reply.word, reply.text) == ("WORD", "WORD " + text.decode(errors="replace"))


def test_a_status_is_bytes() -> None:
    assert heard([b"+PONG\r\n"]) == [b"PONG"]


@pytest.mark.parametrize("nonsense", [b"HTTP/1.1 200 OK\r\n", b"$x\r\n", b"*1.5\r\n", b":\r\n", b"\r\n\r\n"])
def test_what_no_server_says_is_refused(nonsense: bytes) -> None:
    with pytest.raises(Garbled):
        heard([nonsense])


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=6))
def test_a_server_reads_what_we_write(valkey_server: ValkeyServer, words: list[bytes]) -> None:
    with valkey_server.client() as client:
        connection = client.connection_pool.get_connection()
        connection.send_packed_command([pack([(b"EVAL", "return ARGV", 0, *words)])])
        assert connection.read_response() == words
        client.connection_pool.release(connection)
