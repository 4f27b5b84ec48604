"""`strongroom memories`: review what agents want to remember, and find what they do."""

from __future__ import annotations

from typing import Any, get_args

import click

from strongroom.cli.output import as_json, brief, done, moment, say, show, styled, wants_json, write
from strongroom.cli.root import argument, cli, context, me
from strongroom.services.memories.values import Batch, Memory, Request, ScopeName, Trust, Type

BATCH = argument("batch_id", "memory_batch")
REVIEWER = click.option("--reviewer", default=me, show_default="login name", help="Who decides.")


@cli.group()
def memories() -> None:
    """What is known for longer than a run."""


@memories.command("pending")
@click.option("--proposer", help="Only what this one proposed.")
@click.option("--after", help="Continue after this cursor.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 500))
def list_pending(proposer: str | None, after: str | None, limit: int) -> None:
    """Show what waits for a decision, what it resembles and what it would replace."""
    with context() as ctx:
        found = ctx.memories.pending(proposer=proposer, after=after, limit=limit)
    if wants_json():
        as_json({"batches": list(found), "next": found.next} | ({"degraded": found.degraded} if found.degraded else {}))
        return
    if found.degraded:
        say("[bold red]damaged[/] {}", found.degraded)
    for batch in found:
        _print(batch)
    if not found:
        say("[dim]nothing waits for a decision[/]")
    if found.next is not None:
        say("[dim]more: --after {}[/]", found.next)


def owner(known: Memory | Request) -> str:
    """Say whose a memory is or would be."""
    named = [f"{kind} {name}" for kind, name in (("user", known.user_id), ("project", known.project_id)) if name]
    return ", ".join(named) or f"{known.scope}, of everybody"


def _print(batch: Batch) -> None:
    say("[bold]{}[/]  by {}, {} {}", batch.id, batch.proposer, moment(batch.created_at),
        f"for {batch.run_id}" if batch.run_id else "")  # fmt: skip
    for place, proposal in enumerate(batch.proposals):
        asked = proposal.request
        say("  {}  [cyan]{} {}[/] ({}, confidence {}, {})",
            place, asked.op, asked.type, owner(asked), asked.confidence, proposal.trust)  # fmt: skip
        say("     {}", brief(asked.content, 400))
        say("     [dim]because {}[/]", brief(asked.rationale, 400))
        for flag in proposal.flags:
            say("     [bold yellow]flag[/] {}", flag)
        for old in proposal.replaces:
            say("     [yellow]replaces[/] {}: {}", old.id, brief(old.content))
        for hit in proposal.near_duplicates:
            say("     [yellow]resembles[/] {}: {}", hit.memory.id, brief(hit.memory.content))


@memories.command("commit")
@BATCH
@REVIEWER
@click.option("--except", "left_out", multiple=True, metavar="PLACE=REASON", help="Leave one out; may be repeated.")
def commit_batch(batch_id: str, reviewer: str, left_out: tuple[str, ...]) -> None:
    """Make a batch known, all of it or none, once."""
    rejected = dict(_place(text) for text in left_out)
    with context() as ctx:
        made = ctx.memories.commit(batch_id, reviewer=reviewer, reject=rejected)
    done(made, "committed: {} memories, {} ended, {} known already", len(made.memory_ids), len(made.ended_ids),
         len(made.duplicate_ids))  # fmt: skip


def _place(text: str) -> tuple[int, str]:
    place, mark, reason = text.partition("=")
    if not mark or not place.isdecimal() or len(place) > 9 or not reason:
        raise click.BadParameter(f"say which and why, as in --except '0=too vague', not {text!r:.60}")
    return int(place), reason


@memories.command("reject")
@BATCH
@click.option("--reason", required=True, help="Why; stays with the batch.")
@REVIEWER
def reject_batch(batch_id: str, reason: str, reviewer: str) -> None:
    """Decline a whole batch."""
    with context() as ctx:
        made = ctx.memories.reject(batch_id, reason=reason, reviewer=reviewer)
    done(made, "rejected: {}", made.id)


@memories.command("search")
@click.argument("query")
@click.option("-k", default=8, show_default=True, type=click.IntRange(1, 100), help="How many hits.")
@click.option("--scope", type=click.Choice(get_args(ScopeName)))
@click.option("--type", "kind", type=click.Choice(get_args(Type)))
@click.option("--user", "user_id", help="See this user's memories too.")
@click.option("--project", "project_id", help="See this project's memories too.")
@click.option("--min-confidence", default=0.0, type=click.FloatRange(0, 1))
@click.option("--min-trust", default="untrusted", type=click.Choice(get_args(Trust)))
def search_memories(query: str, k: int, kind: Any, **filters: Any) -> None:
    """Find active memories by their words."""
    with context() as ctx:
        hits = ctx.memories.search(query, k, type=kind, **filters)
    if wants_json():
        as_json({"hits": list(hits), "degraded": hits.degraded})
        return
    for hit in hits:
        known = hit.memory
        say("[bold]{}[/]  [cyan]{}[/] ({}, confidence {}, {})  [dim]{}[/]",
            known.id, known.type, owner(known), known.confidence, known.trust, hit.why)  # fmt: skip
        write(f"  {brief(known.content, 1_000)}")
    if not hits:
        say("[dim]nothing found[/]")


@memories.command("history")
@argument("memory_id", "memory")
def show_history(memory_id: str) -> None:
    """Show what happened to a memory, to those it replaced and to those that replaced it."""
    with context() as ctx:
        found = ctx.memories.history(memory_id)
    rows = [
        (moment(one.at), styled(one.event), one.memory_id, brief(one.by, 30), brief(one.content, 80), brief(one.reason))
        for one in found
    ]
    show(list(found), ["time (UTC)", "event", "memory", "by", "content", "reason"], rows)
