"""`strongroom mcp`: serve an assistant, and tell assistants about it."""

from __future__ import annotations

import asyncio
import difflib
import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

import strongroom
from strongroom.cli.output import as_json, say, wants_json
from strongroom.cli.root import KEY, SPACE, URL, cli, file_of, is_server, me
from strongroom.context import AsyncContext
from strongroom.errors import InvalidInput
from strongroom.mcp import install as installing
from strongroom.mcp.clients import CLIENTS, Client, Entry
from strongroom.mcp.principals import Profile, profile_of
from strongroom.mcp.stdio import default_file, made_ready, serve

PROFILES = ["agent", "reviewer", "reader"]
PROFILE_HELP = (
    "agent: proposes and records (the default). reviewer: reads, decides and revokes. reader: looks. "
    "On a server the key's role decides."
)


@cli.group(invoke_without_command=True)
@click.option("--profile", default=None, type=click.Choice(PROFILES), help=PROFILE_HELP)
@click.option("--name", default=None, help="Who is recorded (default: assistant; for a reviewer your login name).")
@click.pass_context
def mcp(given: click.Context, profile: Profile | None, name: str | None) -> None:
    """Serve an assistant over standard input and output (MCP).

    Data is in --url, STRONGROOM_URL, or a file of your own: ~/.local/share/strongroom/agent.db. Several assistants may
    share it.
    """
    if given.invoked_subcommand is not None:
        return
    if find_spec("mcp_types") is None:  # older versions of the SDK have no such package
        raise InvalidInput("MCP needs more packages: pip install 'strongroom[mcp]'")
    if sys.stdin.isatty():
        click.echo("strongroom: this talks to an assistant; `strongroom mcp install` adds it to one", err=True)

    async def run() -> None:
        ctx, role = await _opened(given)
        async with ctx:
            chosen = (profile or "agent") if role is None else profile_of(role, profile)
            who = name or (me() if chosen == "reviewer" else "assistant")
            await serve(ctx, name=who, profile=chosen, version=strongroom.__version__)

    asyncio.run(run())


async def _opened(given: click.Context) -> tuple[AsyncContext, str | None]:
    """Open where the data is; a server says which role the key has, and a file knows of none."""
    url, space, key = given.meta.get(URL), given.meta.get(SPACE), given.meta.get(KEY)
    if url is not None and is_server(str(url)):
        ctx = await strongroom.aconnect(str(url), key=key)
        if space not in (None, ctx.space):
            await ctx.close()
            raise InvalidInput(f"this key opens the space {ctx.space!r}, not {space!r}; the space comes from the key")
        remote: Any = ctx.store
        return ctx, remote.role
    if url is not None:
        file_of(str(url))  # refuses what is no address at all
    return await strongroom.aopen(str(url or made_ready(default_file())), space=space or "default"), None


@mcp.command("install")
@click.argument("client", type=click.Choice(list(CLIENTS)))
@click.option("--profile", default=None, type=click.Choice(PROFILES), help=PROFILE_HELP)
@click.option("--as", "entry_name", default=None, help="What the entry is called (default: strongroom).")
@click.option("--file", "file_name", default=None, type=click.Path(dir_okay=False), help="Another configuration file.")
@click.option("--print", "print_only", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--undo", is_flag=True, help="Take the entry out again.")
@click.pass_context
def install(
    given: click.Context,
    client: str,
    profile: Profile | None,
    entry_name: str | None,
    file_name: str | None,
    print_only: bool,
    undo: bool,
) -> None:
    """Add `strongroom mcp` to an assistant's configuration, or take it out (--undo)."""
    chosen = CLIENTS[client]
    name = installing.check_name(entry_name or ("strongroom" if profile != "reviewer" else "strongroom-review"))
    file = installing.in_place(file_name) if file_name else chosen.file(os.environ)
    record = installing.record_of(default_file().parent, chosen, file, name)
    if undo:
        change = installing.removing(chosen, file, name, record)
    else:
        entry = _entry(given, chosen, profile)
        try:
            change = installing.adding(chosen, file, name, entry)
        except InvalidInput as problem:
            if not print_only:
                raise InvalidInput(f"{problem}; --print shows what to add by hand") from None
            _tell_by_hand(chosen, file, problem, _masked(installing.by_hand(chosen, name, entry), given.meta.get(KEY)))
            return
    changed = change.before != change.after
    if changed and not print_only:
        if undo:
            installing.restore(change, record)
        else:
            installing.write(change, record)
    given_options = [
        ("--profile", profile),
        ("--as", entry_name),
        ("--file", file_name and str(file)),
    ]
    typed = [word for option, value in given_options if value is not None for word in (option, value)]
    hint = "" if undo else f"{chosen.note} {_afterwards(given, ['mcp', 'install', client, *typed, '--undo'])}".strip()
    _tell(change, chosen, done=changed and not print_only, hint=hint, secret=given.meta.get(KEY))


def _afterwards(given: click.Context, undoing: list[str]) -> str:
    """Say what a person types next: assistants keep their file where no other command looks by itself."""
    reviewing = shlex.join(["strongroom", "--url", _address(given) or str(default_file()), "review"])
    return (
        f"What it proposes waits for you: `{reviewing}`. `{shlex.join(['strongroom', *undoing])}` takes it out again."
    )


def _address(given: click.Context) -> str | None:
    """Return where the data is as it can be said in any folder: of a file the one path that does not depend on where
    we are, nor on links."""
    url = given.meta.get(URL)
    file = None if url is None or is_server(str(url)) else file_of(str(url))
    return str(file.resolve()) if file is not None else None if url is None else str(url)


def _entry(given: click.Context, client: Client, profile: Profile | None) -> Entry:
    command, *arguments = installing.our_command()
    named = [] if profile == "reviewer" else ["--name", client.name]
    env = {}
    if url := _address(given):
        env["STRONGROOM_URL"] = url
    if space := given.meta.get(SPACE):
        env["STRONGROOM_SPACE"] = str(space)
    if key := given.meta.get(KEY):
        env["STRONGROOM_API_KEY"] = str(key)
    on_server = url is not None and is_server(url)  # where the key says it
    chosen = [] if on_server and profile is None else ["--profile", profile or "agent"]
    return Entry(command, (*arguments, "mcp", *chosen, *named), env)


def _tell(change: installing.Change, client: Client, *, done: bool, hint: str, secret: str | None) -> None:
    """Say what was changed, line by line; a key is not for the screen."""
    before, after = change.before or "", change.after or ""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    shown = _masked("\n".join(lines), secret)
    if wants_json():
        as_json({"client": client.name, "file": str(change.file), "changed": done, "diff": shown})
        return
    if change.before == change.after:
        say("nothing to change in {}", change.file)
        return
    say("{}", shown)
    if not done:
        say("[yellow]nothing was written[/]; this is what would change in {}", change.file)
        return
    say("[green]written:[/] {}", change.file) if change.after is not None else say("[green]removed:[/] {}", change.file)
    if hint:
        say("{}", hint)


def _tell_by_hand(client: Client, file: Path, problem: InvalidInput, entry: str) -> None:
    """Say what to add to a file that we do not write."""
    if wants_json():
        as_json({"client": client.name, "file": str(file), "changed": False, "why": str(problem), "by_hand": entry})
        return
    say("[yellow]nothing is written:[/] {}", problem)
    say("what to add by hand:")
    say("{}", entry.rstrip("\n"))


def _masked(text: str, secret: str | None) -> str:
    return text.replace(secret, "srk_***") if secret else text
