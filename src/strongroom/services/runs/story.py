"""What a ledger says, from its first event on, that its run is and has (pure).

Everything of a run is told in its chain: the state by what each update changed, the configuration by the event the run
began with, an episode by the hash in the event of its milestone, content by the event that attached it. Events that
begin a run anew (it was started, restored, erased) tell all of it at once. So whatever is kept beside the ledger can be
held against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec

from strongroom.codec import Json
from strongroom.services.runs import history
from strongroom.services.runs.changes import WorkingSetJson
from strongroom.services.runs.state import Attached
from strongroom.store import Record
from strongroom.values import RunConfig


def episode_digest(at: int, body: Json) -> str:
    """Return what the event of a milestone tells of its episode."""
    return sha256(b"strongroom/episode/1\0" + at.to_bytes(8, "big", signed=True) + body).hexdigest()


def all_digest(digests: Iterable[str]) -> tuple[int, str]:
    """Return how many episodes there are and one hash over all of them, for an event that tells them at once."""
    known = list(digests)
    return len(known), sha256(b"strongroom/episodes/1\0" + "".join(known).encode()).hexdigest()


class Story:
    """A ledger that is being told. `hear` raises ValueError where an event says what none can say."""

    def __init__(self) -> None:
        self.state: WorkingSetJson | None = None
        self.config: RunConfig | None = None
        self.whole = -1  # the place of the last event with a whole state
        self.attached: dict[str, Attached] = {}
        self._brought = all_digest(())
        self._made: list[str] = []

    def hear(self, record: Record) -> None:
        """Take in the next event. Of one that was erased nothing is left to take in."""
        try:
            self._hear(record)
        except (msgspec.ValidationError, LookupError, TypeError, AttributeError, ValueError) as problem:
            raise ValueError(f"the event says what no event can say ({problem})") from None

    def _hear(self, record: Record) -> None:
        if record.body is None:
            self.state = None
            return
        detail = history.detail_of(record)
        self.state = history.told(self.state, detail)
        if "state" in detail:
            self.whole = record.index
        if "config" in detail:
            self.config = msgspec.convert(detail["config"], RunConfig)
            self.attached = {}
            self._brought = msgspec.convert(detail.get("episodes", all_digest(())), tuple[int, str])
            self._made = []
        for told in msgspec.convert(detail.get("attached", []), list[Attached]):
            self.attached[told.id] = told
        if "episode_sha256" in detail:
            self._made.append(str(detail["episode_sha256"]))

    def wrong_episode(self, digests: list[str]) -> int | None:
        """Return the place of the first episode, of those that are there, that is missing, exchanged or too many."""
        count, brought = self._brought
        if all_digest(digests[:count]) != (count, brought):
            return 0
        there, told = digests[count:], self._made
        for place in range(max(len(there), len(told))):
            if there[place : place + 1] != told[place : place + 1]:
                return count + place
        return None
