"""`strongroom keys`: who may use the server, and keys that sign."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from strongroom.cli.output import as_json, done, say, show, wants_json
from strongroom.cli.root import address, cli, how_to_open, is_server, require_there, space
from strongroom.errors import InvalidInput
from strongroom.opening import open_async_store
from strongroom.server.keys import Keys
from strongroom.services.packs.signing import pair


@cli.group()
def keys() -> None:
    """Who may use the server."""


@keys.command("create")
@click.option("--space", "for_space", help="The space (tenant) this key opens (default: default).")
@click.option("--role", required=True, type=click.Choice(["reader", "writer", "reviewer", "admin"]))
@click.option("--label", default="", help="A note for yourself.")
def create_key(for_space: str | None, role: str, label: str) -> None:
    """Make a key. It is shown once and stored as a hash."""
    opens = for_space or space()
    text, stored = with_keys(lambda keys: keys.create(space=opens, role=role, label=label), create=True)
    if wants_json():
        as_json({"key": text, "name": stored.name, "space": stored.space, "role": stored.role})
        return
    say("[bold]{}[/]", text)
    say("[dim]name {}, {} of space {}. Keep it safe: it cannot be shown again.[/]",
        stored.name, stored.role, repr(stored.space))  # fmt: skip


@keys.command("list")
def list_keys() -> None:
    """List keys, without their secrets."""
    found = with_keys(lambda keys: keys.list())
    plain = [{"name": each.name, "space": each.space, "role": each.role, "label": each.label} for each in found]
    if not plain and not wants_json():
        say("[dim]no keys[/]")
        return
    show(plain, ["name", "space", "role", "label"], [tuple(each.values()) for each in plain])


@keys.command("revoke")
@click.argument("name")
def revoke_key(name: str) -> None:
    """Make a key useless."""
    with_keys(lambda keys: keys.revoke(name))
    done({"revoked": name}, "revoked: {} (running servers notice within five seconds)", name)


@keys.command("pair")
@click.argument("path", type=click.Path())
def make_pair(path: str) -> None:
    """Make a key for signing packs and anchors (Ed25519).

    The private half is written to PATH, for `--signing-key`; nobody else may read it. The public half is shown, and
    written beside it with `.pub`: give that to whoever checks.
    """
    private, public = pair()
    files: list[tuple[int, str, bytes]] = []
    for place, half, mode in ((path, private, 0o600), (f"{path}.pub", public, 0o644)):
        try:
            files.append((os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), place, half))
        except OSError as problem:
            for file, made, _ in files:
                os.close(file)
                Path(made).unlink()
            raise InvalidInput(f"{place}: {problem.strerror}; a key is never overwritten; nothing changed") from None
    for file, _, half in files:
        with os.fdopen(file, "wb") as target:
            target.write(half)
    done({"private_key": path, "public_key": public.hex()}, "{}: public key {}", path, public.hex())


def with_keys(work: Callable[[Keys], Awaitable[Any]], *, create: bool = False) -> Any:
    """Do something with the keys in the store."""
    url = address()
    if is_server(url):
        raise InvalidInput(
            "this command works on a store itself: give the store's address with --url; on a server, admins use "
            f"GET and POST {url.rstrip('/')}/keys, and DELETE /keys/{{name}}"
        )
    if not create:
        require_there(url)

    async def go() -> Any:
        store = await open_async_store(url, **how_to_open(url))
        try:
            return await work(Keys(store))
        finally:
            await store.close()

    return asyncio.run(go())
