"""The port itself, for `strongroom.connect`: the two verbs, searching and waiting, in MessagePack.

A key opens its own space and nothing else. Whoever may write may write here too, but not everything: memories and their
batches are written by reviewers alone (proposing has an endpoint of its own, which screens), and only an admin may
take away what runs have recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from strongroom.bridge import can_search
from strongroom.client import paging, wire
from strongroom.errors import InvalidInput
from strongroom.retrieval import MOST_PLACES
from strongroom.server.endpoint import Call, Endpoint, Nothing
from strongroom.server.keys import Right
from strongroom.server.leaving import end
from strongroom.server.wire import Answer, Refusal
from strongroom.services.memories import keys as memory_keys
from strongroom.services.runs import ledger
from strongroom.services.runs import state as run_state
from strongroom.store import Delete, Erase, Key, Range, Scan, Truncate, Write

MOST_PARTS = 10_000
LONGEST_WAIT_SECONDS = 30.0

REVIEWED = frozenset(
    {
        memory_keys.MEMORY,
        memory_keys.BATCH,
        memory_keys.REVOCATION,
        memory_keys.LOG,
        memory_keys.STAGED,
        memory_keys.DECIDED,
    }
)
RECORDED = frozenset({run_state.KIND, run_state.EPISODES, ledger.KIND})


async def about(call: Call[None, Nothing]) -> Answer:
    store = call.ctx.store
    return _answer(wire.dump(wire.About(call.caller.space, store.durability, can_search(store))))


async def read(call: Call[None, Nothing]) -> Answer:
    questions = wire.load_questions(await call.request.read())
    _require_few(questions)
    for question in questions:
        _require_space(call, question.space if isinstance(question, Scan) else question.key.space)
    bounded = paging.capped(questions)
    answers = await call.ctx.store.read(bounded)
    return _answer(wire.dump_answers(answers, paging.cuts(questions, bounded, answers)))


async def commit(call: Call[None, Nothing]) -> Answer:
    wanted = wire.load_commit(await call.request.read())
    _require_few((*wanted.expects, *wanted.writes))
    _require_space(call, wanted.space)
    for write in wanted.writes:
        if not call.caller.may(needed := right_for(write)):
            raise Refusal(403, "forbidden", f"writing a {write.key.kind} like this needs the right to {needed}")
    return _answer(wire.dump(await call.ctx.store.commit(wanted)))


async def search(call: Call[None, Nothing]) -> Answer:
    find = wire.load_find(await call.request.read())
    _require_space(call, find.space)
    store: Any = call.ctx.store
    if not can_search(store):
        raise InvalidInput("this server's store can not search")
    return _answer(wire.dump_found(await store.search(replace(find, limit=min(find.limit, MOST_PLACES)))))


async def wait(call: Call[None, Nothing]) -> Answer:
    """Answer once a stream is longer than the caller knows (true), or the time is up (false)."""
    wanted = wire.load_waiting(await call.request.read())
    _require_space(call, wanted.key.space)
    if not 0 <= wanted.timeout_seconds <= LONGEST_WAIT_SECONDS or not 0 <= wanted.length < 2**53:
        raise InvalidInput(f"wait for at most {LONGEST_WAIT_SECONDS:g} seconds, from a length that can be")
    with call.state.streams.one(call.caller.name):
        longer = await _longer(call, wanted.key, wanted.length, wanted.timeout_seconds)
    return _answer(wire.dump(longer))


def right_for(write: Write) -> Right:
    """Return the right that a write to the port takes."""
    if write.key.kind in REVIEWED:
        return "review"
    return "admin" if write.key.kind in RECORDED and isinstance(write, Truncate | Erase | Delete) else "write"


async def _longer(call: Call[Any, Any], key: Key, length: int, timeout_seconds: float) -> bool:
    store: Any = call.ctx.store
    waiting = asyncio.ensure_future(store.wait(key, length, timeout_seconds))
    leaving = asyncio.ensure_future(call.state.closing.wait())
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
        [here] = await store.read([Range(key, 0, 0)])
        return bool(here.length > length)
    finally:
        await end(waiting, leaving)


def _require_space(call: Call[Any, Any], space: str) -> None:
    if space != call.caller.space:
        raise Refusal(403, "forbidden", "this key opens another space")


def _require_few(parts: Iterable[Any]) -> None:
    if sum(1 for _ in parts) > MOST_PARTS:
        raise InvalidInput(f"at most {MOST_PARTS} questions or writes at once; nothing changed")


def _answer(content: bytes) -> Answer:
    return Answer(content, media=wire.MEDIA)


def _endpoint(method: str, path: str, call: Any, right: Right, summary: str) -> Endpoint:
    accepts = wire.MEDIA if method == "POST" else "application/json"
    return Endpoint(
        method=method,
        path=path,
        call=call,
        right=right,
        summary=summary,
        group="store",
        accepts=accepts,
        media=wire.MEDIA,
    )


ENDPOINTS = (
    _endpoint("GET", "/store", about, "read", "What this key opens"),
    _endpoint("POST", "/store/read", read, "read", "Answer questions from one snapshot"),
    _endpoint("POST", "/store/commit", commit, "write", "Commit all of it or nothing"),
    _endpoint("POST", "/store/search", search, "read", "Find words"),
    _endpoint("POST", "/store/wait", wait, "read", "Wait for a stream to grow"),
)
