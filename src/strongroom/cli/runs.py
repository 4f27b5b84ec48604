"""`strongroom runs`: what agents do and did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
from msgspec import to_builtins

from strongroom.blocking import Context
from strongroom.blocking.runs import Run
from strongroom.cli.following import FOLLOW, IDLE, seconds_to_wait
from strongroom.cli.output import (
    as_json,
    as_json_line,
    brief,
    complain,
    confirm,
    done,
    facts,
    many,
    moment,
    page,
    say,
    secret,
    styled,
    wants_json,
    working,
)
from strongroom.cli.root import Count, argument, cli, context, may_record, me
from strongroom.encryption import PACK_VARIABLE
from strongroom.errors import Damaged, InvalidInput, NotFound
from strongroom.payloads import EventType
from strongroom.services.owning import shown_owner
from strongroom.values import Event, Head, Status

MAX_SEQ = 2**53
MAX_STATE = 4000  # characters of a run's own state that are shown; --json shows all of it
RUN = argument("run_id", "run")
ACTOR = click.option("--actor", default=me, show_default="login name", help="Who the ledger says did it.")


@cli.group()
def runs() -> None:
    """What agents do and did: state, ledger, history."""


@runs.command("list")
@click.option("--status", type=click.Choice(get_args(Status)), help="Only runs in this status.")
@click.option("--user", "user_id", help="Only of this user.")
@click.option("--after", help="Continue after this cursor.")
@click.option("--limit", default=50, show_default=True, type=Count())
@click.option("--newest", is_flag=True, help="Newest first.")
def list_runs(status: Status | None, user_id: str | None, after: str | None, limit: int, newest: bool) -> None:
    """List runs in order of creation."""
    with context() as ctx:
        found = ctx.runs.list(status=status, user_id=user_id, after=after, limit=limit, reverse=newest)
    states = [run.working_set for run in found]
    rows = [
        (
            run.id,
            styled(now.status),
            run.seq,
            moment(run.created_at),
            shown_owner(run.user_id),
            brief(now.objective, 80),
        )
        for run, now in zip(found, states, strict=True)
    ]
    told = [
        {**to_builtins(now), "user_id": run.user_id, "created_at": run.created_at}
        for run, now in zip(found, states, strict=True)
    ]
    page("runs", told, ["run", "status", "seq", "created (UTC)", "user", "objective"], rows, found.next, found.damaged)


@runs.command("show")
@RUN
@click.option("--at", "seq", type=click.IntRange(0, MAX_SEQ), help="As it was after this update.")
def show_run(run_id: str, seq: int | None) -> None:
    """Show a run's working set, its own state, ledger and milestones."""
    with context() as ctx:
        run = ctx.runs.get(run_id)
        state = run.working_set if seq is None else run.at(seq)
        head, episodes, config = run.head(), run.episodes(limit=20), run.config
    if wants_json():
        told = {"working_set": state, "state": state.state, "config": config, "user_id": run.user_id, "head": head}
        as_json(told | {"created_at": run.created_at, "episodes": [one.to_dict() for one in episodes]})
        return
    say("[bold]{}[/]  seq {}", state.run_id, state.seq)
    facts(
        {
            "objective": state.objective,
            "status": styled(state.status),
            "stage": state.current_stage,
            "next": state.next_action,
            "last": state.last_action_summary,
            "accepted if": state.acceptance_criteria,
            "constraints": state.constraints,
            "blockers": state.blockers,
            "pinned": [brief(item.content) for item in state.pinned_context],
            "context": [f"{item.priority}  {brief(item.content)}" for item in state.sliding_context],
            "artifacts": [f"{item.id}  {item.type}  {brief(item.path)}" for item in state.artifact_refs],
            "state": brief(state.state, MAX_STATE),
            "milestones": [f"{moment(one.created_at)}  {brief(one.reason)}" for one in episodes],
            "ledger": f"{many(head.length, 'event')}, head {head.chain[:16]}…",
            "task, thread": f"{state.task_id}, {state.thread_id}",
            "user": run.user_id,
            "created": moment(run.created_at),
        }
    )


@runs.command("events")
@RUN
@click.option("--after", default=0, type=click.IntRange(0, MAX_SEQ), help="Continue after this event.")
@click.option("--limit", default=50, show_default=True, type=Count())
@click.option("--type", "types", multiple=True, help="Only events of this type; may be repeated.")
def list_events(run_id: str, after: int, limit: int, types: tuple[str, ...]) -> None:
    """List what the ledger says, oldest first."""
    with context() as ctx:
        run = ctx.runs.get(run_id)
        found = run.events(after=after, limit=limit, types=[EventType(each) for each in types] or None)
        rows = [_row(run, event) for event in found]
    page("events", list(found), ["#", "time (UTC)", "type", "actor", "payload"], rows, found.next)


def _row(run: Run, event: Event) -> tuple[object, ...]:
    told = "(erased)" if event.erased else brief(_changed(run, event) or event.payload, 100)
    return event.sequence_id, moment(event.at), event.type, brief(event.actor, 30), told


def _changed(run: Run, event: Event) -> str:
    """Return which fields an update changed, and what is in those that are no lists now; nothing of other events."""
    detail = event.detail or {}
    if event.type != "WS_UPDATE_APPLIED" or "seq" not in detail:
        return ""
    seq: int = detail["seq"]
    if "change" in detail:
        fields, lists = detail["change"]["set"], detail["change"]["lists"]
    else:  # once in a while an update tells all of the state, not its difference to the one before
        try:
            changes = run.diff(seq - 1, seq).changes
        except (NotFound, Damaged):
            return ""
        lists = [change.field for change in changes if isinstance(change.after, list)]
        fields = {change.field: change.after for change in changes if change.field not in lists}
    told = [f"{name}={brief(value, 40)}" for name, value in fields.items() if name != "_update_seq"]
    return f"seq {seq}: {', '.join([*told, *lists])}"


@runs.command("tail")
@RUN
@click.option("-n", "--last", default=10, show_default=True, type=click.IntRange(0, 1000), help="Begin this far back.")
@click.option("--after", type=click.IntRange(0, MAX_SEQ), help="Begin after this event instead.")
@FOLLOW
@IDLE
def tail_run(run_id: str, last: int, after: int | None, follow: bool, idle: float | None) -> None:
    """Print a run's newest events; with --follow those to come too."""
    patience = seconds_to_wait(follow, idle)
    with context() as ctx:
        run = ctx.runs.get(run_id)
        end = run.head().length
        start = max(end - last, 0) if after is None else after
        for event in run.follow(after=start, idle_seconds=patience):
            if event.sequence_id > end and not follow:
                break  # it was recorded while others were printed
            if wants_json():
                as_json_line(event)
            else:
                number, at, type, actor, told = _row(run, event)
                say("[dim]{:>6}  {}[/]  [bold]{:<20}[/] {}  [dim]{}[/]", number, at, type, told, actor)


@runs.command("diff")
@RUN
@click.argument("from_seq", type=click.IntRange(0, MAX_SEQ))
@click.argument("to_seq", type=click.IntRange(0, MAX_SEQ), required=False)
def diff_run(run_id: str, from_seq: int, to_seq: int | None) -> None:
    """Show what changed between two updates (default: until now)."""
    with context() as ctx:
        run = ctx.runs.get(run_id)
        found = run.diff(from_seq, to_seq)
    if wants_json():
        as_json(found)
        return
    say("[bold]{}[/]  seq {} to {}", run_id, found.from_seq, found.to_seq)
    for change in found.changes:
        is_list = isinstance(change.after, list)
        gone, come = (change.removed, change.added) if is_list else ((change.before,), (change.after,))
        say("[bold cyan]{}[/]", change.field)
        for item in gone:
            say("  [red]- {}[/]", brief(item))
        for item in come:
            say("  [green]+ {}[/]", brief(item))
    if not found.changes:
        say("[dim]no difference[/]")


@runs.command("verify")
@RUN
@click.option("--head", "kept", metavar="LENGTH:CHAIN", help="A head that was kept elsewhere: shows a cut end too.")
@click.option("--anchors", type=click.Path(exists=True, dir_okay=False), help="A file that `strongroom anchor` wrote.")
@click.option("--public-key", type=click.Path(exists=True, dir_okay=False), help="Demand anchors signed by this key.")
def verify_run(run_id: str, kept: str | None, anchors: str | None, public_key: str | None) -> None:
    """Check every event against the hash chain, and all that the run holds against the events."""
    head = None if kept is None else _head(kept)
    with context() as ctx, working("verifying"):
        found = ctx.runs.get(run_id).verify(head=head, anchors=anchors, public_key=_bytes(public_key))
    if wants_json():
        as_json(found)
    elif found.ok:
        say("[green]verified[/]  {}; keep this head elsewhere:", many(found.checked, "event"))
        say("{}:{}", found.head.length, found.head.chain)
    else:
        place = f"event {found.first_bad}" if found.first_bad else found.field
        say("[bold red]not as recorded[/]  {}: {}", place, found.reason)
    if found.note and not wants_json():
        say("[yellow]note[/]  {}", found.note)
    if not found.ok:
        raise click.exceptions.Exit(3)


@cli.command("anchor")
@click.argument("path", type=click.Path(dir_okay=False))
@click.argument("run_ids", nargs=-1, metavar="[RUN_ID]...")
@click.option("--signing-key", type=click.Path(exists=True, dir_okay=False), help="A file with 32 bytes (Ed25519).")
def anchor_runs(path: str, run_ids: tuple[str, ...], signing_key: str | None) -> None:
    """Seal the heads of ledgers, by adding them to a file.

    Of all runs, or of those that are named.

    `strongroom runs verify --anchors` then finds a ledger that was rewritten. Keep the file elsewhere.
    """
    key, made, damaged = _signing(signing_key), [], list[str]()
    with context() as ctx, working("anchoring"):
        # All that are named before the first is sealed: one that is missing then changes nothing.
        for run in [ctx.runs.get(id) for id in run_ids] if run_ids else _all_runs(ctx, damaged):
            made.append(run.anchor(path, signing_key=key))
    signed = ", signed" if key else ""
    told = {"anchors": made} | ({"damaged": damaged} if damaged else {})
    done(told, "anchored: {} in {}{}", many(len(made), "run"), path, signed)
    if damaged:
        for id in damaged:
            complain(f"damaged: run {id} cannot be read and was not anchored; `strongroom check` says more")
        raise click.exceptions.Exit(3)


def _all_runs(ctx: Context, damaged: list[str]) -> Iterator[Run]:
    """Give all runs that can be read, and collect the ids of those that cannot."""
    after: str | None = None
    while True:
        found = ctx.runs.list(after=after, limit=1000)
        yield from found
        damaged += found.damaged
        after = found.next
        if after is None:
            return


def _head(text: str) -> Head:
    if not re.fullmatch(r"[0-9]{1,15}:[0-9a-f]{64}", text):
        raise click.BadParameter("a head looks like 12:64-hexadecimal-digits, as `runs verify` prints it")
    length, _, chain = text.partition(":")
    return Head(int(length), chain)


@runs.command("fork")
@RUN
@click.option("--seq", type=click.IntRange(0, MAX_SEQ), help="From what it was after this update (default: now).")
@click.option("--as", "new_id", help="The new run's id.")
@ACTOR
def fork_run(run_id: str, seq: int | None, new_id: str | None, actor: str) -> None:
    """Start a new run from a moment of another. That one stays as it is."""
    with context() as ctx:
        made = ctx.runs.get(run_id).fork(seq, run_id=new_id, actor=actor)
        done({"run_id": made.id, "seq": made.seq}, "forked: [bold]{}[/] at seq {}", made.id, made.seq)


@runs.command("export")
@RUN
@click.argument("path", type=click.Path(dir_okay=False))
@click.option("--signing-key", type=click.Path(exists=True, dir_okay=False), help="A file with 32 bytes (Ed25519).")
@click.option("--encrypt", is_flag=True, help="Under the key that STRONGROOM_PACK_KEY names, or is asked for.")
@ACTOR
def export_run(run_id: str, path: str, signing_key: str | None, encrypt: bool, actor: str) -> None:
    """Write everything of a run to a resume pack, and record that in its ledger, unless the file is read-only."""
    key = secret(PACK_VARIABLE, "the key of the pack", confirm=True) if encrypt else None
    with context() as ctx, working("packing"):
        made = ctx.runs.get(run_id).export(
            path, signing_key=_signing(signing_key), key=key, record=may_record(), actor=actor
        )
    size = Path(path).stat().st_size
    signed = ", signed" if made.signed else ""
    done(made, "written: {} ({} bytes, {}{})", path, f"{size:,}", many(made.head.length, "event"), signed)


@runs.command("restore")
@click.argument("path", type=click.Path(dir_okay=False))
@click.option("--as", "new_id", help="Another id for it here.")
@click.option("--public-key", type=click.Path(exists=True, dir_okay=False), help="Demand a signature by this key.")
@click.option("--decrypt", is_flag=True, help="With the key that STRONGROOM_PACK_KEY names, or is asked for.")
@ACTOR
def restore_run(path: str, new_id: str | None, public_key: str | None, decrypt: bool, actor: str) -> None:
    """Bring a run back from a resume pack: all of it, or nothing."""
    key = secret(PACK_VARIABLE, "the key of the pack") if decrypt else None
    with context(create=Path(path).is_file()) as ctx, working("checking and restoring"):
        made = ctx.runs.restore(path, run_id=new_id, public_key=_bytes(public_key), key=key, actor=actor)
    done({"run_id": made.id, "seq": made.seq}, "restored: [bold]{}[/] at seq {}", made.id, made.seq)


def _bytes(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _signing(path: str | None) -> bytes | None:
    """Return a key to sign with. Both halves of a pair are 32 bytes, so only its name tells which one a file is."""
    if path is not None and path.endswith(".pub"):
        raise InvalidInput(f"{path} is the public half of a key, which everybody may have; sign with the other one")
    return _bytes(path)


@runs.command("erase")
@RUN
@click.option("--reason", required=True, help="Why; stays in the ledger.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@ACTOR
def erase_run(run_id: str, reason: str, yes: bool, actor: str) -> None:
    """Erase what a run holds, for good. Its ledger still verifies."""
    with context() as ctx:
        run = ctx.runs.get(run_id)
        confirm(f"Erase the content of run {run.id!r} ({many(run.head().length, 'event')}) for good?", yes=yes)
        made = ctx.runs.erase(run_id, reason=reason, actor=actor)
    done(
        made,
        "erased: {}, {}, {}; the ledger says so in event {}",
        many(made.events, "event"),
        many(made.episodes, "episode"),
        many(made.artifacts, "artifact"),
        made.sequence_id,
    )
    if made.pending is not None:
        complain(f"not complete yet: {made.pending}; until then bytes of it may lie in the store's files")
