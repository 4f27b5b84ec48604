"""A state machine that tries to tell a store from the plain model, or two stores from each other. Needs Hypothesis.

`store_machine(make_store)` is a Hypothesis `RuleBasedStateMachine`: it makes commits of every kind, right and wrong
ones, repeats some of them, uses ids for something else, asks for receipts, and after each step asks the store and
`strongroom.testing.model` the same questions. Give it two stores and they run in lockstep: the same commits, the same
answers, the same refusals::

    TestMine = store_machine(MyStore).TestCase
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from strongroom.codec import Json, encode
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput, StrongroomError
from strongroom.store import (
    EXISTS,
    AnyQuestion,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Get,
    Key,
    Put,
    Range,
    ReceiptOf,
    Scan,
    Store,
    Tail,
    Truncate,
    Write,
    ask,
    new_id,
)
from strongroom.testing.model import Model, Recorded

# Few keys, so that commits meet; "x" is as often one shape as the other.
KEYS = [Key(space, "thing", id) for space in ("one", "two") for id in ("document", "stream", "x")]

numbers = st.integers(0, 9)
optional = st.none() | numbers
keys = st.sampled_from(KEYS)
values = st.sampled_from([encode(value) for value in (None, 0, "text", {"a": [1, 2]}, "\U0001f600", 2**63 - 1)])
texts = st.sampled_from([None, "", "'; --", "\U0001f600"])
commitments = st.sampled_from([None, b"1" * 32, b"2" * 32])
tags = st.dictionaries(st.sampled_from(["t", "u", "=only"]), st.sampled_from(["1", "2"]), max_size=2)
entries = st.builds(Entry, st.sampled_from(["m", "n"]), values, numbers, numbers, texts, texts, texts, commitments)
batches = st.lists(entries, min_size=1, max_size=3).map(tuple)

digests = st.sampled_from([b"", b"1" * 16, b"2" * 16, b"short", b"3" * 32])
answers = st.none() | values
# Ours, and chosen by a caller; smaller and greater than ours, and as a record of SQLite could carry it.
ids = st.sampled_from([lambda: new_id(), lambda: f"!{new_id()}", lambda: f"turn-{new_id()}", lambda: new_id()[::-1]])

documents = st.sampled_from([key for key in KEYS if key.id != "stream"])
streams = st.sampled_from([key for key in KEYS if key.id != "document"])
writes: st.SearchStrategy[Write] = st.one_of(
    st.builds(Put, documents, values, tags),
    st.builds(Append, streams, batches),
    st.builds(Append, streams, batches, numbers),
    st.builds(Truncate, streams, numbers),
    st.builds(Erase, streams, numbers, numbers),
    st.builds(Delete, keys),
)
# An expectation that is right, off by one, or one of the two special ones; what is right only the model knows.
expectations = st.tuples(keys, st.sampled_from(["right", "right", "right", "wrong", "exists", "absent"]))


def outcome(call: Callable[[], Any]) -> Any:
    """What a call answered, or the facts of its refusal, to be compared with those of another store."""
    try:
        return call()
    except Conflict as error:
        return Conflict, error.expected, error.actual, error.key
    except BudgetExceeded as error:
        return BudgetExceeded, error.limit, error.needed
    except InvalidInput as error:
        return InvalidInput, error.path == "commit_id"
    except StrongroomError as error:
        return (type(error),)


def store_machine(
    *makers: Callable[[], Store], reopen: Callable[[Store], Store] | None = None
) -> type[RuleBasedStateMachine]:
    """Return a machine that compares fresh stores with the model and with each other.

    `reopen`, if given, is called now and then to close a store and open it again; what it held must still be there.
    """

    class StoreMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()
            self.stores = [make() for make in makers]
            self.sent: list[Commit] = []
            # A space of its own for each run, so that a server shared by many runs need not be emptied.
            self.run = new_id()

        def teardown(self) -> None:
            for store in self.stores:
                store.close()

        def agree(self, call: Callable[[Any], Any]) -> Any:
            """Ask the model and every store; fail unless all say the same."""
            expected = outcome(lambda: call(self.model))
            for store in self.stores:
                found = outcome(lambda store=store: call(store))  # type: ignore[misc]
                assert found == expected, f"{type(store).__name__} answered {found!r}, expected {expected!r}"
            return expected

        @rule(
            writes=st.lists(writes, min_size=1, max_size=4),
            expects=st.lists(expectations, max_size=2),
            id=ids,
            digest=digests,
            answer=answers,
            keep=st.booleans(),
        )
        def commit(
            self,
            writes: list[Write],
            expects: list[tuple[Key, str]],
            id: Callable[[], str],
            digest: bytes,
            answer: Json | None,
            keep: bool,
        ) -> None:
            space = writes[0].key.space
            mine = tuple(replace(write, key=self.own(write.key, space)) for write in writes)
            self.send(Commit(id(), self.judge(expects, space), mine, digest, answer, keep))

        @rule(expects=st.lists(expectations, min_size=1, max_size=2), digest=digests, answer=answers)
        def only_check(self, expects: list[tuple[Key, str]], digest: bytes, answer: Json | None) -> None:
            self.send(Commit(new_id(), self.judge(expects, expects[0][0].space), (), digest, answer))

        @precondition(lambda self: self.sent)
        @rule(data=st.data())
        def repeat(self, data: st.DataObject) -> None:
            self.send(data.draw(st.sampled_from(self.sent)))

        @precondition(lambda self: self.sent)
        @rule(data=st.data(), write=writes, digest=digests, answer=answers)
        def use_an_id_again(self, data: st.DataObject, write: Write, digest: bytes, answer: Json | None) -> None:
            id = data.draw(st.sampled_from(self.sent)).id
            self.send(Commit(id, (), (replace(write, key=self.own(write.key)),), digest, answer))

        @precondition(lambda self: self.sent)
        @rule(data=st.data())
        def ask_for_receipts(self, data: st.DataObject) -> None:
            id = data.draw(st.sampled_from(self.sent)).id
            spaces = [self.own(KEYS[0], space).space for space in ("one", "two")]
            self.ask(*[ReceiptOf(space, id) for space in spaces], ReceiptOf(spaces[0], f"{id[:-1]}-"))

        @rule(a=numbers, b=optional, c=optional)
        def look_through_windows(self, a: int, b: int | None, c: int | None) -> None:
            for key in map(self.own, KEYS):
                self.ask(Range(key, a, b, c), Tail(key, b, c, a), Tail(key, a, c), Tail(key, b, a, c))

        @rule(key=keys)
        def ask_for_a_document(self, key: Key) -> None:
            self.ask(Get(self.own(key)))

        @rule(tags=tags, limit=st.integers(1, 3), reverse=st.booleans())
        def page(self, tags: dict[str, str], limit: int, reverse: bool) -> None:
            for space in ("one", "two"):
                scan = Scan(self.own(KEYS[0], space).space, "thing", tags, None, limit, reverse)
                self.agree(partial(pages, scan))

        if reopen is not None:

            @rule()
            def reopen_all(self) -> None:
                assert reopen is not None
                self.stores = [reopen(store) for store in self.stores]

        @invariant()
        def everything_is_the_same(self) -> None:
            questions: list[AnyQuestion] = []
            for key in map(self.own, KEYS):
                questions.append(Range(key) if isinstance(self.model.things.get(key), Recorded) else Get(key))
            self.ask(*questions)

        def ask(self, *questions: AnyQuestion) -> None:
            self.agree(lambda store: store.read(questions))

        def own(self, key: Key, space: str | None = None) -> Key:
            return Key(f"{space or key.space}-{self.run}", key.kind, key.id)

        def judge(self, expects: list[tuple[Key, str]], space: str) -> tuple[Expect, ...]:
            judged = []
            for key, kind in expects:
                mine = self.own(key, space)
                right = self.model.version(mine)
                version = {"right": right, "wrong": right + 1, "exists": EXISTS, "absent": 0}[kind]
                judged.append(Expect(mine, version))
            return tuple(judged)

        def send(self, commit: Commit) -> None:
            self.sent.append(commit)
            self.agree(lambda store: store.commit(commit))

    return StoreMachine


def pages(scan: Scan, store: Store | Model) -> list[Any]:
    """Every document on all pages of a scan."""
    if isinstance(store, Model):
        return store.scan(scan)
    found: list[Any] = []
    after = None
    while True:
        page = ask(store, replace(scan, after=after))
        found += page.documents
        after = page.next
        if after is None:
            return found
