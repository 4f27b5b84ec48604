"""A session that counts with a function of the caller's, which the server does not have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import strongroom
from strongroom.blocking import Context
from strongroom.errors import InvalidInput
from strongroom.services.sessions.values import NewMessage
from tests.server.serving import Served, served

HELLO: NewMessage = {"role": "user", "content": "hello"}


def letters(text: str) -> int:
    return len(text)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def ctx(server: Served) -> Iterator[Context]:
    server.reset("memory://")
    with strongroom.connect(server.url, key=server.key("default")) as connected:
        yield connected


def test_it_is_forked_with_its_counts(ctx: Context) -> None:
    ctx.sessions.open("s").append(HELLO)
    session = ctx.sessions.open("s", tokenizer=letters)
    session.append(HELLO)
    session.wait()
    copy = ctx.sessions.open(session.fork(session_id="copy").id, tokenizer=letters)
    assert [one.tokens for one in copy.load()] == [one.tokens for one in session.load()]


def test_it_is_not_forked_before_all_is_counted_by_whoever_has_the_function(ctx: Context) -> None:
    ctx.sessions.open("s").append(HELLO)
    session = ctx.sessions.open("s", tokenizer=letters)
    with pytest.raises(
        InvalidInput, match=r"'letters', which is not at hand here; .* and wait\(\) first; nothing changed"
    ):
        session.fork(session_id="copy")


def test_whoever_does_not_know_of_the_function_yet_appends_all_the_same(ctx: Context) -> None:
    before = ctx.sessions.open("s")
    ctx.sessions.open("s", tokenizer=letters)
    before.append(HELLO)
    assert len(ctx.sessions.open("s", tokenizer=letters).load()) == 1
