"""What people and programs see: tables for the first, JSON for the second.

What is stored was written by agents, which read the web. None of it may steer a terminal: every stored text passes
through `clean` before it is shown, and is never read as markup.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from strongroom.encryption import Secret, from_environment
from strongroom.errors import InvalidInput, hidden
from strongroom.unseen import escaped, spelt

if TYPE_CHECKING:  # rich is imported by whoever prints with it: a program that reads JSON need not wait for it
    from rich.console import Console
    from rich.text import Text

JSON = "strongroom.json"
MAX_CELL = 160
LEAST_COLUMN = 10  # characters that a column gets whose neighbours are not folded
GAP = 2  # between columns; rich has one on each side, but for the edges
# Wider than any line: what is piped into grep must not be folded at 80 columns.
UNFOLDED = 10_000
_SECRETS = ("pass", "secret", "token", "key")  # in the names of what an address may say
_STYLES = {
    "DONE": "green", "FAILED": "red", "BUSY": "cyan", "PAUSED": "yellow", "WAITING_INPUT": "yellow",
    "live": "green", "deleted": "red", "expired": "yellow", "archived": "blue",
    "pending": "yellow", "committed": "green", "rejected": "red", "active": "green", "revoked": "red",
}  # fmt: skip


def clean(value: object) -> str:
    """Return text in which whatever could steer a terminal, or nobody sees in one, is spelt out. Line breaks stay."""
    return spelt(str(value).replace("\t", "    ").replace("\r\n", "\n").replace("\r", escaped("\r")))


def brief(value: object, width: int = MAX_CELL) -> str:
    """Return a value as one short line."""
    text = value if isinstance(value, str) else "" if value is None else _compact(value)
    text = clean(" ".join(text[: width * 4].split()))
    return text if len(text) <= width else text[: width - 1] + "…"


def whole(text: str) -> str:
    """Return all of a text as one line, which cannot be taken for several."""
    return clean(" ".join(text.split()))


def _compact(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else msgspec.json.encode(value).decode()


def moment(at: datetime) -> str:
    """Return a time for people, in UTC."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


class styled(str):  # noqa: N801 - used as a verb
    """A status, to be shown in its colour."""

    __slots__ = ()


def _text(cell: object) -> Text:
    from rich.text import Text

    return Text(clean(cell), _STYLES.get(cell, "") if isinstance(cell, styled) else "")


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    class Screen(Console):
        """A console that lets `main` decide what a closed pipe means."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    made = Screen(highlight=False, emoji=False, stderr=stderr)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Screen(highlight=False, emoji=False, stderr=stderr, width=UNFOLDED)
    return made


def complain(message: str) -> None:
    """Say what went wrong, on standard error."""
    console(stderr=True).print(f"[bold red]strongroom:[/] {_plain(message)}", soft_wrap=True)


def say(markup: str, *facts: object) -> None:
    """Print a line. The markup is ours; each {} takes a fact, which is shown as it is."""
    console().print(markup.format(*map(_plain, facts)), soft_wrap=True)


def _plain(fact: object) -> str:
    from rich.markup import escape

    return escape(clean(fact))


def write(text: str) -> None:
    """Print stored text, as it is but for what could steer the terminal."""
    console().print(_text(text), soft_wrap=True)


def write_exactly(text: str) -> None:
    """Print stored text byte for byte, unless a terminal would read it: there it is cleaned, and ends its line."""
    if sys.stdout.isatty():
        write(text.removesuffix("\n"))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def done(value: Any, markup: str, *facts: object) -> None:
    """Say what was done: the value with --json, a line for people otherwise."""
    if wants_json():
        as_json(value)
    else:
        say(markup, *facts)


def as_json(value: Any, *, indent: int = 2) -> None:
    """Print a value as JSON, one document."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    # Outside ASCII there are only strings in JSON, so spelling characters out leaves it the same document.
    sys.stdout.write(spelt(text, _in_json) + "\n")


def _in_json(char: str) -> str:
    return re.sub("....", r"\\u\g<0>", char.encode("utf-16-be", "surrogatepass").hex())


def as_json_line(value: Any) -> None:
    """Print a value as one line of JSON, now: somebody is following."""
    as_json(value, indent=-1)
    sys.stdout.flush()


def wants_json() -> bool:
    """Whether the user asked for JSON with --json, on any level of the command."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(JSON))


def show(value: Any, columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a list of things: a table, or the value itself with --json."""
    if wants_json():
        as_json(value)
        return
    from rich.table import Table

    screen, cells = console(), [[_text(cell) for cell in row] for row in rows]
    table = Table(title=title or None, title_justify="left", box=None, header_style="bold", pad_edge=False)
    widths = [max([len(column), *(row[place].cell_len for row in cells)]) for place, column in enumerate(columns)]
    for column, whole in zip(columns, _unfolded(widths, screen.width), strict=True):
        table.add_column(column, overflow="fold", no_wrap=whole)
    table.show_header = any(columns)
    for row in cells:
        table.add_row(*row)
    screen.print(table)


def _unfolded(widths: Sequence[int], room: int) -> list[bool]:
    """Say which columns stay on one line: as many as leave a little for each that follows. Names come first in a table,
    and one that is folded cannot be copied, while the sentence at the end can be read in pieces."""
    whole, left = [], room
    for place, width in enumerate(widths):
        needed = sum(min(other, LEAST_COLUMN) + GAP for other in widths[place + 1 :])
        whole.append(width + needed <= left)
        left -= (width if whole[-1] else min(width, LEAST_COLUMN)) + GAP
    return whole


def page(
    key: str,
    items: Sequence[Any],
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    next: Any,
    damaged: Sequence[str] = (),
) -> None:
    """Print one page of many: what there is, what cannot be read, and how to see more."""
    if wants_json():
        as_json({key: items, "next": next} | ({"damaged": damaged} if damaged else {}))
        return
    for one in damaged:
        say("[bold red]damaged[/] {} cannot be read; `strongroom check` says more", one)
    if not rows:
        say("[dim]no {}[/]", key)
        return
    show(None, columns, rows)
    if next is not None:
        say("[dim]more: --after {}[/]", next)


def not_complete(told: str | None) -> None:
    """Say what is missing in what was found, if something is."""
    if told:
        say("[bold red]not complete:[/] {}", told)


def facts(pairs: Mapping[str, object]) -> None:
    """Print names and values below each other, leaving out what is empty."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        if isinstance(value, list | tuple):
            for place, item in enumerate(value):
                table.add_row("" if place else name, Text("- ", "dim") + _text(item))
        elif value not in (None, ""):
            table.add_row(name, _text(value))
    console().print(table)


def working(what: str) -> AbstractContextManager[object]:
    """Show that something is under way, to people who watch."""
    return console(stderr=True).status(what) if sys.stderr.isatty() else nullcontext()


def confirm(question: str, *, yes: bool) -> None:
    """Ask before what cannot be undone. No answer is a no."""
    if yes:
        return
    try:
        agreed = click.confirm(clean(question), err=True)
    except click.Abort:
        agreed = False
    if not agreed:
        raise InvalidInput("not confirmed; nothing changed (--yes answers in advance)")


def secret(variable: str, what: str, *, confirm: bool = False) -> Secret:
    """Return a key from the environment, or ask for it."""
    found = from_environment(variable)
    if found is not None:
        return found
    if not sys.stdin.isatty():
        raise InvalidInput(f"{what} is missing: name it by {variable}, {variable}_FILE or {variable}_COMMAND")
    asked: Secret = hidden(click.prompt(what.capitalize(), hide_input=True, confirmation_prompt=confirm, err=True))
    return asked


def many(count: int, what: str) -> str:
    """Return how many there are of something, which is named as one of it."""
    if re.search("[^aeiou]y$", what):
        more = f"{what[:-1]}ies"
    else:
        more = f"{what}es" if what.endswith(("ch", "sh", "s", "x", "z")) else f"{what}s"
    return f"{count:,} {what if count == 1 else more}"


def holds(counted: Any) -> str:
    """Return how much a store holds, in the words of every command that counts it. What was deleted is none of it."""
    sizes = {"document": counted.documents, "stream": counted.streams, "record": counted.records}
    told = ", ".join(many(count, what) for what, count in sizes.items())
    return f"{told}; tombstones of {counted.tombstones:,} deleted" if counted.tombstones else told


def hide_secrets(address: str) -> str:
    """Return an address without its password, wherever in it that stands."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        return address
    where, asked, query = rest.partition("?")
    if "@" in query:
        return f"{scheme}://***"  # a password with a `?`, or a value with an `@`: nobody can say which
    _, at, host = where.rpartition("@")
    return f"{scheme}://{'***' * bool(at)}{at}{host}{asked}" + "&".join(map(_without_value, query.split("&")))


def _without_value(said: str) -> str:
    name, _, value = said.partition("=")
    return f"{name}=***" if value and any(word in name.lower() for word in _SECRETS) else said
