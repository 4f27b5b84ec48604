"""An alarm ends what is read from a connection, whenever it comes."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from strongroom.alarms import Alarm


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(60)
        yield one, other


def test_whoever_reads_meets_the_end_when_time_is_over(pair: tuple[socket.socket, socket.socket]) -> None:
    with Alarm(0.01) as alarm:
        alarm.watch(pair[0])
        assert pair[0].recv(1) == b"" and alarm.rang


def test_a_connection_that_is_made_when_time_is_over_already_is_shut(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    with Alarm(0.0) as alarm:
        alarm.watch(pair[1])
        assert pair[0].recv(1) == b""  # it has rung
        again, other = socket.socketpair()
        with again, other:
            alarm.watch(again)
            assert again.recv(1) == b""


def test_what_was_done_in_time_is_left_alone(pair: tuple[socket.socket, socket.socket]) -> None:
    with Alarm(60) as alarm:
        alarm.watch(pair[0])
    pair[1].send(b"a")
    assert pair[0].recv(1) == b"a" and not alarm.rang
