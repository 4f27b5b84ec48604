"""`strongroom memories`: propose, and decide what others proposed, one by one or step by step."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from strongroom.blocking import Context
from strongroom.cli.output import as_json, brief, clean, done, many, moment, not_complete, say, wants_json, whole
from strongroom.cli.root import Command, Count, argument, cli, context, me
from strongroom.errors import CommitUnknown, StrongroomError
from strongroom.services.memories.requests import besides
from strongroom.services.memories.values import Batch, Memory, Request

BATCH = argument("batch_id", "memory_batch")
REVIEWER = click.option("--reviewer", default=me, show_default="login name", help="Who decides.")
CHOICES = "accept, reject, edit, skip, quit"
HELP = """\
  a  accept: all of the batch becomes known, in your name
  r  reject: none of it does; you are asked why
  e  edit: accept it in other words; what was proposed stays on record beside yours
  s  skip: leave it for later
  q  quit: leave the rest for later"""
MOST_BYTES = 10_000_000


def owner(known: Memory | Request) -> str:
    """Say whose a memory is or would be."""
    named = [f"{kind} {name}" for kind, name in (("user", known.user_id), ("project", known.project_id)) if name]
    return ", ".join(named) or f"{known.scope}, of everybody"


@click.command("pending", cls=Command)
@click.option("--proposer", help="Only what this one proposed.")
@click.option("--after", help="Continue after this cursor.")
@click.option("--limit", default=20, show_default=True, type=Count())
def list_pending(proposer: str | None, after: str | None, limit: int) -> None:
    """Show what waits for a decision, what it resembles and what it would replace."""
    with context() as ctx:
        found = ctx.memories.pending(proposer=proposer, after=after, limit=limit)
    if wants_json():
        as_json({"batches": list(found), "next": found.next} | ({"degraded": found.degraded} if found.degraded else {}))
        return
    not_complete(found.degraded)
    for batch in found:
        _print(batch)
    if not found:
        say("[dim]nothing waits for a decision[/]")
    if found.next is not None:
        say("[dim]more: --after {}[/]", found.next)


def _print(batch: Batch, shown: Callable[[str], str] = lambda text: brief(text, 400)) -> None:
    say("[bold]{}[/]  by {}, {} {}", batch.id, batch.proposer, moment(batch.created_at),
        f"for {batch.run_id}" if batch.run_id else "")  # fmt: skip
    for place, proposal in enumerate(batch.proposals):
        asked = proposal.request
        say("  {}  [cyan]{} {}[/] ({}, confidence {}, {})",
            place, asked.op, asked.type, owner(asked), asked.confidence, proposal.trust)  # fmt: skip
        say("     {}", shown(asked.content))
        say("     [dim]because {}[/]", shown(asked.rationale))
        for name, value in besides(asked).items():
            say("     [dim]{}[/] {}", name, shown(msgspec.json.encode(value).decode()))
        for flag in proposal.flags:
            say("     [bold yellow]flag[/] {}", flag)
        for old in proposal.replaces:
            say("     [yellow]replaces[/] {}: {}", old.id, brief(old.content))
        for hit in proposal.near_duplicates:
            say("     [yellow]resembles[/] {}: {}", hit.memory.id, brief(hit.memory.content))


@click.command("propose", cls=Command)
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--proposer", required=True, help="Who proposes.")
@click.option("--batch", "batch_id", help="A name for the batch.")
def propose_batch(file: Any, proposer: str, batch_id: str | None) -> None:
    """Stage memory change requests from a file of JSON (one or a list), or from standard input.

    A store that is not there is created.
    """
    raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise click.BadParameter(f"more than {MOST_BYTES:,} bytes")
    try:
        requests = json.loads(raw)
    except (ValueError, RecursionError) as problem:
        raise click.BadParameter(f"not JSON: {problem}") from None
    with context(create=True) as ctx:
        made = ctx.memories.propose(requests, proposer=proposer, batch_id=batch_id)
    done(made, "{}: {}", made.status, made.id)


@click.command("commit", cls=Command)
@BATCH
@REVIEWER
@click.option("--except", "left_out", multiple=True, metavar="PLACE=REASON", help="Leave one out; may be repeated.")
@click.option("--edit", "edited", multiple=True, metavar="PLACE=TEXT", help="Accept one as this; may be repeated.")
def commit_batch(batch_id: str, reviewer: str, left_out: tuple[str, ...], edited: tuple[str, ...]) -> None:
    """Make a batch known, all of it or none, once."""
    rejected = dict(_place(text, "say which and why, as in --except '0=too vague'") for text in left_out)
    reworded = dict(_place(text, "say which and how, as in --edit '0=lives in Rome'") for text in edited)
    with context() as ctx:
        made = ctx.memories.commit(batch_id, reviewer=reviewer, reject=rejected, edit=reworded)
    done(made, "committed: {}, {} ended, {} known already", many(len(made.memory_ids), "memory"), len(made.ended_ids),
         len(made.duplicate_ids))  # fmt: skip


def _place(text: str, advice: str) -> tuple[int, str]:
    place, mark, said = text.partition("=")
    if not mark or not place.isdecimal() or len(place) > 9 or not said:
        raise click.BadParameter(f"{advice}, not {text!r:.60}")
    return int(place), said


@click.command("reject", cls=Command)
@BATCH
@click.option("--reason", required=True, help="Why; stays with the batch.")
@REVIEWER
def reject_batch(batch_id: str, reason: str, reviewer: str) -> None:
    """Decline a whole batch."""
    with context() as ctx:
        made = ctx.memories.reject(batch_id, reason=reason, reviewer=reviewer)
    done(made, "rejected: {}", made.id)


@click.command("review", cls=Command)
@REVIEWER
@click.option("--proposer", help="Only what this one proposed.")
def review(reviewer: str, proposer: str | None) -> None:
    """Step through memories that wait for a decision."""
    decided = {"accepted": 0, "rejected": 0, "edited": 0, "skipped": 0}
    with context() as ctx:
        after: str | None = None
        waiting = False
        while True:
            found = ctx.memories.pending(proposer=proposer, after=after, limit=20)
            waiting |= bool(found)
            for batch in found:
                if not wants_json():
                    _print(batch, whole)  # nothing is accepted unseen
                outcome = _decide(ctx, batch, reviewer)
                if outcome is None:
                    found.next = None
                    break
                decided[outcome] += 1
            after = found.next
            if after is None:
                break
    counts = "{} accepted, {} rejected, {} edited, {} skipped"
    done(decided, counts if waiting else "nothing waits for a review", *decided.values())


def _decide(ctx: Context, batch: Batch, reviewer: str) -> str | None:
    """Ask about one batch until there is an answer that holds; None to quit."""
    while True:
        answer = _asked(f"{CHOICES} (? explains)?").lower()
        try:
            if answer in ("a", "accept"):
                ctx.memories.commit(batch, reviewer=reviewer)
                return "accepted"
            if answer in ("r", "reject"):
                ctx.memories.reject(batch, reason=_asked("why?") or "no reason given", reviewer=reviewer)
                return "rejected"
            if answer in ("e", "edit"):
                if edited := _edited(batch):
                    ctx.memories.commit(batch, reviewer=reviewer, edit=edited)
                    return "edited"
                click.echo("nothing was edited", err=True)
                continue
        except StrongroomError as problem:
            outcome = "not known" if isinstance(problem, CommitUnknown) else "refused"
            click.echo(clean(f"{outcome}: {problem}"), err=True)
            continue
        if answer in ("s", "skip"):
            return "skipped"
        if answer in ("q", "quit", ""):
            return None
        click.echo(HELP, err=True)


def _edited(batch: Batch) -> dict[int, str]:
    """Ask for other words for each proposal that makes a memory; what is left empty stays as it is."""
    makes = [place for place, proposal in enumerate(batch.proposals) if proposal.memory_id is not None]
    said = {place: _asked(f"{place}: content (empty: as it is)") for place in makes}
    return {place: text for place, text in said.items() if text}


def _asked(question: str) -> str:
    """Read one line; no more lines is an empty one."""
    click.echo(clean(question) + " ", nl=False, err=True)
    return sys.stdin.readline().strip()


cli.add_command(review)
COMMANDS = (list_pending, propose_batch, commit_batch, reject_batch, review)
