"""What both stores share: what to send, what to do when no answer comes, what to remember.

Theory of operation
-------------------
* A verb is one script call. `layout` says where things are, `encoding` and `decoding` are pure, `connections` does I/O.
* A commit whose answer is lost is sent again under the same id: the script finds the first one's receipt or applies it
  now. So most cuts heal. If the time is up first, the outcome is `CommitUnknown`, and the caller's own repeat resolves
  it in the same way. A copy that was refused after an earlier one was lost voids the earlier one (commit.lua).
* The last receipt of each space must still be there when we commit again, as long as it is kept. If not, a stale
  replica has taken over or an old copy was restored: `Damaged(reason="regressed")`, never a silent merge.
* A node is asked for its settings on each new connection, because it may have been restarted with others.
* In a cluster the routes are learnt from the server's own MOVED answers, one a space; nothing else is needed, because
  a call never leaves its space.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from strongroom.backends.redis.connections import Command, Connections, Node, Signal
from strongroom.backends.redis.decoding import decode_answers, decode_commit, decode_part
from strongroom.backends.redis.encoding import (
    Attempt,
    ScriptCall,
    encode_commit,
    encode_questions,
    with_attempt,
)
from strongroom.backends.redis.failures import PASSING, Refused, Unanswered, Unsent, translate
from strongroom.backends.redis.guarantees import (
    UNKNOWN,
    check_settings,
    durability_of,
    parse_settings,
    weakest,
)
from strongroom.backends.redis.layout import Address, Layout
from strongroom.backends.redis.scripts import COMMIT, READ, Script
from strongroom.elapsed import elapsed
from strongroom.errors import Closed, CommitUnknown, StoreError, Unavailable
from strongroom.store import (
    Answer,
    AnyQuestion,
    Commit,
    Durability,
    Key,
    Part,
    Range,
    Receipt,
    ReceiptOf,
    Scan,
    Slice,
    check_sizes,
)

OUR_SECONDS = 25 * 3600  # commit.lua keeps them that long
SURE = 0.96  # of the time that a receipt is kept we count on it: two clocks tell it
MAX_SPACES = 10_000
MAX_HOPS = 5
PAUSES = (0.01, 0.25)
POLLS = (0.005, 0.1)
ASKING = ((b"ASKING",),)

T = TypeVar("T")


class Core:
    """Everything a Redis store does, over connections of either kind."""

    def __init__(
        self,
        connections: Connections,
        address: Address,
        *,
        require_durable: bool,
        wait_aof: bool,
        timeout_seconds: float,
        max_record_bytes: int,
        kept_seconds: float,
    ) -> None:
        self.shown = address.shown
        self.durability = UNKNOWN
        self._connections = connections
        connections.judge = self._judge
        self.layout = Layout(address.prefix)
        self._require_durable = require_durable
        self._wait_aof = wait_aof
        self._waiting = set[Node | None]()  # the nodes whose disks commits wait for
        self._timeout = timeout_seconds
        self._limit = max_record_bytes
        self.kept_seconds = kept_seconds
        self._closed = False
        self._clustered = False
        self._entry: Node | None = None
        self._routes: dict[str, Node | None] = {}
        self._nodes: dict[Node | None, Durability] = {}
        self._last: OrderedDict[str, tuple[str, float]] = OrderedDict()  # and until when we count on it
        # Sets, because adding and discarding are atomic: these are touched by every thread that uses the store.
        self._watchers: set[tuple[Key, Signal]] = set()
        self._under_way: set[object] = set()
        # What names a call among those of all processes; the scripts expect hex digits.
        self._name, self._calls = os.urandom(8).hex(), itertools.count()

    @property
    def needed_elsewhere(self) -> dict[str, Any]:
        return {"prefix": self.layout.prefix, "timeout_seconds": self._timeout}

    # ---- the verbs --------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Reach the server once and judge its settings."""
        try:
            await self.persist(lambda _: self._connections.exchange([("PING",)], None), patient=False)
        except BaseException:
            await self._connections.close()
            raise

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Answer all questions from one snapshot (in a cluster: one snapshot a space)."""
        self.check_open(writing=False)
        groups = self._groups(questions)
        answers: list[Answer] = [None] * len(questions)
        for space, places in groups.items():
            asked = [questions[place] for place in places]
            for place, answer in zip(places, await self._ask(space, asked), strict=True):
                answers[place] = answer
        return answers

    async def read_within(self, questions: Sequence[AnyQuestion], max_bytes: int) -> Part:
        """Answer the first questions, as many as fit, from one snapshot (of several spaces: one after the other)."""
        self.check_open(writing=False)
        if not questions:
            return Part([])
        space, places = next(iter(self._groups(questions).items()))
        together = sum(1 for place, mine in enumerate(places) if place == mine)  # the first ones, of one server
        return await self._ask_within(space, questions[:together], max_bytes)

    async def _ask(self, space: str, questions: Sequence[AnyQuestion]) -> list[Answer]:
        return (await self._ask_within(space, questions, None)).answers

    async def _ask_within(self, space: str, questions: Sequence[AnyQuestion], max_bytes: int | None) -> Part:
        """Ask about one space. A receipt that is found must be as durable as an acknowledged commit."""
        touch = self._wait_aof and any(type(question) is ReceiptOf for question in questions)
        call = encode_questions(self.layout, questions, touch, max_bytes)
        reply, *synced = await self.persist(lambda _: self.send(space, READ, call, synced=touch))
        part = decode_part(questions, reply)
        if synced and not _is_synced(synced[0]) and any(type(answer) is Receipt for answer in part.answers):
            raise Unavailable(
                "the server did not confirm that a commit is on its disk; nothing changed", reason="fsync"
            )
        return part

    async def commit(self, commit: Commit) -> Receipt:
        """Apply a commit; send it again until the server has answered or the time is up."""
        self.check_open()
        check_sizes(commit, self._limit)
        return await self.apply(commit, encode_commit(self.layout, commit, self.kept_seconds))

    async def apply(self, commit: Commit, call: ScriptCall) -> Receipt:
        """Run the commit script until it has answered; `commit` says what a refusal is about."""
        space, name = commit.space, f"{self._name}{next(self._calls):x}"

        def send(number: int) -> Awaitable[list[Any]]:
            attempt = Attempt(self._last_receipt(space), name, number, self._wait_aof)
            return self.send(space, COMMIT, with_attempt(call, attempt), synced=True)

        reply, *synced = await self.persist(send, commit_id=commit.id)
        receipt = decode_commit(commit, reply)
        if synced and not _is_synced(synced[0]):
            raise CommitUnknown(
                "the server did not confirm that the commit is on its disk; repeat it with the same id",
                reason="fsync",
                commit_id=commit.id,
            )
        if not receipt.repeated:  # else it may be about to end
            self._remember(space, commit)
        if self._watchers:
            self._wake({write.key for write in commit.writes})
        return receipt

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        """Return once the stream is longer than `length`, or the time is up.

        Commits through this store wake us at once, those of others are found by looking again, ever more slowly.
        Looking borrows a connection for one round trip; publish/subscribe would keep one for good, and its messages are
        lost whenever that connection is.
        """
        deadline = time.monotonic() + timeout_seconds
        call = encode_questions(self.layout, [Range(key, 0, 0)])
        signal = self._connections.signal()
        watcher = (key, signal)
        self._watchers.add(watcher)
        pause = POLLS[0]
        try:
            while not self._closed:
                signal.clear()
                try:
                    (reply,) = await self.send(key.space, READ, call)
                    [found] = decode_answers([Range(key, 0, 0)], reply)
                    if isinstance(found, Slice) and found.length > length:
                        return
                except (Unsent, Unanswered, Refused, StoreError):
                    pass  # the reader who looks again is told; this is only a hint
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                await self._connections.pause(min(left, pause), signal)
                pause = min(pause * 1.5, POLLS[1])
        finally:
            self._watchers.discard(watcher)

    async def close(self) -> None:
        """Let what is under way finish, then let go of the connections. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        self._wake(None)
        deadline = time.monotonic() + self._timeout
        while self._under_way and time.monotonic() < deadline:
            await self._connections.pause(0.002)
        await self._connections.close()

    # ---- one answer, whatever it takes ------------------------------------------------------------------------------

    async def persist(
        self, send: Callable[[int], Awaitable[T]], *, commit_id: str | None = None, patient: bool = True
    ) -> T:
        """Send until there is an answer. `send` is told how many copies may be about, this one included."""
        deadline = time.monotonic() + self._timeout
        pause, lost = PAUSES[0], 0
        problem: Exception
        token = object()
        self._under_way.add(token)
        try:
            while True:
                try:
                    return await send(lost + 1)
                except Unanswered as error:
                    lost += 1
                    problem = error
                except (Unsent, Refused, StoreError) as error:
                    problem = error
                if isinstance(problem, Refused):
                    again = problem.word in PASSING
                else:
                    again = patient and isinstance(problem, (Unsent, Unanswered))
                if not again or self._closed or time.monotonic() + pause > deadline:
                    break
                await self._connections.pause(pause)
                pause = min(pause * 2, PAUSES[1])
        finally:
            self._under_way.discard(token)
        # Outside of any except block, so that no driver error (and nothing it quotes) hangs on to ours.
        failure = (
            problem
            if isinstance(problem, StoreError)
            else translate(problem, self.shown, writing=commit_id is not None)
        )
        if lost and commit_id is not None:
            failure = CommitUnknown(
                f"the connection to {self.shown} was lost before it answered; repeat the commit with the same id",
                reason=failure.reason,
                commit_id=commit_id,
            )
        raise failure

    async def send(self, space: str, script: Script, call: ScriptCall, *, synced: bool = False) -> list[Any]:
        """Run a script once, where the space is; return its reply, and if it is to be `synced` whether it was, where
        the node's disk is waited for."""
        asked: Node | None = None
        for _ in range(MAX_HOPS):
            node = asked or self._routes.get(space, self._entry)
            try:
                replies = await self._run(script, call, node, asking=asked is not None, synced=synced)
            except (Unsent, Unanswered):
                self._forget(node)
                raise
            if not isinstance(replies[0], Refused):
                return replies
            if replies[0].word not in ("MOVED", "ASK"):
                raise replies[0]
            target = _target(replies[0].text, node)
            if replies[0].word == "ASK":
                asked = target
            else:
                asked = None
                if len(self._routes) >= MAX_SPACES:
                    self._routes.clear()
                self._routes[space] = target
        raise replies[0]

    async def _run(
        self, script: Script, call: ScriptCall, node: Node | None, *, asking: bool, synced: bool
    ) -> list[Any]:
        def then() -> Sequence[Command]:
            return self._after_commit(node) if synced else ()

        before: Sequence[Command] = ASKING if asking else ()
        rest = (len(call.keys), *call.keys, *call.arguments)
        replies = await self._connections.exchange([*before, (b"EVALSHA", script.sha, *rest)], node, then)
        first = replies[len(before)]
        if type(first) is Refused and first.word == "NOSCRIPT":
            replies = await self._connections.exchange([*before, (b"EVAL", script.text, *rest)], node, then)
        return replies[len(before) :] if before else replies

    async def ask(self, command: Command, node: Node | None) -> Any:
        """Return a node's answer to a command that may be repeated."""
        (reply,) = await self.persist(lambda _: self._connections.exchange([command], node))
        return reply

    # ---- nodes ------------------------------------------------------------------------------------------------------

    async def primaries(self) -> list[Node | None]:
        """Return every node that holds a part of the data."""
        if not self._clustered:
            return [None]
        said = await self.ask(("CLUSTER", "NODES"), self._entry)
        lines = [line.split() for line in said.decode().splitlines()]
        return [_target(line[1].partition("@")[0], self._entry) for line in lines if "master" in line[2]]

    def _judge(self, node: Node | None, replies: Sequence[Any]) -> None:
        """Note what a node promises; raise `Unavailable` if that is not good enough."""
        settings = parse_settings(replies)
        waits = self._wait_aof and settings.can_wait
        durability = durability_of(settings, waits=waits)
        check_settings(settings, durability, require_durable=self._require_durable, shown=self.shown)
        self._clustered = settings.clustered
        (self._waiting.add if waits else self._waiting.discard)(node)
        self._nodes[node] = durability
        self.durability = weakest(list(self._nodes.values()))

    def _forget(self, node: Node | None) -> None:
        """After a failure: do not count on this node, nor on its being where things are."""
        self._nodes.pop(node, None)
        self._routes = {space: known for space, known in list(self._routes.items()) if known != node}
        if node == self._entry:
            self._entry = next(iter(list(self._nodes)), None)

    def _groups(self, questions: Sequence[AnyQuestion]) -> dict[str, list[int]]:
        """Return which questions go together: all of them, or in a cluster those of one space."""
        groups: dict[str, list[int]] = {}
        for place, question in enumerate(questions):
            space = question.space if isinstance(question, (Scan, ReceiptOf)) else question.key.space
            groups.setdefault(space if self._clustered or not groups else next(iter(groups)), []).append(place)
        return groups

    # ---- memory -----------------------------------------------------------------------------------------------------

    def _after_commit(self, node: Node | None) -> Sequence[Command]:
        return [("WAITAOF", 1, 0, int(self._timeout * 250))] if node in self._waiting else ()

    def _last_receipt(self, space: str) -> str:
        id, until = self._last.get(space, ("", 0.0))
        return id if elapsed() < until else ""

    def _remember(self, space: str, commit: Commit) -> None:
        seconds = self.kept_seconds if commit.keep else OUR_SECONDS
        self._last[space] = (commit.id, elapsed() + SURE * seconds)
        if len(self._last) > MAX_SPACES:
            try:
                self._last.popitem(last=False)
            except KeyError:
                pass

    def _wake(self, keys: set[Key] | None) -> None:
        for key, signal in tuple(self._watchers):
            if keys is None or key in keys:
                signal.set()

    def check_open(self, *, writing: bool = True) -> None:
        if self._closed:
            raise Closed("this store is closed" + "; nothing changed" * writing)


def _is_synced(reply: Any) -> bool:
    return isinstance(reply, list) and bool(reply) and isinstance(reply[0], int) and reply[0] >= 1


def _target(text: str, node: Node | None) -> Node:
    """Return where a MOVED or ASK answer points to: "slot host:port", with the host left out if it is the same."""
    host, _, port = text.rpartition(" ")[2].rpartition(":")
    return (host or (node[0] if node else "localhost"), int(port))
