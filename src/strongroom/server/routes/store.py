"""The port itself, for `strongroom.connect`: reading, searching and waiting, in MessagePack, and asking for operations.

A key opens its own space and nothing else. What it may read there is a list of kinds (`kinds`), what it may have done a
table of operations (`operations`). Writing past the services (`/store/commit`) is for admins: for copying, for
operators, for the conformance suite; and for what adapters keep for their frameworks (`committing`).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from anyio import open_file
from msgspec.structs import replace

from strongroom.bridge import can_search
from strongroom.errors import CommitUnknown, InvalidInput
from strongroom.operations import Undecided, witnessing
from strongroom.protocol import paging, wire
from strongroom.retrieval import MOST_PLACES
from strongroom.server import committing, ids, operations
from strongroom.server.ids import own_id
from strongroom.server.keys import Right
from strongroom.server.kinds import may_read
from strongroom.server.operations import Invocation, turns
from strongroom.server.request import Request
from strongroom.server.responses import Refusal, Whole
from strongroom.server.router import Endpoints
from strongroom.server.shutdown import end
from strongroom.store import Key, Range, ReceiptOf, Scan, Slice, require_name, used_otherwise

endpoint = Endpoints("store", media=wire.MEDIA, keyed=False)  # a commit has an id of its own
post = partial(endpoint, accepts=wire.MEDIA)

MOST_PARTS = 10_000
QUESTIONS_BYTES = 1024 * 1024  # MessagePack has values of one byte, which take seventy once they are read
LONGEST_WAIT_SECONDS = 30.0


@endpoint("GET /store", "read", "What this key opens")
async def about(request: Request[None, None]) -> Whole:
    store = request.ctx.store
    caller = request.caller
    told = wire.About(caller.space, store.durability, can_search(store), caller.role, ids.now_ns())
    return _answer(wire.dump(told))


@post("POST /store/read", "read", "Answer questions from one snapshot", max_body_bytes=QUESTIONS_BYTES)
async def read(request: Request[None, None]) -> Whole:
    questions = wire.load_questions(await request.body())
    _require_few(questions)
    for question in questions:
        if isinstance(question, ReceiptOf):
            _require_space(request, question.space)
            _require(request, "admin", "reading receipts")
        elif isinstance(question, Scan):
            _require_readable(request, question.space, question.kind)
        else:
            _require_readable(request, question.key.space, question.key.kind)
    if not questions:
        return _answer(wire.dump_answers([], []))
    bounded = paging.capped(questions)
    part = await request.app.state.store.read_within(bounded, request.settings.max_answer_bytes)
    return _answer(wire.dump_answers(part.answers, paging.cuts(questions, bounded, part)))


@post("POST /store/commit", "write", "Commit all of it or nothing, past the services")
async def commit(request: Request[None, None]) -> Whole:
    wanted = wire.load_commit(await request.body())
    _require_few((*wanted.expects, *wanted.writes))
    _require_space(request, wanted.space)
    try:
        receipt = await committing.commit(request.ctx.scope, request.caller, wanted)
    except (CommitUnknown, InvalidInput) as problem:
        raise _named(problem, wanted.id) from None
    return _answer(wire.dump(receipt))


@post("POST /store/perform", "read", "Make an operation of a service", writes=True)
async def perform(request: Request[None, None]) -> Whole:
    """Make an operation and answer with its receipt; with nothing if the caller has to decide, or to decide anew."""
    return await _performed(request, wire.load_operation(await request.body()), None)


@endpoint(
    "POST /store/upload",
    "read",
    "Make an operation that comes with bytes",
    accepts=wire.UPLOAD,
    writes=True,
    large=True,
)
async def upload(request: Request[None, None]) -> Whole:
    """Make an operation that comes with bytes. They are spooled to disk first, as they may be many."""
    pieces = request.stream()
    head = bytearray()
    size = wire.HEAD_BYTES
    async for piece in pieces:
        head += piece
        if len(head) >= wire.HEAD_BYTES and size == wire.HEAD_BYTES:
            size = wire.HEAD_BYTES + int.from_bytes(head[: wire.HEAD_BYTES], "big")
            if size > request.settings.max_body_bytes:
                raise InvalidInput("this does not begin with an operation; nothing changed")
            request.hold(size)
        if len(head) >= size > wire.HEAD_BYTES:
            break
    wanted = wire.load_operation(bytes(head[wire.HEAD_BYTES : size]))
    _allowed(request, wanted, file=True)  # before anything is written down
    with tempfile.TemporaryDirectory(prefix="strongroom-upload-") as folder:
        path = Path(folder) / "content"
        async with await open_file(path, "wb") as file:
            await file.write(head[size:])
            async for piece in pieces:
                await file.write(piece)
        return await _performed(request, wanted, path)


async def _performed(request: Request[None, None], wanted: wire.OperationRequest, path: Path | None) -> Whole:
    row, op = _allowed(request, wanted, file=path is not None)
    with witnessing(op.commit_id) as witness:
        try:
            await operations.make(row, msgspec.structs.replace(op, file=path))
        except Undecided:
            return _answer(wire.dump(None))
        except (CommitUnknown, InvalidInput) as problem:
            raise _named(problem, wanted.commit_id) from None
    assert witness.receipt is not None, "whatever the table makes, it makes under the id that was given"
    for type, payload in turns.events_in(op) if not witness.receipt.repeated else ():
        request.app.state.metrics.record(request.caller.space, type, payload)
    return _answer(wire.dump(witness.receipt))


def _allowed(
    request: Request[None, None], wanted: wire.OperationRequest, *, file: bool
) -> tuple[operations.Row, Invocation]:
    """Return how an operation is made, if there is one of that name and the caller may."""
    row = operations.OPERATIONS.get(wanted.name)
    if row is None or row.takes_file is not file:
        raise InvalidInput(f"there is no operation {wanted.name!r:.60}; nothing changed", path="name")
    _require(request, row.right, wanted.name)  # before anything is said about what it is asked with
    arguments, besides = wanted.content.load(), None if wanted.besides is None else wanted.besides.load()
    if not isinstance(arguments, dict) or not isinstance(besides, dict | None):
        raise InvalidInput("arguments come by their names; nothing changed", path="content")
    op = Invocation(
        ctx=request.ctx,
        caller=request.caller,
        settings=request.settings,
        name=wanted.name,
        id=require_name(wanted.id, "a target"),
        content=wanted.content,
        arguments=arguments,
        besides=besides,
        commit_id=own_id(request.caller, require_name(wanted.commit_id, "a commit id")),
        life=wanted.life,
    )
    for right in sorted(row.needs(op)):
        _require(request, right, wanted.name)
    return row, op


def _named(problem: CommitUnknown | InvalidInput, given: str) -> Exception:
    """Say the id that the caller knows."""
    if isinstance(problem, CommitUnknown):
        problem.commit_id = given
    elif problem.path == "commit_id":
        return used_otherwise(given)
    return problem


@post("POST /store/search", "read", "Find words", max_body_bytes=QUESTIONS_BYTES)
async def search(request: Request[None, None]) -> Whole:
    find = wire.load_find(await request.body())
    _require_readable(request, find.space, find.kind)
    store: Any = request.ctx.store
    if not can_search(store):
        raise InvalidInput("this server's store cannot search")
    most = min(request.settings.max_answer_bytes, find.max_bytes or sys.maxsize)
    bounded = replace(find, limit=min(find.limit, MOST_PLACES), max_bytes=most)
    return _answer(wire.dump_found(await store.search(bounded)))


@post("POST /store/wait", "read", "Wait for a stream to grow", max_body_bytes=QUESTIONS_BYTES)
async def wait(request: Request[None, None]) -> Whole:
    """Answer once a stream is longer than the caller knows (true), or the time is up (false)."""
    wanted = wire.load_waiting(await request.body())
    _require_readable(request, wanted.key.space, wanted.key.kind)
    if not 0 <= wanted.timeout_seconds <= LONGEST_WAIT_SECONDS or not 0 <= wanted.length < 2**53:
        raise InvalidInput(f"wait for at most {LONGEST_WAIT_SECONDS:g} seconds, from a length that can be")
    with request.app.state.streams.one(request.caller.name):
        longer = await _longer(request, wanted.key, wanted.length, wanted.timeout_seconds)
    await request.app.state.gate.confirm(request, request.caller)  # that may have taken a while
    return _answer(wire.dump(longer))


async def _longer(request: Request[Any, Any], key: Key, length: int, timeout_seconds: float) -> bool:
    store: Any = request.ctx.store
    waiting = asyncio.ensure_future(store.wait(key, length, timeout_seconds))
    stopping = asyncio.ensure_future(request.app.state.shutdown.begun.wait())
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
        [here] = await store.read([Range(key, 0, 0)])
        return isinstance(here, Slice) and here.length > length
    finally:
        await end(waiting, stopping)


def _require_space(request: Request[Any, Any], space: str) -> None:
    if space != request.caller.space:
        raise Refusal(403, "forbidden", "this key opens another space")


def _require_readable(request: Request[Any, Any], space: str, kind: str) -> None:
    _require_space(request, space)
    if not may_read(request.caller.role, kind):
        raise Refusal(403, "forbidden", f"a {request.caller.role} cannot read what is kept as {kind!r:.60}")


def _require(request: Request[Any, Any], right: Right, what: str) -> None:
    if not request.caller.may(right):
        raise Refusal(
            403, "forbidden", f"{what} needs the right to {right}, which a {request.caller.role} does not have"
        )


def _require_few(parts: Iterable[Any]) -> None:
    if sum(1 for _ in parts) > MOST_PARTS:
        raise InvalidInput(f"at most {MOST_PARTS} questions or writes at once; nothing changed")


def _answer(content: bytes) -> Whole:
    return Whole(content, media_type=wire.MEDIA)
