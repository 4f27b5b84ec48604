"""`strongroom memories`: what is known for longer than a run: add it, find it, end it. Reviews are in `reviewing`,
what a model is asked in `learning`."""

from __future__ import annotations

import json
from typing import Any, get_args

import click

from strongroom.cli import learning, reviewing
from strongroom.cli.output import (
    as_json,
    brief,
    confirm,
    done,
    facts,
    many,
    moment,
    not_complete,
    page,
    say,
    show,
    styled,
    wants_json,
    write,
)
from strongroom.cli.reviewing import owner
from strongroom.cli.root import Count, argument, cli, context, me
from strongroom.services.memories.values import ScopeName, Status, Trust, Type, Written

MEMORY = argument("memory_id", "memory")
USER = click.option("--user", "user_id", help="This user's, too.")
PROJECT = click.option("--project", "project_id", help="This project's, too.")
TAGS = click.option("--tag", "tags", multiple=True, help="Only with this tag; may be repeated.")
WHERE = click.option("--where", metavar="JSON", help='Only what fits, as in \'{"city": {"prefix": "Ly"}}\'.')
PROPOSER = click.option("--proposer", help="Propose under this name instead of writing directly.")


@cli.group()
def memories() -> None:
    """What is known for longer than a run."""


for _command in (*reviewing.COMMANDS, learning.consolidate):
    memories.add_command(_command)


def _object(text: str | None, option: str) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        raise click.BadParameter(f"{option} takes JSON, not {text!r:.60}") from None
    return found


def _as(proposer: str | None) -> dict[str, Any]:
    return {} if proposer is None else {"proposer": proposer}


def _why(given: str | None, here: str, proposer: str | None) -> str | None:
    """Return a reason: what was said, else that it happened here, unless it is somebody's proposal."""
    return here if given is None and proposer is None else given


def _wrote(written: Written) -> None:
    if written.status == "pending":
        why = f" ({', '.join(written.flags)})" if written.flags else ""
        done(written, "waits for a review in {}{}: {}", written.batch_id, why, written.id)
    else:
        done(written, "{}: {}", written.status, written.id)


@memories.command("add")
@click.argument("content")
@click.option("--type", "kind", type=click.Choice(get_args(Type)), default="fact", show_default=True)
@click.option("--user", "user_id", help="Whose it is.")
@click.option("--project", "project_id", help="Whose it is.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--metadata", metavar="JSON", help="Names and values.")
@click.option("--confidence", type=click.FloatRange(0, 1), show_default="1.0, or 0.8 of a proposer", default=None)
@click.option("--rationale", help="Why it is known; without a proposer: added in a terminal.")
@click.option("--source", "source_refs", multiple=True, help="Where it comes from; may be repeated.")
@PROPOSER
def add_memory(
    content: str, kind: Any, metadata: str | None, rationale: str | None, proposer: str | None, **fields: Any
) -> None:
    """Remember something. A store that is not there is created."""
    fields |= {"rationale": _why(rationale, "added in a terminal", proposer)}
    with context(create=True) as ctx:
        _wrote(
            ctx.memories.add(content, type=kind, metadata=_object(metadata, "--metadata"), **fields, **_as(proposer))
        )


@memories.command("list")
@click.option("--status", type=click.Choice([*get_args(Status), "any"]), default="active", show_default=True)
@USER
@PROJECT
@click.option("--everyone", is_flag=True, help="Those of all users and projects.")
@TAGS
@WHERE
@click.option("--after", help="Continue after this cursor.")
@click.option("--limit", default=20, show_default=True, type=Count())
def list_memories(status: Any, where: str | None, **filters: Any) -> None:
    """List memories: those of everybody, and of whom you name."""
    with context() as ctx:
        found = ctx.memories.list(
            status=None if status == "any" else status, where=_object(where, "--where"), **filters
        )
    told = status != "active"
    rows = [
        (one.id, *([styled(one.status)] if told else []), one.type, owner(one), moment(one.told_at),
         ", ".join(one.tags), brief(one.content))
        for one in found
    ]  # fmt: skip
    columns = ["memory", *(["status"] if told else []), "type", "whose", "time (UTC)", "tags", "content"]
    page("memories", list(found), columns, rows, found.next, found.damaged)
    if not found and not wants_json():
        _nobody(filters)


@memories.command("show")
@MEMORY
def show_memory(memory_id: str) -> None:
    """Show all that is known of a memory."""
    with context() as ctx:
        known = ctx.memories.get(memory_id)
    if wants_json():
        as_json(known)
        return
    facts({
        "memory": known.id, "status": known.status, "whose": owner(known), "type": known.type, "content": known.content,
        "rationale": known.rationale, "confidence": known.confidence, "trust": known.trust,
        "proposed by": known.proposer, "committed by": known.reviewer, "known since": moment(known.created_at),
        "happened": moment(known.happened_at) if known.happened_at else None, "tags": list(known.tags),
        "metadata": [f"{name} = {value}" for name, value in known.metadata.items()],
        "sources": list(known.source_refs), "replaces": list(known.supersedes), "replaced by": known.superseded_by,
    })  # fmt: skip


@memories.command("search")
@click.argument("query")
@click.option("-k", default=8, show_default=True, type=Count(), help="How many hits.")
@click.option("--scope", type=click.Choice(get_args(ScopeName)))
@click.option("--type", "kind", type=click.Choice(get_args(Type)))
@USER
@PROJECT
@TAGS
@WHERE
@click.option("--min-confidence", default=0.0, type=click.FloatRange(0, 1))
@click.option("--min-trust", default="untrusted", type=click.Choice(get_args(Trust)))
def search_memories(query: str, k: int, kind: Any, where: str | None, **filters: Any) -> None:
    """Find active memories by their words."""
    with context() as ctx:
        hits = ctx.memories.search(query, k, type=kind, where=_object(where, "--where"), **filters)
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
        _nobody(filters)
    not_complete(hits.degraded)


def _nobody(filters: dict[str, Any]) -> None:
    """Say what may be missing where nobody was named."""
    if not (filters["user_id"] or filters["project_id"] or filters.get("everyone")):
        others = ", or all with --everyone" if "everyone" in filters else ""
        say("[dim]only what belongs to everybody was looked at; name an owner with --user or --project{}[/]", others)


@memories.command("history")
@MEMORY
def show_history(memory_id: str) -> None:
    """Show what happened to a memory, to those it replaced and to those that replaced it."""
    with context() as ctx:
        found = ctx.memories.history(memory_id)
    rows = [
        (moment(one.at), styled(one.event), one.memory_id, brief(one.by, 30), brief(one.content, 80), brief(one.reason))
        for one in found
    ]
    show(list(found), ["time (UTC)", "event", "memory", "by", "content", "reason"], rows)


@memories.command("delete")
@MEMORY
@click.option("--reason", help="Why; stays in its history. Without a proposer: deleted in a terminal.")
@PROPOSER
def delete_memory(memory_id: str, reason: str | None, proposer: str | None) -> None:
    """Stop finding a memory; its history stays."""
    why = _why(reason, "deleted in a terminal", proposer)
    with context() as ctx:
        _wrote(ctx.memories.delete(memory_id, reason=why, **_as(proposer)))


@memories.command("revoke")
@click.argument("source_ref")
@click.option("--by", default=me, show_default="login name", help="Who says so.")
@click.option("--reason", default="", help="Why.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def revoke_source(source_ref: str, by: str, reason: str, yes: bool) -> None:
    """Stop believing a source: what was derived from it is found no more."""
    with context() as ctx:
        confirm(f"Stop believing {source_ref!r}, and end what was derived from it, for good?", yes=yes)
        made = ctx.memories.revoke(source_ref=source_ref, by=by, reason=reason)
    done(made, "revoked: {} of {}", many(made.memories, "memory"), source_ref)


@memories.command("erase")
@click.option("--memory", "memory_id", help="This memory, and those it replaced.")
@click.option("--user", "user_id", help="All of this user.")
@click.option("--project", "project_id", help="All of this project.")
@click.option("--source", "source_ref", help="All that cites this source.")
@click.option("--derived", is_flag=True, help="And what was made from it.")
@click.option("--by", default=me, show_default="login name", help="Who erases.")
@click.option("--reason", default="", help="Why; stays in the receipt.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase_memories(yes: bool, by: str, reason: str, derived: bool, **target: Any) -> None:
    """Leave nothing of memories but that they were erased."""
    chosen = sorted(name for name, value in target.items() if value is not None)
    if len(chosen) != 1 and chosen != ["project_id", "user_id"]:
        raise click.UsageError(
            "say which memories to erase: one of --memory, --user, --project or --source, or a --user in a --project"
        )
    named = ", ".join(f"{name.removesuffix('_id').removesuffix('_ref')} {target[name]}" for name in chosen)
    with context() as ctx:
        confirm(f"Erase memories for good ({named})?", yes=yes)
        made = ctx.memories.erase(**target, derived=derived, by=by, reason=reason)
    done(made, "erased: {}, {}{}{}", many(len(made.memories), "memory"), many(made.batches, "batch"),
         f"; still there, derived from them: {', '.join(made.derived)}" if made.derived else "",
         "" if made.complete else f"; the files are not clean yet: {made.pending}")  # fmt: skip


@cli.command("erase")
@click.option("--user", "user_id", required=True, help="Whose memories, sessions and runs.")
@click.option("--by", default=me, show_default="login name", help="Who erases.")
@click.option("--reason", default="", help="Why; stays in the receipt.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase_person(user_id: str, by: str, reason: str, yes: bool) -> None:
    """Leave nothing of a person: memories, sessions and runs.

    Files, threads and some things of adapters have no owner: they are erased by their names.
    """
    with context() as ctx:
        confirm(f"Erase everything of user {user_id!r} for good?", yes=yes)
        made = ctx.erase(user_id=user_id, by=by, reason=reason)
    waits = "" if made.complete else f"; not clean yet: {made.pending}"
    if made.found:
        done(made, "erased: {} with {}, {}, {}, {}{}{}{}",
             many(made.sessions, "session"), many(made.messages, "message"), many(len(made.memories), "memory"),
             many(made.batches, "batch"), many(made.runs, "run"),
             f", {many(made.beside, 'thing')} of adapters" if made.beside else "",
             f"; still there, derived from them: {', '.join(made.derived)}" if made.derived else "", waits)  # fmt: skip
    else:
        done(made, "nothing of user {} was found: no sessions, memories or runs{}", user_id, waits)
    if not wants_json():
        say("[dim]not looked at, because they have no owner: {}[/]", ", ".join(made.not_covered))
