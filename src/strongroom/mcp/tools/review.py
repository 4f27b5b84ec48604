"""Tools of a reviewer: what waits, decide, stop believing a source.

A decision is a person's. Where the client can ask its person, the person is asked, whatever the model has put into the
arguments; where it cannot, the arguments decide. Either way the memories refuse a reviewer who is the proposer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from strongroom.errors import InvalidInput
from strongroom.mcp.data import fitting
from strongroom.mcp.elicitation import Reply
from strongroom.mcp.principals import REVIEWER
from strongroom.mcp.tool import KIB, ROOM, After, Answer, Arguments, CommitId, Id, Tool, ToolRequest
from strongroom.mcp.tools.memories import ProposedBatch, shown_batch
from strongroom.services.memories.batches import PLACE
from strongroom.services.memories.requests import besides
from strongroom.services.memories.values import Batch
from strongroom.unseen import spelt

MOST_EDITS = 10
Decision = Literal["approve", "reject"]
Reason = Annotated[str, Meta(max_length=2_000)]
Words = Annotated[str, Meta(min_length=1, max_length=8_000)]
WORDS = "content_"  # and a place: what a field of the form is called


class Pending(Arguments, frozen=True, kw_only=True):
    proposer: Id | None = None
    limit: Annotated[int, Meta(ge=1, le=20)] = 10
    after: After = None


class PendingBatches(Answer, frozen=True, kw_only=True):
    """Batches that wait, oldest first. One that is larger than the room for it shows its first proposals."""

    batches: list[ProposedBatch]
    next: str | None = None


async def pending(call: ToolRequest, wanted: Pending) -> PendingBatches:
    memories = call.who.ctx.memories
    limit = wanted.limit
    while True:
        found = await memories.pending(proposer=wanted.proposer, after=wanted.after, limit=limit)
        shown = [shown_batch(batch, ROOM - 2 * KIB) for batch in found]
        if len(fitting(shown, ROOM)) == len(shown):
            return PendingBatches(batches=shown, next=found.next)
        limit = max(1, limit // 2)  # a page ends where a cursor is, so a smaller one is asked for


class Decide(Arguments, frozen=True, kw_only=True):
    batch_id: Id
    decision: Annotated[
        Decision | None,
        Meta(description="What the reviewer decided. If the client can ask the person itself, it does so instead."),
    ] = None
    reason: Annotated[Reason, Meta(description="Why; needed to reject.")] = ""
    edit: Annotated[
        dict[Annotated[str, Meta(pattern=f"^({PLACE})$")], Words],
        Meta(max_length=MOST_EDITS, description='Other words to approve proposals in, by their places: {"0": ...}.'),
    ] = {}
    commit_id: CommitId = None


class Decided(Struct, frozen=True, kw_only=True, omit_defaults=True):
    batch_id: str
    status: Literal["committed", "rejected", "pending"]
    reviewer: str
    asked_person: bool
    memory_ids: list[str] = []
    ended_ids: list[str] = []
    edited: list[int] = []
    decided_at: datetime | None = None


async def decide(call: ToolRequest, wanted: Decide) -> Decided:
    who = call.who
    batch = await who.ctx.memories.batch(wanted.batch_id)
    reply = await call.person.ask(question(batch), form(batch, wanted)) if batch.status == "pending" else None
    decision, reason, edit = _decision(reply, wanted)
    asked = reply is not None
    if decision is None:
        return Decided(batch_id=batch.id, status=batch.status, reviewer=who.name, asked_person=asked)
    commit_id = who.commit_id(wanted.commit_id)
    if decision == "approve":
        done = await who.ctx.memories.commit(batch.id, reviewer=who.name, edit=edit, commit_id=commit_id)
        return Decided(
            batch_id=batch.id,
            status="committed",
            reviewer=done.reviewer,
            asked_person=asked,
            memory_ids=list(done.memory_ids),
            ended_ids=list(done.ended_ids),
            edited=list(done.edited),
            decided_at=done.at,
        )
    if not reason:
        raise InvalidInput("a rejection needs a reason; nothing changed", path="reason")
    rejected = await who.ctx.memories.reject(batch.id, reason=reason, reviewer=who.name, commit_id=commit_id)
    return Decided(
        batch_id=batch.id,
        status="rejected",
        reviewer=rejected.reviewer or who.name,
        asked_person=asked,
        decided_at=rejected.decided_at,
    )


def _decision(reply: Reply | None, wanted: Decide) -> tuple[Decision | None, str, dict[int, str]]:
    """Return what was decided, why, and in which words; None if the person did not decide. A person who was asked is
    believed alone."""
    if reply is None:
        if wanted.decision is None:
            raise InvalidInput(
                "this client cannot ask its person, so say the decision, approve or reject, yourself; nothing changed",
                path="decision",
            )
        return wanted.decision, wanted.reason, {int(place): text for place, text in wanted.edit.items()}
    if reply.action != "accept":
        return None, "", {}
    try:
        given = msgspec.convert(dict(reply.content), Form)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"the form came back wrong: {problem}; nothing changed") from None
    return given.decision, given.reason, _words(reply.content)


def _words(content: Mapping[str, Any]) -> dict[int, str]:
    """Return the words that the person chose. A field that was left empty, or taken away, asks for nothing."""
    named = {name.removeprefix(WORDS): text for name, text in content.items() if name.startswith(WORDS)}
    chosen = {place: text for place, text in named.items() if isinstance(text, str) and text}
    return {int(place): text for place, text in chosen.items() if re.fullmatch(PLACE, place)}


class Form(Struct, frozen=True):
    """What the person fills in."""

    decision: Decision
    reason: Reason = ""


def form(batch: Batch, wanted: Decide) -> dict[str, Any]:
    """Return the form: only flat fields are allowed in one. There is no default decision.

    A single proposal can be edited in it. Of several, those that the assistant was told to edit: a field for each of
    ten would hide the decision.
    """
    places = dict.fromkeys(["0"] if len(batch.proposals) == 1 else [])
    return {
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "approve: these memories can be found from now on",
                "enum": ["approve", "reject"],
            },
            "reason": {
                "type": "string",
                "title": "Reason",
                "description": "Needed to reject",
                "default": wanted.reason,
            },
            **{WORDS + place: _field(place, wanted.edit.get(place, "")) for place in places | wanted.edit},
        },
        "required": ["decision"],
    }


def _field(place: str, text: str) -> dict[str, Any]:
    told = "approve it in these words instead of the proposer's; empty: as it was proposed"
    # What the person sees is what they agree to: hidden characters are spelt out and stay so.
    return {"type": "string", "title": f"Other words for {place}", "description": told, "default": spelt(text)}


def question(batch: Batch) -> str:
    """Return what the person is shown: every proposal whole, in its proposer's own words, quoted, what nobody sees in
    them spelt out."""
    lines = [f"{batch.proposer!r} proposes to remember ({len(batch.proposals)} in batch {_quoted(batch.id)}):"]
    for place, one in enumerate(batch.proposals):
        request = one.request
        owners = (("user", request.user_id), ("project", request.project_id))
        whose = "".join([f"{kind} {_quoted(name)}, " for kind, name in owners if name is not None])
        ended = [_quoted(id) for id in (*request.supersedes, request.target_memory_id) if id is not None]
        what = f"{place}. {request.op} {request.type} ({request.scope}, {whose}trust {one.trust})"
        ends = f", ends {', '.join(ended)}" if ended else ""
        odd = f" FLAGGED: {', '.join(one.flags)}" if one.flags else ""
        more = "".join(f", {name} {msgspec.json.encode(value).decode()}" for name, value in besides(request).items())
        lines.append(f"{what}{ends}{odd}: {_quoted(request.content)} because {_quoted(request.rationale)}{more}")
    return spelt("\n".join(lines))


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


class Revoke(Arguments, frozen=True, kw_only=True):
    source_ref: Annotated[str, Meta(min_length=1, max_length=2_000, description="A source, or a memory's own id.")]
    reason: Annotated[Reason, Meta(min_length=1)]
    commit_id: CommitId = None


class Revocation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    source_ref: str
    by: str
    at: datetime
    done: bool
    memories: int


async def revoke(call: ToolRequest, wanted: Revoke) -> Revocation:
    who = call.who
    made = await who.ctx.memories.revoke(
        source_ref=wanted.source_ref, by=who.name, reason=wanted.reason, commit_id=who.commit_id(wanted.commit_id)
    )
    return Revocation(source_ref=made.source_ref, by=made.by, at=made.at, done=made.done, memories=made.memories)


TOOLS = (
    Tool(
        name="memory_pending",
        title="What waits for review",
        description="List the batches of proposed memories that wait for a decision, with what is odd about each.",
        profiles=REVIEWER,
        kind="reads",
        takes=Pending,
        gives=PendingBatches,
        call=pending,
    ),
    Tool(
        name="memory_decide",
        title="Decide on proposed memories",
        description=(
            "Approve or reject a batch, or approve it in other words. The person at this client is asked if the client "
            "can do that; else pass their decision and words, never your own. Whoever proposed a batch is refused."
        ),
        profiles=REVIEWER,
        kind="changes",
        takes=Decide,
        gives=Decided,
        call=decide,
    ),
    Tool(
        name="memory_revoke",
        title="Stop believing a source",
        description=(
            "Stop believing a source or a memory: it and whatever was derived from it is found no more. This cannot be "
            "undone."
        ),
        profiles=REVIEWER,
        kind="destroys",
        takes=Revoke,
        gives=Revocation,
        call=revoke,
    ),
)
