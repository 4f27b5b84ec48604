"""Whether what many threads saw can be explained by one order of their calls.

A `Recorder` stands in front of a store and notes when each call began and ended. `linearizable` then looks for an
order in which every call happens at one moment between its beginning and its end, and every answer is right. If there
is none, the store did something that no sequence of calls explains.

The search is Wing and Gong's with Lowe's memory: a state that was reached by the same set of calls is not tried again.
A call whose outcome is unknown may have happened at any time after it began, or never.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from strongroom.errors import CommitUnknown, Conflict, InvalidInput, StrongroomError
from strongroom.store import (
    EXISTS,
    Answer,
    AnyQuestion,
    Append,
    Commit,
    Durability,
    Get,
    Key,
    Put,
    Range,
    Receipt,
    ReceiptOf,
    Store,
    Tail,
)

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")


class Operation(Struct, frozen=True):
    """A call and what came of it. `ended` is None if nobody knows whether it happened."""

    began: int
    ended: int | None
    call: Any
    result: Any = None


Step = Callable[[S, Operation], Iterable[S]]
"""The states an operation may lead to from a state; none, if its result would be impossible there."""


def linearizable(history: Sequence[Operation], initial: S, step: Step[S]) -> bool:
    """Tell whether some order of the operations explains all their results.

    `step` says what one operation does. It is given operations of unknown outcome too, and then says what happens if
    they happen; that they may never happen is known here.
    """
    calls = sorted(history, key=lambda operation: operation.began)
    ends = [float("inf") if operation.ended is None else operation.ended for operation in calls]
    certain = sum(1 << place for place, operation in enumerate(calls) if operation.ended is not None)
    seen: set[tuple[int, S]] = set()
    stack: list[tuple[int, S]] = [(0, initial)]
    while stack:
        done, state = stack.pop()
        if done & certain == certain:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        # Nothing can come next that began after another one, still to be placed, had ended.
        horizon = min(end for place, end in enumerate(ends) if not done >> place & 1)
        for place, operation in enumerate(calls):
            if operation.began > horizon:
                break
            if not done >> place & 1:
                stack += [(done | 1 << place, reached) for reached in step(state, operation)]
    return False


class Recorder:
    """A store that remembers what was asked of it and what it answered, for any number of threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = itertools.count()
        self._operations: dict[int, Operation] = {}

    @property
    def history(self) -> tuple[Operation, ...]:
        """Every call so far. One that has not ended counts as one of unknown outcome."""
        return tuple(self._operations.values())

    @property
    def durability(self) -> Durability:
        return self._store.durability

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return self._record(tuple(questions), lambda: self._store.read(questions))

    def commit(self, commit: Commit) -> Receipt:
        return self._record(commit, lambda: self._store.commit(commit))

    def close(self) -> None:
        self._store.close()

    def _record(self, call: Any, run: Callable[[], T]) -> T:
        began = next(self._clock)  # next() on a count is one step for all threads
        self._operations[began] = Operation(began, None, call)
        try:
            result = run()
        except CommitUnknown:
            raise
        except StrongroomError as error:
            self._operations[began] = Operation(began, next(self._clock), call, error)
            raise
        self._operations[began] = Operation(began, next(self._clock), call, result)
        return result


# ---- what the port's verbs do, as far as a recorded history needs to know -------------------------------------------


State = frozenset[tuple[Key | ReceiptOf, int, bytes]]
"""For each key that exists, its version and its value, or for a stream the bodies of its records, joined.

For each commit that was made, by the question for it, its receipt.
"""

EMPTY: State = frozenset()


def store_step(state: State, operation: Operation) -> Iterable[State]:
    """`step` for histories of `Get`, `Range`, `Tail`, `ReceiptOf`, `Put`, `Append` and `Expect`, of any keys."""
    held = {key: (version, value) for key, version, value in state}
    if not isinstance(operation.call, Commit):
        if operation.ended is None or isinstance(operation.result, StrongroomError):
            return [state]  # nothing was learnt
        right = all(
            _answers(held, question, answer)
            for question, answer in zip(operation.call, operation.result or (), strict=True)
        )
        return [state] if right else []
    commit = operation.call
    name = ReceiptOf(commit.space, commit.id)
    if name in held:  # a repeat gets the first receipt and changes nothing
        return [state] if _repeats(commit, operation.result, held[name][1]) else []
    if isinstance(operation.result, InvalidInput) and operation.result.path == "commit_id":
        return []  # nobody has used it
    met = all(_meets(held.get(expect.key, (0, b""))[0], expect.version) for expect in commit.expects)
    if isinstance(operation.result, Conflict):
        return [] if met else [state]
    if isinstance(operation.result, StrongroomError):
        return [state]  # the store failed and says that nothing changed
    if not met:
        return []
    versions = tuple([_write(held, write) for write in commit.writes])
    sealed = _sealed(Receipt(commit.id, versions, commit.digest, commit.answer))
    if operation.result is not None and _sealed(operation.result) != sealed:
        return []
    held[name] = (0, sealed)
    return [frozenset((key, version, value) for key, (version, value) in held.items())]


def _repeats(commit: Commit, result: Any, sealed: bytes) -> bool:
    """Tell whether a commit whose receipt is there may be answered so. Who was not answered, or not served, may."""
    if isinstance(result, Receipt):
        return result.repeated and result.digest == commit.digest and _sealed(result) == sealed
    if isinstance(result, InvalidInput):
        return result.path == "commit_id" and _digest_of(sealed) != commit.digest
    return not isinstance(result, Conflict)


def _sealed(receipt: Receipt) -> bytes:
    answer = None if receipt.answer is None else bytes(receipt.answer)
    return msgspec.msgpack.encode((receipt.digest, receipt.versions, answer))


def _digest_of(sealed: bytes) -> bytes:
    return msgspec.msgpack.decode(sealed, type=tuple[bytes, tuple[int, ...], bytes | None])[0]


def _meets(actual: int, expected: int) -> bool:
    return actual > 0 if expected == EXISTS else actual == expected


def _write(held: dict[Key | ReceiptOf, tuple[int, bytes]], write: Any) -> int:
    version, value = held.get(write.key, (0, b""))
    if isinstance(write, Put):
        held[write.key] = (version + 1, write.value)
    elif isinstance(write, Append):
        bodies = b"".join(entry.body + b"\n" for entry in write.entries)
        held[write.key] = (version + len(write.entries), value + bodies)
    else:
        raise TypeError(f"a recorded history may put and append, but not {type(write).__name__}")
    return held[write.key][0]


def _answers(held: dict[Key | ReceiptOf, tuple[int, bytes]], question: Any, answer: Any) -> bool:
    if isinstance(question, ReceiptOf):
        made = held.get(question)
        return answer is None if made is None else answer is not None and _sealed(answer) == made[1]
    version, value = held.get(question.key, (0, b""))
    if isinstance(question, Get):
        return (version, value) == (0, b"") if answer is None else (answer.version, answer.value) == (version, value)
    if isinstance(question, Range) and question == Range(question.key):
        return bool(answer.length == version and b"".join(record.body + b"\n" for record in answer.records) == value)
    if isinstance(question, Tail) and question.count is not None and question == Tail(question.key, question.count):
        wanted = value.splitlines(keepends=True)[-question.count :] if question.count else []
        return bool(answer.length == version and [record.body + b"\n" for record in answer.records] == wanted)
    raise TypeError(
        f"a recorded history may ask for documents, whole streams, tails and receipts, but not {question!r}"
    )
