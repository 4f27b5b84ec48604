"""One way to make an operation. Every service method that writes goes through `perform`.

Only what adapters keep beside a session is taken away without it (`beside.Taking.commit`): nothing answers for those
steps, and taking one again does nothing more.

Theory of operation
-------------------
An operation is known by its name, its target and the id its caller chose; its content is known by a digest. From name,
target and id follows the id that the store sees, so `turn-7` of one session and `turn-7` of another are two commits.
The digest travels with the commit and is kept with its receipt. So a repeat ends in one of three ways:

* same everything: nothing is done, and the first answer is given again, made from the receipt by `replay`;
* same id and target, other content: refused, nothing changed;
* another target or another operation: another commit.

Without an id from its caller an operation gets one of ours. `CommitUnknown.commit_id` tells it, and giving that back
as `commit_id` repeats the very same commit.

Over a store that performs operations itself (a server's, behind HTTP) nothing is attempted here: the operation is sent
as what was asked for, the server makes it with the same service, and its receipt is replayed here. What callers decide
from what they read (a callback, a file of theirs) is decided here and sent along; if the server finds that it no longer
fits (`Undecided`), it is decided anew.

Rules
-----
1. An attempt reads and decides, and writes nothing. It may be made several times. Where one commit is not enough, it
   may take the steps before the last one (`step`), which must be such that taking them again does nothing more.
2. What a lost race means is decided anew by the next attempt, until `retry` says it is enough.
3. Whoever hears of a failure hears the truth: that nothing changed, or, after a step, that part of it is done.
4. Before anybody who named an id hears of a refusal, the receipt is looked for once more: the first call may have
   landed between, and have made impossible what it did.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from strongroom.codec import Json, encode
from strongroom.errors import CommitUnknown, Conflict, InvalidInput, StrongroomError
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.store import Commit, Erase, Expect, Key, Receipt, ReceiptOf, Write, new_id, require_name, used_otherwise

T = TypeVar("T")

DIGEST_BYTES = 16
OURS = "~"
TIME = 16  # digits of an id of ours that are its time
_OURS = re.compile(r"~[0-9a-f]{32}")
# Smaller than every id of ours, so that these stay the greatest: stores know those to be new without looking.
_CHOSEN = "!"
NOTHING = encode({})  # the content of what takes no arguments
UNCHANGED = "nothing changed"
PARTLY = "part of it is done, and a repeat goes on"

Source = Callable[[], AbstractContextManager[Iterator[bytes]]]


class Operation(Struct, frozen=True):
    """What a caller asked for: which operation, about what, with what content, under which id.

    `content` is the arguments by their names. `besides` are arguments that are no part of what the id stands for;
    `source` opens bytes that go with them. `life` tells what has the target's name now from what had it before it was
    deleted: an id that was used for the one says nothing about the other. If it is `of_all_lives`, it is refused there.
    """

    name: str
    target: Key
    content: Json
    commit_id: str | None = None
    besides: Json | None = None
    source: Source | None = None
    life: str = ""
    of_all_lives: bool = False


class Performer(Protocol):
    """A store that performs operations itself."""

    async def perform(self, operation: Operation) -> Receipt | None:
        """Have an operation made. None: it is for the caller to decide, or to decide anew."""
        ...

    async def new_id(self) -> str:
        """Return an id of ours by the clock of whoever performs, who goes by its time."""
        ...


class Undecided(Exception):
    """An operation waits for its caller's decision: there is none yet, or it is about what is no longer so."""


def look_again(conflict: Conflict) -> None:
    """The `refusal` of a plan that is made anew about what is there now."""


class Plan(Struct, Generic[T], frozen=True):
    """What one attempt wants to write, and what is then answered.

    `answer` is kept with the receipt, for a `replay` that needs more than the versions. `refusal` turns a `Conflict`
    that no further attempt can mend into what the caller hears; None means: try again. `owes`: see `Commit`.
    """

    expects: Sequence[Expect]
    writes: Sequence[Write]
    result: Callable[[Receipt], T]
    answer: Json | None = None
    refusal: Callable[[Conflict], StrongroomError | None] = look_again
    owes: bool = False


class Prepared(NamedTuple, Generic[T]):
    """An operation that was looked at and can be made: what `perform` takes."""

    operation: Operation
    attempt: Callable[[], Awaitable[Plan[T] | None]]
    replay: Callable[[Receipt], Awaitable[T]]
    decide: Callable[[], Awaitable[Json]] | None = None


async def perform(
    scope: Scope,
    operation: Operation,
    attempt: Callable[[], Awaitable[Plan[T] | None]],
    replay: Callable[[Receipt], Awaitable[T]],
    decide: Callable[[], Awaitable[Json]] | None = None,
) -> T:
    """Make an operation once, however often it is asked for, and return its answer.

    An attempt that saw things change while it read them returns None, and is made again. `decide` says, where the
    operation is made elsewhere, what its caller decides (see `Operation.besides`).
    """
    there = _performer(scope)
    if there is not None:
        return await replay(await _asked(there, operation, decide))
    id, digest = identify(operation)
    before = _made.get()
    try:
        receipt, plan = await attempted(scope, operation, id, digest, attempt, chosen=operation.commit_id is not None)
        _tell(operation, receipt)
        return await replay(receipt) if plan is None else plan.result(receipt)
    except CommitUnknown as problem:
        # Whichever of its commits lost its answer, what is to be repeated is the operation.
        problem.commit_id = OURS + id if operation.commit_id is None else operation.commit_id
        raise
    except StrongroomError as problem:
        if _made.get() != before:
            partly(problem)
        raise


async def attempted(
    scope: Scope,
    operation: Operation,
    id: str,
    digest: bytes,
    attempt: Callable[[], Awaitable[Plan[T] | None]],
    *,
    chosen: bool,
) -> tuple[Receipt, Plan[T] | None]:
    """Return the receipt, and the plan that led to it; no plan if an earlier call made it, which can be if the id was
    chosen by its caller."""
    if chosen and (done := await _done(scope, id, digest, operation)) is not None:
        return done, None
    for _ in attempts(f"{operation.target.kind} {operation.target.id!r}"):
        try:
            plan = await attempt()
        except StrongroomError as problem:
            if chosen and (done := await _done(scope, id, digest, operation)) is not None:
                return done, None
            unchanged(problem)
            raise
        if plan is None:
            continue
        if not plan.writes and (operation.commit_id is None or not plan.expects):
            return Receipt(id, (), answer=plan.answer), plan
        keep = id.startswith(_CHOSEN)  # not those of ours that come back
        commit = Commit(id, tuple(plan.expects), tuple(plan.writes), digest, plan.answer, keep, plan.owes)
        try:
            receipt = await committed(scope, commit)
        except Conflict as conflict:
            refusal = plan.refusal(conflict)
            if refusal is None:
                continue
            if chosen and (done := await _done(scope, id, digest, operation)) is not None:
                return done, None
            raise unchanged(refusal) from None
        except InvalidInput as problem:
            raise _named(problem, operation) from None
        # An id of ours that is repeated was repeated below us, with this very plan.
        return receipt, None if receipt.repeated and chosen else plan
    raise AssertionError("attempts() raises when it is enough")


_made: ContextVar[int] = ContextVar("strongroom_made", default=0)


async def committed(scope: Scope, commit: Commit) -> Receipt:
    """Make a commit, and count it: an operation of several that fails says whether any was made."""
    receipt = await scope.store.commit(commit)
    if not getattr(scope.store, "only_plans", False):
        _made.set(_made.get() + 1)
    return receipt


@contextmanager
def of_several() -> Iterator[None]:
    """Have whoever hears of a failure in the block hear that part of it is done, if a commit was made there: for what
    is no operation and takes several commits."""
    before = _made.get()
    try:
        yield
    except StrongroomError as problem:
        if _made.get() != before:
            partly(problem)
        raise


def made_here(scope: Scope) -> bool:
    """Tell whether operations are made in this process, and not by a server."""
    return _performer(scope) is None


def _performer(scope: Scope) -> Performer | None:
    return cast("Performer", scope.store) if hasattr(scope.store, "perform") else None


async def _asked(there: Performer, operation: Operation, decide: Callable[[], Awaitable[Json]] | None) -> Receipt:
    """Have an operation made by a server, which looks for an earlier call's receipt before it asks for a decision."""
    given = operation.commit_id
    id = "" if given is None else require_name(given, "a commit id")
    try:
        id = id or OURS + await there.new_id()
        asked, receipt = replace(operation, commit_id=id), None
        if decide is None or given is not None or asked.besides is not None:
            receipt = await there.perform(asked)
        if decide is not None and receipt is None:
            for _ in attempts(f"{operation.target.kind} {operation.target.id!r}"):
                receipt = await there.perform(replace(asked, besides=await decide()))
                if receipt is not None:
                    break
    except CommitUnknown as problem:
        problem.commit_id = id
        raise
    except InvalidInput as problem:
        raise unchanged(_named(problem, operation)) from None
    except StrongroomError as problem:
        raise unchanged(problem) from None
    if receipt is None:  # a server knows what is for callers to decide
        raise CommitUnknown(
            "what was answered is no receipt; the commit may or may not have happened, which a repeat with the same id "
            "tells",
            reason="connection",
            commit_id=id,
        )
    return receipt


# ---- who wants to see the receipt -----------------------------------------------------------------------------------


class Witness(Struct):
    """The receipt of the operation that a call makes under an id, for whoever answers with it."""

    commit_id: str
    receipt: Receipt | None = None


_witness: ContextVar[Witness | None] = ContextVar("strongroom_witness", default=None)


@contextmanager
def witnessing(commit_id: str) -> Iterator[Witness]:
    """See the receipt of the operation that is made under this id inside of the block."""
    witness = Witness(commit_id)
    token = _witness.set(witness)
    try:
        yield witness
    finally:
        _witness.reset(token)


async def repeated(scope: Scope, operation: Operation) -> Receipt | None:
    """Return the receipt if this was done before, and show it to whoever wants to see it.

    For whoever has to look at something before an operation is made, and would refuse because it was made.
    """
    receipt = await _done(scope, *identify(operation), operation)
    if receipt is not None:
        _tell(operation, receipt)
    return receipt


def _tell(operation: Operation, receipt: Receipt) -> None:
    witness = _witness.get()
    if witness is not None and witness.receipt is None and witness.commit_id == operation.commit_id:
        witness.receipt = receipt


# ---- small parts ----------------------------------------------------------------------------------------------------


async def step(scope: Scope, target: Key, attempt: Callable[[], Awaitable[Plan[T]]]) -> T:
    """Make one commit of those that come before the last one of an operation."""

    async def replay(receipt: Receipt) -> T:
        raise AssertionError("nobody else knows the id of a step")

    return await perform(scope, Operation("step", target, NOTHING), attempt, replay)


def traces(stream: Key) -> Erase:
    """Return what makes a commit an erasure: what it takes away, and what was owed before, leaves the store's files."""
    return Erase(stream, 0, 0)


async def erasing_step(scope: Scope, stream: Key, attempt: Callable[[], Awaitable[Plan[T]]]) -> T:
    """Make one commit of an erasure before the last one: it owes what the last one pays, and is on record till then."""

    async def owing() -> Plan[T]:
        plan = await attempt()
        return replace(plan, writes=(*plan.writes, traces(stream)), owes=True) if plan.writes else plan

    return await step(scope, stream, owing)


async def still_pending(scope: Scope, stream: Key, receipt: Receipt) -> str | None:
    """Return what an erasure that was made before waits for: whoever made it may have been killed before the store's
    files were clean, so they are cleaned now."""

    async def clean() -> Plan[str | None]:
        return Plan((), (traces(stream),), lambda made: made.pending)

    return await step(scope, stream, clean) if made_here(scope) else receipt.pending


_new_id: ContextVar[Callable[[], str]] = ContextVar("strongroom_new_id", default=new_id)


class MakingIds:
    """Have the ids of operations without one made by somebody else inside of the block: a server marks them."""

    __slots__ = ("_make", "_token")

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __enter__(self) -> None:
        self._token = _new_id.set(self._make)

    def __exit__(self, *_: object) -> None:
        _new_id.reset(self._token)


def identify(operation: Operation) -> tuple[str, bytes]:
    """Return the id that the store sees, and the digest of what was asked for."""
    given, target = operation.commit_id, operation.target
    about = _joined(operation.name, target.kind, target.id, operation.life)
    digest = blake2b(about + operation.content, digest_size=DIGEST_BYTES).digest()
    if given is None:
        return _new_id.get()(), digest
    if is_ours(require_name(given, "a commit id")):
        return given[1:], digest
    if operation.of_all_lives:
        about = _joined(operation.name, target.kind, target.id, "")
    return _CHOSEN + blake2b(about + given.encode(), digest_size=DIGEST_BYTES).hexdigest(), digest


def is_ours(id: str) -> bool:
    """Tell whether an id is one of ours that `CommitUnknown` named."""
    return _OURS.fullmatch(id) is not None


def made_ns(id: str) -> int:
    """Return when an id of ours was made, by the clock of whoever made it."""
    return int(id[len(OURS) : len(OURS) + TIME], 16)


async def _done(scope: Scope, id: str, digest: bytes, operation: Operation) -> Receipt | None:
    receipt = await scope.get(ReceiptOf(scope.space, id))
    if receipt is not None and receipt.digest != digest:
        assert operation.commit_id is not None
        raise used_otherwise(operation.commit_id)
    return receipt


def itself(receipt: Receipt) -> Receipt:
    """Answer with the receipt, for whoever makes the answer of it whether it is the first time or not."""
    return receipt


async def again(receipt: Receipt) -> Receipt:
    """The `replay` that goes with `itself`."""
    return receipt


async def nothing(receipt: Receipt) -> Any:
    """The `replay` of what answers nothing."""


def unchanged(problem: StrongroomError) -> StrongroomError:
    """Say that nothing changed, where what was asked in vain was part of a write."""
    said = str(problem)
    if not isinstance(problem, CommitUnknown) and UNCHANGED not in said and PARTLY not in said:
        problem.args = (f"{said}; {UNCHANGED}",)
    return problem


class _Refusing:
    """Say of what is refused in the block that nothing changed.

    What a write looks at before its operation begins (a path, a key) readers look at too, and they must not hear it.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, StrongroomError):
            unchanged(problem)


refusing = _Refusing()


def partly(problem: StrongroomError) -> StrongroomError:
    """Say that part of it is done, where an operation of several commits stopped between two of them."""
    said = str(problem).removesuffix(f"; {UNCHANGED}")
    if not isinstance(problem, CommitUnknown) and PARTLY not in said:
        problem.args = (f"{said}; {PARTLY}",)
    return problem


def _named(problem: InvalidInput, operation: Operation) -> InvalidInput:
    """Say the id that the caller knows, where the store named the one it sees."""
    if problem.path == "commit_id" and operation.commit_id is not None:
        return used_otherwise(operation.commit_id)
    return problem


def _joined(*parts: str) -> bytes:
    # With their lengths in bytes, so that no two lists of parts read the same.
    return "".join([f"{len(part) if part.isascii() else len(part.encode())}:{part}" for part in parts]).encode()
