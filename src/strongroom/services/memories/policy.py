"""Who may propose how much, who may commit, and how far each proposer is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from strongroom.arguments import check_fields, require_positive
from strongroom.codec import Json, encode
from strongroom.errors import InvalidInput
from strongroom.folding import same_person
from strongroom.services.memories.values import Batch, Trust

# Who speaks where nobody says who does: the program that opened the store, in a call of its own.
PROGRAM = "program"
LEARNER = "learner"
CONSOLIDATOR = "consolidator"
AUTO_REVIEWER = "policy:auto_commit"
MOST_ITEMS = 10_000  # whose outcomes fit into a receipt


class Policy(Struct, frozen=True, kw_only=True):
    """The rules of a context's long-term memory. The default: everything that names a proposer is reviewed, and never
    by that one; what the program itself adds, updates or deletes in one line is not.

    `auto_commit` names proposers whose batches need no review, unless something in them was flagged or would replace
    what is trusted more: those wait like any other. `reviewers`, if given, are the only ones who may decide. `trust`
    says how far each proposer is believed; a memory never gets more than that, whoever reviews it. `require_owner`
    refuses a memory of scope `user` or `project` that does not say whose it is, and so would be everybody's.

    >>> ctx = strongroom.open("memory://")
    >>> policy = strongroom.Policy(auto_commit={"importer"}, reviewers={"bo"})
    >>> memories = ctx.memories.using(policy=policy)
    >>> memories.add("likes tea", user_id="ana", proposer="importer").status
    'active'
    >>> memories.add("lives in Rome", user_id="ana", proposer="agent-7").status
    'pending'
    """

    auto_commit: frozenset[str] = frozenset({PROGRAM})
    review_own: bool = False
    require_owner: bool = True
    reviewers: frozenset[str] | None = None
    trust: Mapping[str, Trust] = {}
    default_trust: Trust = "unverified"
    max_items: int = 200
    max_content_chars: int = 8_000
    max_source_refs: int = 64
    max_pending_batches: int = 1_000

    def __post_init__(self) -> None:
        check_fields(self)
        require_positive(
            max_items=self.max_items,
            max_content_chars=self.max_content_chars,
            max_pending_batches=self.max_pending_batches,
        )
        if self.max_items > MOST_ITEMS:
            raise InvalidInput(f"max_items must be {MOST_ITEMS:,} or less, not {self.max_items!r:.40}")

    @property
    def told(self) -> Json | None:
        """What a server is told of the rules; nothing of the usual ones, which are its own."""
        return None if self == USUAL else encode({"policy": _plain(msgspec.to_builtins(self))})

    def commits_at_once(self, proposer: str, about: str) -> bool:
        """Tell whether what somebody proposes needs no review. The program's own changes say what they are about; a
        proposal under its name does not, and waits like everybody's."""
        return proposer in self.auto_commit and (proposer != PROGRAM or about != "")

    def ceiling(self, proposer: str) -> Trust:
        """Return the highest trust that a proposer's memories can have."""
        return self.trust.get(proposer, self.default_trust)

    def check_reviewer(self, batch: Batch, reviewer: str) -> None:
        """Raise `InvalidInput` unless this reviewer may decide this batch."""
        if self.reviewers is not None and reviewer not in self.reviewers:
            raise InvalidInput(f"{reviewer!r:.80} is not one of the reviewers of this policy; nothing changed")
        if same_person(reviewer, batch.proposer) and not self.review_own:
            raise InvalidInput(
                f"{reviewer!r:.80} proposed batch {batch.id!r} and so may not commit it; "
                "another reviewer must, or the policy must say review_own=True; nothing changed"
            )

    def check_rejecter(self, batch: Batch, reviewer: str) -> None:
        """Raise `InvalidInput` unless this reviewer may turn the batch down. Its proposer may always withdraw it."""
        if self.reviewers is not None and reviewer not in self.reviewers and reviewer != batch.proposer:
            raise InvalidInput(f"{reviewer!r:.80} is not one of the reviewers of this policy; nothing changed")


USUAL = Policy()


def require_not_program(proposer: str) -> str:
    """Refuse a proposer that is called as the program itself is: an agent may choose its name, and not its trust."""
    if same_person(proposer, PROGRAM):
        raise InvalidInput(
            f"{PROGRAM!r} is what the program itself is called, and what it says needs no review: leave the proposer "
            "out to speak as the program, or give the agent a name of its own; nothing changed",
            path="proposer",
        )
    return proposer


def _plain(rules: dict[str, Any]) -> dict[str, Any]:
    return {name: sorted(rule) if isinstance(rule, set | frozenset) else rule for name, rule in rules.items()}
