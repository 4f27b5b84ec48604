"""`strongroom threads`: message buffers between agents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from strongroom.blocking import Context
from strongroom.blocking.threads import Thread
from strongroom.cli.following import FOLLOW, IDLE, seconds_to_wait
from strongroom.cli.output import as_json_line, brief, confirm, done, many, moment, page, say, styled, wants_json
from strongroom.cli.root import Count, argument, cli, context
from strongroom.errors import NotFound, StrongroomError
from strongroom.services.threads.values import Slot

THREAD = argument("thread_id", "thread")
STATES = ("live", "deleted", "expired", "archived")
MAX_INDEX = 2**53


@cli.group()
def threads() -> None:
    """Messages between agents, append-only."""


@threads.command("list")
@click.option("--state", default="live", show_default=True, type=click.Choice(STATES))
@click.option("--after", help="Continue after this cursor.")
@click.option("--limit", default=50, show_default=True, type=Count())
def list_threads(state: Any, after: str | None, limit: int) -> None:
    """List threads, or what is left of those that ended."""
    with context() as ctx:
        found = ctx.threads.list(state=state, after=after, limit=limit)
    rows = [(one.thread_id, styled(one.state), f"{one.length - one.first:,}", moment(one.created_at)) for one in found]
    page("threads", found, ["thread", "state", "slots", "created (UTC)"], rows, found.next, found.damaged)


@threads.command("show")
@THREAD
@click.option("--after", default=-1, type=click.IntRange(-1, MAX_INDEX), help="Continue after this index.")
@click.option("--limit", default=50, show_default=True, type=Count())
@click.option("--type", "payload_type", help="Only payloads of this type.")
def show_thread(thread_id: str, after: int, limit: int, payload_type: str | None) -> None:
    """Show a thread's slots, oldest first."""
    with context() as ctx:
        thread = _existing(ctx, thread_id)
        there = thread.indexes()
        start = max(after + 1, there.start)  # the beginning may be gone
        slots = thread.slice(start, start + limit)
    shown = [slot for slot in slots if payload_type is None or slot.type == payload_type]
    rows = [_row(slot) for slot in shown]
    following = str(slots[-1].index) if slots and slots[-1].index + 1 < there.stop else None
    page(
        "slots", [_whole(slot) for slot in shown], ["#", "time (UTC)", "from", "to", "type", "payload"], rows, following
    )


@threads.command("tail")
@THREAD
@click.option("-n", "--last", default=10, show_default=True, type=click.IntRange(0, 1000), help="Begin this far back.")
@click.option("--after", type=click.IntRange(-1, MAX_INDEX), help="Begin after this index instead.")
@FOLLOW
@IDLE
def tail_thread(thread_id: str, last: int, after: int | None, follow: bool, idle: float | None) -> None:
    """Print a thread's newest messages; with --follow those to come too."""
    patience = seconds_to_wait(follow, idle)
    with context() as ctx:
        newest = _existing(ctx, thread_id).indexes().stop - 1
        start = max(newest - last, -1) if after is None else after
        for slot in ctx.threads.follow(thread_id, after=start, idle_seconds=patience):
            if slot.index > newest and not follow:
                break  # it arrived while others were printed
            if wants_json():
                as_json_line(_whole(slot))
            else:
                index, at, sender, receiver, type, payload = _row(slot)
                say("[dim]{:>6}  {}[/]  [bold]{}[/] -> [bold]{}[/]  [cyan]{}[/]  {}",
                    index, at, sender, receiver, type, payload)  # fmt: skip


@threads.command("delete")
@THREAD
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete_thread(thread_id: str, yes: bool) -> None:
    """Remove a thread's slots for good and leave a tombstone."""
    with context() as ctx:
        length = _existing(ctx, thread_id).length()
        confirm(f"Delete thread {thread_id!r} and its {many(length, 'slot')} for good?", yes=yes)
        ctx.threads.delete(thread_id)
    done({"deleted": thread_id}, "deleted: {}", thread_id)


@threads.command("erase")
@THREAD
@click.option("--start", type=click.IntRange(0, MAX_INDEX), help="From this slot on; 0 alone for the whole thread.")
@click.option("--stop", type=click.IntRange(0, MAX_INDEX), help="Up to this slot, which stays.")
@click.option("--before", type=click.DateTime(), help="All that were appended before this time (UTC).")
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase_slots(thread_id: str, start: int | None, stop: int | None, before: datetime | None, yes: bool) -> None:
    """Leave nothing of slots but their places, types and times."""
    if start is None and stop is None and before is None:
        raise click.UsageError("say which slots to erase: --start, --stop or --before; --start 0 alone is all of them")
    with context() as ctx:
        confirm(f"Erase slots of thread {thread_id!r} for good?", yes=yes)
        until = before.replace(tzinfo=UTC) if before else None
        made = ctx.threads.erase(thread_id, start=start, stop=stop, before=until)
    done(made, "erased: {}{}", many(made.slots, "slot"),
         "" if made.complete else f"; the files are not clean yet: {made.pending}")  # fmt: skip


@threads.command("sweep")
@click.option("--idle-seconds", required=True, type=click.FloatRange(0), help="How long nobody has written to them.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def sweep_threads(idle_seconds: float, yes: bool) -> None:
    """End the threads that nobody has written to for so long, and leave tombstones."""
    with context() as ctx:
        idle = f"nobody has written to for {idle_seconds:g} seconds"
        confirm(f"End every thread that {idle}, with what nobody has handled yet, for good?", yes=yes)
        ended = ctx.threads.sweep(ttl_seconds=idle_seconds)
    done({"ended": list(ended)}, "ended: {}", ", ".join(ended) or "none")


def _existing(ctx: Context, thread_id: str) -> Thread:
    thread = ctx.threads.get(thread_id)
    if not thread.length():
        raise NotFound(f"there is no thread {thread_id!r}", kind="thread", id=thread_id)
    return thread


def _row(slot: Slot) -> tuple[object, ...]:
    payload = brief(_data(slot), 100)
    return slot.index, moment(slot.at), brief(slot.from_id, 30), brief(slot.to_id, 30), brief(slot.type, 40), payload


def _whole(slot: Slot) -> dict[str, Any]:
    return {
        "thread_id": slot.thread_id,
        "index": slot.index,
        "at": slot.at,
        "from_id": slot.from_id,
        "to_id": slot.to_id,
        "type": slot.type,
        "data": _data(slot),
    }


def _data(slot: Slot) -> Any:
    """Return a payload as plain JSON. One that cannot be read must not hide its neighbours."""
    try:
        return slot.data
    except StrongroomError as problem:
        return f"({problem})"
