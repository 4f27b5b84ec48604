"""Life: what a store says about itself, how it tells of news, and how it ends."""

from __future__ import annotations

from unittest import SkipTest

from strongroom.codec import encode
from strongroom.errors import Closed
from strongroom.store import Commit, Durability, Get, Range, Tail, Watchable, ask, new_id
from strongroom.testing.conformance.suite import Suite, append, put, race, raises


class Lifecycle(Suite):
    group = "life"

    def watchable(self) -> Watchable:
        if not isinstance(self.store, Watchable):
            raise SkipTest("this store does not tell of news")
        return self.store

    def test_answers_follow_the_questions(self) -> None:
        """Answers come in the order of the questions, one for each, also for one asked twice."""
        self.do(put(self.key("b"), 2), append(self.key("s"), 3))
        b, nothing, s, again = ask(
            self.store, Get(self.key("b")), Get(self.key("x")), Tail(self.key("s")), Get(self.key("b"))
        )
        assert b is not None and again == b
        assert (b.value, nothing, s.length) == (encode(2), None, 1)

    def test_no_question_has_no_answer(self) -> None:
        """A read without questions answers nothing and is no error."""
        assert self.store.read([]) == []

    def test_a_store_tells_its_durability(self) -> None:
        """A store says what an acknowledged write survives."""
        assert isinstance(self.store.durability, Durability)
        assert self.store.durability.may_lose

    def test_an_answer_does_not_change(self) -> None:
        """What a read answered stays as it was, whatever is written later."""
        self.do(put(self.key("d"), 1, t="1"), append(self.key("s"), 1))
        document, stream = ask(self.store, Get(self.key("d")), Range(self.key("s")))
        assert document is not None
        self.do(put(self.key("d"), 2, t="2"), append(self.key("s"), 2))
        assert (document.version, document.value, document.tags) == (1, encode(1), {"t": "1"})
        assert (stream.length, len(stream.records)) == (1, 1)

    def test_changing_an_answer_changes_nothing(self) -> None:
        """The tags of an answer are the caller's own: changing them does not reach the store."""
        self.do(put(self.key(), 1, t="1"))
        self.document(self.key()).tags["t"] = "spoiled"
        assert self.document(self.key()).tags == {"t": "1"}

    # ---- news -------------------------------------------------------------------------------------------------------

    def test_a_waiter_is_woken_by_an_append(self) -> None:
        """Who waits for a stream to grow is woken when it does."""
        store = self.watchable()
        race(lambda: store.wait(self.key(), 0, 600), lambda: self.do(append(self.key(), 1)))
        assert self.stream(self.key()).length == 1

    def test_every_waiter_is_woken(self) -> None:
        """One append wakes everybody who waits for it."""
        store = self.watchable()
        race(*[lambda: store.wait(self.key(), 0, 600)] * 4, lambda: self.do(append(self.key(), 1)))

    def test_a_follower_misses_nothing(self) -> None:
        """Reading and waiting in turn shows every record once, in order."""
        store = self.watchable()

        def follow() -> list[int]:
            seen: list[int] = []
            while len(seen) < 30:
                store.wait(self.key(), len(seen), 600)
                seen += self.bodies(Range(self.key(), len(seen)))
            return seen

        def write() -> None:
            for n in range(30):
                self.do(append(self.key(), n))

        assert race(follow, write)[0] == list(range(30))

    def test_a_stream_already_longer_needs_no_waiting(self) -> None:
        """Waiting for what has already happened returns at once."""
        self.do(append(self.key(), 1))
        store = self.watchable()
        race(lambda: store.wait(self.key(), 0, 600))

    def test_waiting_ends_in_time(self) -> None:
        """Waiting for what does not happen ends when the time is up, without an error."""
        store = self.watchable()
        assert race(lambda: store.wait(self.key(), 0, 0.01)) == [None]

    # ---- the end ----------------------------------------------------------------------------------------------------

    def test_a_closed_store_reads_nothing(self) -> None:
        """Reading a closed store raises `Closed`."""
        store = self.make_store()
        store.close()
        with raises(Closed):
            store.read([Get(self.key())])

    def test_a_closed_store_writes_nothing(self) -> None:
        """Committing to a closed store raises `Closed`."""
        store = self.make_store()
        store.close()
        with raises(Closed):
            store.commit(Commit(new_id(), writes=(put(self.key()),)))

    def test_closing_twice_is_fine(self) -> None:
        """Closing a closed store does nothing."""
        store = self.make_store()
        store.close()
        store.close()
