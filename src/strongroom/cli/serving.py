"""`strongroom serve` and `strongroom keys`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from strongroom.cli.output import as_json, done, say, show, wants_json
from strongroom.cli.root import address, cli, is_server, is_there, options, require_there, space
from strongroom.compat.aos_context import environment as aos
from strongroom.errors import InvalidInput
from strongroom.opening import REPEATS_VARIABLE
from strongroom.services.packs.signing import pair

if TYPE_CHECKING:
    from strongroom.server.keys import Keys


@cli.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535))
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Server processes.")
@click.option("--log-level", default="info", show_default=True, type=click.Choice(["error", "warning", "info"]),
              help="info: a line for each request, without contents.")  # fmt: skip
@click.option("--no-keys", is_flag=True, help="Serve this machine without keys, although there were some.")
def serve(host: str, port: int, workers: int, log_level: str, no_keys: bool) -> None:
    """Serve the store over HTTP. As long as it never had a key, only to this machine."""
    try:
        from strongroom.server.running import run
        from strongroom.server.settings import is_loopback
    except ImportError:
        raise InvalidInput("the server needs more packages: pip install 'strongroom[server]'") from None
    url = address()
    _prepare_runs_root(url)
    if os.environ.get("QDRANT_URL") and not os.environ.get("STRONGROOM_EMBEDDER"):
        click.echo("QDRANT_URL is set and STRONGROOM_EMBEDDER is not: memories are searched by words", err=True)
    there = is_there(url)
    has_keys, had_keys = there and _with_keys(lambda keys: keys.any()), there and _with_keys(lambda keys: keys.made())
    if no_keys and (has_keys or os.environ.get("STRONGROOM_JWT_KEYS_URL")):
        raise InvalidInput("--no-keys is for a store without keys, and this server has some; revoke them first")
    protected = bool(had_keys and not no_keys) or has_keys or bool(os.environ.get("STRONGROOM_JWT_KEYS_URL"))
    if not protected and not is_loopback(host):
        raise InvalidInput(
            f"refusing to listen on {host} without keys: anybody could read and change everything. Make a key first: "
            f"strongroom --url {url} keys create --space {space()} --role admin"
        )
    os.environ["STRONGROOM_MCP_SESSIONS"] = "1" if workers == 1 else "0"
    os.environ["STRONGROOM_NO_KEYS"] = "1" if no_keys else ""
    os.environ["STRONGROOM_URL"], os.environ["STRONGROOM_SPACE"] = url, space()
    if configured := options():
        os.environ[REPEATS_VARIABLE] = configured["repeats"]

    def announce(where: str) -> None:
        if wants_json():
            as_json({"url": where, "keys": has_keys})
            return
        say("Strongroom on {}  (console: /, documentation: /docs)", where)
        if not protected:
            say("[yellow]no keys:[/] whoever is on this machine may do everything; fine for a laptop")
        elif had_keys and not has_keys:
            say("[yellow]all keys are revoked:[/] nobody is let in; make one, or serve this machine with --no-keys")

    run(host, port, workers=workers, log_level=log_level, announce=announce)


def _prepare_runs_root(url: str) -> None:
    """Make the folder in which AoS had its runs, if the data is there, and let packs be written where it wrote them."""
    root = aos.runs_root()
    if root is not None and url == aos.store_in(root):
        root.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("STRONGROOM_SNAPSHOTS", str(aos.snapshots_in(root)))


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
    text, stored = _with_keys(lambda keys: keys.create(space=opens, role=role, label=label), create=True)
    if wants_json():
        as_json({"key": text, "name": stored.name, "space": stored.space, "role": stored.role})
        return
    say("[bold]{}[/]", text)
    say("[dim]name {}, {} of space {}. Keep it safe: it cannot be shown again.[/]",
        stored.name, stored.role, repr(stored.space))  # fmt: skip


@keys.command("list")
def list_keys() -> None:
    """List keys, without their secrets."""
    found = _with_keys(lambda keys: keys.list())
    plain = [{"name": each.name, "space": each.space, "role": each.role, "label": each.label} for each in found]
    show(plain, ["name", "space", "role", "label"], [tuple(each.values()) for each in plain])


@keys.command("revoke")
@click.argument("name")
def revoke_key(name: str) -> None:
    """Make a key useless."""
    _with_keys(lambda keys: keys.revoke(name))
    done({"revoked": name}, "revoked: {} (running servers notice within five seconds)", name)


@keys.command("pair")
@click.argument("path", type=click.Path())
def make_pair(path: str) -> None:
    """Make a key for signing packs and anchors (Ed25519).

    The private half is written to PATH, for `--signing-key`; nobody else may read it. The public half is shown, and
    written beside it with `.pub`: give that to whoever checks.
    """
    private, public = pair()
    for place, half, mode in ((path, private, 0o600), (f"{path}.pub", public, 0o644)):
        try:
            file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except OSError as problem:
            raise InvalidInput(f"{place}: {problem.strerror}; a key is never overwritten; nothing changed") from None
        with os.fdopen(file, "wb") as target:
            target.write(half)
    done({"private_key": path, "public_key": public.hex()}, "{}: public key {}", path, public.hex())


def _with_keys(work: Callable[[Keys], Awaitable[Any]], *, create: bool = False) -> Any:
    from strongroom.opening import open_async_store
    from strongroom.server.keys import Keys

    url = address()
    if is_server(url):
        raise InvalidInput("keys are made where the store is, not through a server; give its address with --url")
    if not create:
        require_there(url)

    async def go() -> Any:
        store = await open_async_store(url)
        try:
            return await work(Keys(store))
        finally:
            await store.close()

    return asyncio.run(go())
