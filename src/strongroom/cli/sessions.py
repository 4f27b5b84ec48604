"""`strongroom sessions`: conversations."""

from __future__ import annotations

from typing import Any

import click
import msgspec

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
    wants_json,
    write,
)
from strongroom.cli.root import Count, argument, cli, context
from strongroom.services.owning import shown_owner
from strongroom.services.sessions.values import Message, SessionInfo
from strongroom.tokens.choosing import STRATEGIES

SESSION = argument("session_id", "session")


@cli.group()
def sessions() -> None:
    """Conversations, of any length."""


@sessions.command("list")
@click.option("--after", help="Continue after this cursor.")
@click.option("--limit", default=50, show_default=True, type=Count())
@click.option("--newest", is_flag=True, help="Newest first.")
@click.option("--user", "user_id", help="Only of this user.")
def list_sessions(after: str | None, limit: int, newest: bool, user_id: str | None) -> None:
    """List sessions in order of creation."""
    with context() as ctx:
        found = ctx.sessions.list(user_id=user_id, after=after, limit=limit, reverse=newest)
    rows = [
        (one.id, f"{one.messages:,}", moment(one.created_at), shown_owner(one.user_id), brief(one.title, 60))
        for one in found
    ]
    columns = ["session", "messages", "created (UTC)", "user", "title"]
    page("sessions", [_facts(one) for one in found], columns, rows, found.next, found.damaged)


@sessions.command("show")
@SESSION
@click.option("-n", "--last", default=20, show_default=True, type=click.IntRange(0, 100_000), help="Newest messages.")
def show_session(session_id: str, last: int) -> None:
    """Show a session's facts and newest messages."""
    with context() as ctx:
        session = ctx.sessions.get(session_id)
        info, messages = session.info(), session.load(last)
    if wants_json():
        as_json({"session": _facts(info), "messages": [_whole(message) for message in messages]})
        return
    say("[bold]{}[/]  {}", info.id, many(info.messages, "message"))
    facts(
        {
            "title": info.title if info.title != info.id else "",
            "user": info.user_id,
            "created": moment(info.created_at),
            "tokenizer": info.tokenizer,
            "metadata": brief(info.metadata) if info.metadata else "",
            "tags": brief(info.tags) if info.tags else "",
            "forked from": info.forked_from,
        }
    )
    for message in messages:
        _print(message)


@sessions.command("search")
@click.argument("query")
@click.option("--session", "session_id", help="Only in this session.")
@click.option("-k", default=5, show_default=True, type=Count(), help="How many hits.")
def search_sessions(query: str, session_id: str | None, k: int) -> None:
    """Find messages by their words, in one session or all."""
    with context() as ctx:
        hits = (
            ctx.sessions.search(query, k=k) if session_id is None else ctx.sessions.get(session_id).search(query, k=k)
        )
    if wants_json():
        told = [
            {"session_id": hit.session_id, "score": hit.score, "why": hit.why, "message": _whole(hit.message)}
            for hit in hits
        ]
        as_json({"hits": told, "degraded": hits.degraded})
        return
    for hit in hits:
        say("[bold]{}[/] [dim]{}  {}  {}[/]", hit.session_id, hit.message_id, f"{hit.score:.3f}", hit.why)
        _print(hit.message)
    if not hits:
        say("[dim]nothing found[/]")
    not_complete(hits.degraded)


@sessions.command("window")
@SESSION
@click.option("--max-tokens", required=True, type=click.IntRange(1, 10**9), help="The budget.")
@click.option("--strategy", default="truncate_oldest", show_default=True, type=click.Choice(STRATEGIES))
@click.option("--query", help="What strategy `relevant` looks for.")
def show_window(session_id: str, max_tokens: int, strategy: Any, query: str | None) -> None:
    """Show what would be sent to a model under a token budget."""
    with context() as ctx:
        window = ctx.sessions.get(session_id).window(max_tokens=max_tokens, strategy=strategy, query=query)
    if wants_json():
        as_json(window)
        return
    receipt = window.receipt
    for message in window.messages:
        _print(message)
    about = "about " if window.approximate else ""
    say(
        "[bold]{} of {}[/], {}{} of {} tokens",
        f"{len(window.messages):,}", many(receipt.messages_before, "message"), about,
        f"{window.total_tokens:,}", f"{max_tokens:,}",
    )  # fmt: skip
    for part in receipt.left_out:
        say("[dim]left out: {} ({}), positions {} to {}[/]", f"{part.count:,}", part.reason, part.first, part.last)
    if receipt.fallback:
        say("[yellow]{}[/]", receipt.fallback)


@sessions.command("erase")
@SESSION
@click.option("--message", "message_ids", multiple=True, help="This message; may be repeated.")
@click.option("--before", help="All that came before this message.")
@click.option("--all", "all_", is_flag=True, help="The whole session: its title and metadata too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase_messages(session_id: str, message_ids: tuple[str, ...], before: str | None, all_: bool, yes: bool) -> None:
    """Leave nothing of messages but their places and times, or of a session but its name."""
    if not (message_ids or before or all_):
        raise click.UsageError("say which messages to erase: --message, --before or --all")
    if all_ and (message_ids or before):
        raise click.UsageError("--all erases every message: it takes no --message and no --before")
    with context() as ctx:
        session = ctx.sessions.get(session_id)
        confirm(f"Erase {'all' if all_ else 'messages'} of session {session_id!r} for good?", yes=yes)
        made = session.erase(message_ids, before=before, all=all_)
    done(made, "erased: {}{}", many(made.messages, "message"),
         "" if made.complete else f"; the files are not clean yet: {made.pending}")  # fmt: skip


@sessions.command("delete")
@SESSION
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete_session(session_id: str, yes: bool) -> None:
    """Delete a session and its messages, for good."""
    with context() as ctx:
        session = ctx.sessions.get(session_id)
        messages = many(session.info().messages, "message")
        confirm(f"Delete session {session_id!r} and its {messages} for good?", yes=yes)
        session.delete()
    done({"deleted": session_id}, "deleted: {}", session_id)


def _facts(info: SessionInfo) -> dict[str, Any]:
    """Return what is told of a session in JSON: its owner too, which is kept as a tag."""
    return {**msgspec.structs.asdict(info), "user_id": info.user_id}


def _whole(message: Message) -> dict[str, Any]:
    known = {"id": message.id, "index": message.index, "at": message.at, "tokens": message.tokens}
    return {**known, "message": dict(message)}


def _print(message: Any) -> None:
    role = str(message.get("role") or "?")
    style = {"user": "green", "assistant": "cyan", "system": "magenta"}.get(role, "yellow")
    about = f"{moment(message.at)}  {message.tokens} tokens" if isinstance(message, Message) else ""
    say("[bold " + style + "]{}[/]  [dim]{}[/]", role, about)
    content = message.get("content")
    if content is not None:
        write(content if isinstance(content, str) else brief(content, 2_000))
    if message.get("tool_calls"):
        say("[dim]{}[/]", brief(message["tool_calls"], 500))
