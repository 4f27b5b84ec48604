"""The port itself, for `strongroom.connect`: reading, searching and waiting, in MessagePack, and asking for operations.

A key opens its own space and nothing else. What it may read there is a list of kinds (`kinds`), what it may have done a
table of operations (`operations`). Writing past the services (`/store/commit`) is for admins alone: for copying, for
operators, for the conformance suite.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from anyio import open_file
from msgspec.structs import replace

from strongroom.bridge import can_search
from strongroom.client import paging, wire
from strongroom.errors import CommitUnknown, InvalidInput
from strongroom.operations import Undecided, witnessing
from strongroom.retrieval import MOST_PLACES
from strongroom.server import operations
from strongroom.server.endpoint import Call, Endpoint, Nothing, own_id
from strongroom.server.keys import Right
from strongroom.server.kinds import may_read
from strongroom.server.leaving import end
from strongroom.server.operations import Asked
from strongroom.server.wire import Answer, Refusal
from strongroom.store import Key, Range, ReceiptOf, Scan, Slice, require_name, used_otherwise

MOST_PARTS = 10_000
LONGEST_WAIT_SECONDS = 30.0


async def about(call: Call[None, Nothing]) -> Answer:
    store = call.ctx.store
    return _answer(wire.dump(wire.About(call.caller.space, store.durability, can_search(store))))


async def read(call: Call[None, Nothing]) -> Answer:
    questions = wire.load_questions(await call.request.read())
    _require_few(questions)
    for question in questions:
        if isinstance(question, ReceiptOf):
            _require_space(call, question.space)
            _require(call, "admin", "reading receipts")
        elif isinstance(question, Scan):
            _require_readable(call, question.space, question.kind)
        else:
            _require_readable(call, question.key.space, question.key.kind)
    if not questions:
        return _answer(wire.dump_answers([], []))
    bounded = paging.capped(questions)
    part = await call.state.store.read_within(bounded, call.settings.max_answer_bytes)
    return _answer(wire.dump_answers(part.answers, paging.cuts(questions, bounded, part)))


async def commit(call: Call[None, Nothing]) -> Answer:
    wanted = wire.load_commit(await call.request.read())
    _require_few((*wanted.expects, *wanted.writes))
    _require_space(call, wanted.space)
    return _answer(wire.dump(await call.ctx.store.commit(wanted)))


async def perform(call: Call[None, Nothing]) -> Answer:
    """Make an operation and answer with its receipt; with nothing if the caller has to decide, or to decide anew."""
    return await _performed(call, wire.load_operation(await call.request.read()), None)


async def upload(call: Call[None, Nothing]) -> Answer:
    """Make an operation that comes with bytes. They are spooled to disk first, as they may be many."""
    pieces = call.request.pieces()
    head = bytearray()
    size = wire.HEAD_BYTES
    async for piece in pieces:
        head += piece
        if len(head) >= wire.HEAD_BYTES:
            size = wire.HEAD_BYTES + int.from_bytes(head[: wire.HEAD_BYTES], "big")
        if size > call.settings.max_body_bytes:
            raise InvalidInput("this does not begin with an operation; nothing changed")
        if len(head) >= size > wire.HEAD_BYTES:
            break
    wanted = wire.load_operation(bytes(head[wire.HEAD_BYTES : size]))
    _allowed(call, wanted, file=True)  # before anything is written down
    with tempfile.TemporaryDirectory(prefix="strongroom-upload-") as folder:
        path = Path(folder) / "content"
        async with await open_file(path, "wb") as file:
            await file.write(head[size:])
            async for piece in pieces:
                await file.write(piece)
        return await _performed(call, wanted, path)


async def _performed(call: Call[None, Nothing], wanted: wire.Performing, path: Path | None) -> Answer:
    row, asked = _allowed(call, wanted, file=path is not None)
    with witnessing(asked.commit_id) as witness:
        try:
            await operations.make(row, msgspec.structs.replace(asked, file=path))
        except Undecided:
            return _answer(wire.dump(None))
        except (CommitUnknown, InvalidInput) as problem:
            raise _named(problem, wanted.commit_id) from None
    assert witness.receipt is not None, "whatever the table makes, it makes under the id that was given"
    return _answer(wire.dump(witness.receipt))


def _allowed(call: Call[None, Nothing], wanted: wire.Performing, *, file: bool) -> tuple[operations.Row, Asked]:
    """Return how an operation is made, if there is one of that name and the caller may."""
    row = operations.OPERATIONS.get(wanted.name)
    if row is None or row.takes_file is not file:
        raise InvalidInput(f"there is no operation {wanted.name!r:.60}; nothing changed", path="name")
    arguments, besides = wanted.content.load(), None if wanted.besides is None else wanted.besides.load()
    if not isinstance(arguments, dict) or not isinstance(besides, dict | None):
        raise InvalidInput("arguments come by their names; nothing changed", path="content")
    asked = Asked(
        ctx=call.ctx,
        caller=call.caller,
        settings=call.settings,
        name=wanted.name,
        id=require_name(wanted.id, "a target"),
        content=wanted.content,
        arguments=arguments,
        besides=besides,
        commit_id=own_id(call.caller, require_name(wanted.commit_id, "a commit id")),
    )
    for right in sorted(row.needs(asked)):
        _require(call, right, wanted.name)
    return row, asked


def _named(problem: CommitUnknown | InvalidInput, given: str) -> Exception:
    """Say the id that the caller knows."""
    if isinstance(problem, CommitUnknown):
        problem.commit_id = given
    elif problem.path == "commit_id":
        return used_otherwise(given)
    return problem


async def search(call: Call[None, Nothing]) -> Answer:
    find = wire.load_find(await call.request.read())
    _require_readable(call, find.space, find.kind)
    store: Any = call.ctx.store
    if not can_search(store):
        raise InvalidInput("this server's store can not search")
    most = min(call.settings.max_answer_bytes, find.max_bytes or sys.maxsize)
    bounded = replace(find, limit=min(find.limit, MOST_PLACES), max_bytes=most)
    return _answer(wire.dump_found(await store.search(bounded)))


async def wait(call: Call[None, Nothing]) -> Answer:
    """Answer once a stream is longer than the caller knows (true), or the time is up (false)."""
    wanted = wire.load_waiting(await call.request.read())
    _require_readable(call, wanted.key.space, wanted.key.kind)
    if not 0 <= wanted.timeout_seconds <= LONGEST_WAIT_SECONDS or not 0 <= wanted.length < 2**53:
        raise InvalidInput(f"wait for at most {LONGEST_WAIT_SECONDS:g} seconds, from a length that can be")
    with call.state.streams.one(call.caller.name):
        longer = await _longer(call, wanted.key, wanted.length, wanted.timeout_seconds)
    return _answer(wire.dump(longer))


async def _longer(call: Call[Any, Any], key: Key, length: int, timeout_seconds: float) -> bool:
    store: Any = call.ctx.store
    waiting = asyncio.ensure_future(store.wait(key, length, timeout_seconds))
    leaving = asyncio.ensure_future(call.state.closing.wait())
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
        [here] = await store.read([Range(key, 0, 0)])
        return isinstance(here, Slice) and here.length > length
    finally:
        await end(waiting, leaving)


def _require_space(call: Call[Any, Any], space: str) -> None:
    if space != call.caller.space:
        raise Refusal(403, "forbidden", "this key opens another space")


def _require_readable(call: Call[Any, Any], space: str, kind: str) -> None:
    _require_space(call, space)
    if not may_read(call.caller.role, kind):
        raise Refusal(403, "forbidden", f"a {call.caller.role} can not read what is kept as {kind!r:.60}")


def _require(call: Call[Any, Any], right: Right, what: str) -> None:
    if not call.caller.may(right):
        raise Refusal(403, "forbidden", f"{what} needs the right to {right}, which a {call.caller.role} does not have")


def _require_few(parts: Iterable[Any]) -> None:
    if sum(1 for _ in parts) > MOST_PARTS:
        raise InvalidInput(f"at most {MOST_PARTS} questions or writes at once; nothing changed")


def _answer(content: bytes) -> Answer:
    return Answer(content, media=wire.MEDIA)


def _endpoint(
    method: str, path: str, call: Any, right: Right, summary: str, accepts: str = wire.MEDIA, **more: Any
) -> Endpoint:
    return Endpoint(
        method=method,
        path=path,
        call=call,
        right=right,
        summary=summary,
        group="store",
        accepts=accepts if method == "POST" else "application/json",
        media=wire.MEDIA,
        **more,
    )


ENDPOINTS = (
    _endpoint("GET", "/store", about, "read", "What this key opens"),
    _endpoint("POST", "/store/read", read, "read", "Answer questions from one snapshot"),
    _endpoint("POST", "/store/perform", perform, "read", "Make an operation of a service", writes=True),
    _endpoint(
        "POST", "/store/upload", upload, "read", "Make an operation that comes with bytes", wire.UPLOAD, writes=True,
        large=True,
    ),
    _endpoint("POST", "/store/commit", commit, "admin", "Commit all of it or nothing, past the services"),
    _endpoint("POST", "/store/search", search, "read", "Find words"),
    _endpoint("POST", "/store/wait", wait, "read", "Wait for a stream to grow"),
)  # fmt: skip
