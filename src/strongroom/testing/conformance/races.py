"""Races: the same promises while many threads use one store."""

from __future__ import annotations

from functools import partial

from strongroom.errors import BudgetExceeded, Conflict
from strongroom.store import (
    Expect,
    Get,
    Range,
    Receipt,
    Scan,
    Tail,
    Truncate,
    ask,
    ask_all,
)
from strongroom.testing.conformance.suite import Suite, append, put, race, watch

THREADS = 6
ROUNDS = 12


class Races(Suite):
    group = "races"

    def test_appends_commute(self) -> None:
        """Appends without an expectation never conflict: all succeed, and the stream has them all, without a gap."""

        def write(thread: int) -> list[int]:
            return [self.do(append(self.key(), [thread, n])).versions[0] for n in range(ROUNDS)]

        lengths = race(*[partial(write, thread) for thread in range(THREADS)])
        found = self.stream(self.key())
        assert sorted(length for each in lengths for length in each) == list(range(1, THREADS * ROUNDS + 1))
        assert [record.index for record in found.records] == list(range(THREADS * ROUNDS))

    def test_a_threads_own_appends_keep_their_order(self) -> None:
        """What one thread appends one after the other stays in that order, whoever else is writing."""

        def write(thread: int) -> None:
            for n in range(ROUNDS):
                self.do(append(self.key(), [thread, n]))

        race(*[partial(write, thread) for thread in range(THREADS)])
        found = self.bodies(Range(self.key()))
        for thread in range(THREADS):
            assert [n for who, n in found if who == thread] == list(range(ROUNDS))

    def test_the_entries_of_one_append_stay_together(self) -> None:
        """No other record comes between the entries of one append."""

        def write(thread: int) -> None:
            for n in range(ROUNDS):
                self.do(append(self.key(), [thread, n], [thread, n], [thread, n]))

        race(*[partial(write, thread) for thread in range(THREADS)])
        found = self.bodies(Range(self.key()))
        assert all(found[place] == found[place + 1] == found[place + 2] for place in range(0, len(found), 3))

    def test_no_update_is_lost(self) -> None:
        """Threads that read, change and write back under an expectation never overwrite each other."""
        self.do(put(self.key(), 0))

        def increment() -> None:
            for _ in range(ROUNDS):
                while True:
                    seen = self.document(self.key())
                    try:
                        self.do(put(self.key(), seen.value.load() + 1), expects=(Expect(self.key(), seen.version),))
                        break
                    except Conflict:
                        continue

        assert race(*[increment] * THREADS) == [None] * THREADS
        found = self.document(self.key())
        assert (found.value.load(), found.version) == (THREADS * ROUNDS, THREADS * ROUNDS + 1)

    def test_one_of_many_creators_wins(self) -> None:
        """Of all that create one key under `Expect(key, 0)`, exactly one succeeds."""
        for n in range(ROUNDS):
            key = self.key(str(n))
            creators = [partial(self.do, put(key, who), expects=(Expect(key, 0),)) for who in range(THREADS)]
            outcomes = race(*creators)
            winners = [who for who, outcome in enumerate(outcomes) if isinstance(outcome, Receipt)]
            assert winners == [self.value(key)]
            assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == THREADS - 1

    def test_a_length_is_guarded_too(self) -> None:
        """Of all that append at one expected length, exactly one succeeds."""
        for n in range(ROUNDS):
            appends = [partial(self.do, append(self.key(), who), expects=(Expect(self.key(), n),)) for who in range(4)]
            assert sum(isinstance(outcome, Receipt) for outcome in race(*appends)) == 1
        assert self.stream(self.key()).length == ROUNDS

    def test_max_length_is_never_passed(self) -> None:
        """However many threads append at once, none passes `max_length`, and room that is there is used."""
        for n in range(ROUNDS):
            key = self.key(str(n))
            outcomes = race(*[partial(self.do, append(key, who, max_length=2)) for who in range(THREADS)])
            assert sum(isinstance(outcome, BudgetExceeded) for outcome in outcomes) == THREADS - 2
            assert self.stream(key).length == 2

    def test_a_read_is_one_snapshot_of_documents(self) -> None:
        """All answers of one read show the same moment: two documents written together are seen together."""
        a, b = self.key("a"), self.key("b")
        self.do(put(a, 0), put(b, 0))

        def write(n: int) -> None:
            self.do(put(a, n), put(b, n))

        def look() -> None:
            first, second, again = ask(self.store, Get(a), Get(b), Get(a))
            assert first is not None and second is not None
            assert first == again and first.value == second.value, "a read saw two moments"

        watch(write, look, times=100)

    def test_a_read_is_one_snapshot_of_everything(self) -> None:
        """The same holds across documents, streams and scans."""
        document, log = self.key("d"), self.key("log", kind="log")
        self.do(put(document, 0))

        def write(n: int) -> None:
            self.do(append(log, n), put(document, n + 1), put(self.key(f"n{n}"), n))

        def look() -> None:
            scan = Scan(self.space, "thing", limit=500)
            found, whole, newest, page = ask(self.store, Get(document), Range(log), Tail(log, 1), scan)
            assert found is not None
            n = found.value.load()
            assert (whole.length, newest.length, len(whole.records)) == (n, n, n), "a read saw two moments"
            assert [record.index for record in newest.records] == ([n - 1] if n else [])
            assert len(page.documents) == n + 1, "a read saw two moments"

        watch(write, look, times=40)

    def test_a_read_during_truncation_has_no_gap(self) -> None:
        """While records are dropped, a read shows the rest without a gap, up to the length it tells."""

        def write(n: int) -> None:
            self.do(append(self.key(), n, n))
            self.do(Truncate(self.key(), n))

        def look() -> None:
            found = self.stream(self.key())
            assert [record.index for record in found.records] == list(range(found.first, found.length))

        watch(write, look, times=40)

    def test_what_was_acknowledged_is_seen(self) -> None:
        """Once a commit has returned, every later read of every thread shows it."""
        acknowledged = [0]

        def write(n: int) -> None:
            acknowledged[0] = self.do(put(self.key(), n)).versions[0]

        def look() -> None:
            known = acknowledged[0]
            found = self.get(self.key())
            assert (found.version if found else 0) >= known, "a read missed an acknowledged write"

        watch(write, look, times=100)

    def test_money_is_neither_made_nor_lost(self) -> None:
        """Transfers between documents, each one commit under two expectations, keep the sum at every moment."""
        accounts = [self.key(str(n)) for n in range(3)]
        self.do(*[put(account, 100) for account in accounts])

        def transfer(start: int) -> None:
            done = 0
            while done < ROUNDS:
                source, target = accounts[(start + done) % 3], accounts[(start + done + 1) % 3]
                held, given = ask(self.store, Get(source), Get(target))
                assert held is not None and given is not None
                try:
                    self.do(
                        put(source, held.value.load() - 1),
                        put(target, given.value.load() + 1),
                        expects=(Expect(source, held.version), Expect(target, given.version)),
                    )
                    done += 1
                except Conflict:
                    continue

        def audit() -> None:
            for _ in range(60):
                found = ask_all(self.store, [Get(account) for account in accounts])
                assert sum(each.value.load() for each in found if each is not None) == 300

        assert race(audit, *[partial(transfer, n) for n in range(3)]) == [None] * 4
        assert sum(self.value(account) for account in accounts) == 300
