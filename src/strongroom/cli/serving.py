"""The commands that run until they are stopped: `strongroom serve`, `strongroom worker` and `strongroom demo`."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from strongroom.cli.keys import with_keys
from strongroom.cli.output import as_json, as_json_line, done, hide_secrets, say, wants_json
from strongroom.cli.root import URL, address, cli, is_server, is_there, options, searching, space
from strongroom.compat.aos_context import environment as aos
from strongroom.compat.importing_aos import import_runs, run_folders
from strongroom.console.sample import write_day
from strongroom.demo import play
from strongroom.dispatch.worker import load, work
from strongroom.errors import InvalidInput
from strongroom.opening import REPEATS_VARIABLE
from strongroom.server.settings import is_loopback


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
    except ImportError:
        raise InvalidInput("the server needs more packages: pip install 'strongroom[server]'") from None
    url = address()
    if is_server(url):
        raise InvalidInput(f"{url!r:.80} is a server already; serve needs the address of a store with --url")
    _prepare_runs_root(url)
    if os.environ.get("QDRANT_URL") and "embedder" not in searching():
        click.echo("QDRANT_URL is set and STRONGROOM_EMBEDDER is not: memories are searched by words", err=True)
    there = is_there(url)
    has_keys, had_keys = there and with_keys(lambda keys: keys.any()), there and with_keys(lambda keys: keys.made())
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
    names = {"embedder": "STRONGROOM_EMBEDDER", "embedder_key": "STRONGROOM_EMBEDDER_KEY"}
    for name, value in searching().items():
        os.environ[names.get(name, name.upper())] = value

    def announce(where: str) -> None:
        if wants_json():
            as_json_line({"url": where, "keys": has_keys})
            return
        say("Strongroom on {}  (console: /, documentation: /docs)", where)
        if not protected:
            say("[yellow]no keys:[/] whoever is on this machine may do everything; fine for a laptop")
        elif had_keys and not has_keys:
            say("[yellow]all keys are revoked:[/] nobody is let in; make one, or serve this machine with --no-keys")

    with ended_in_order():
        run(host, port, workers=workers, log_level=log_level, announce=announce)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let SIGTERM end what is under way as Ctrl-C does. Left to itself it ends the process on the spot, and what was
    made for as long as that ran (a folder, another process) stays behind."""

    def heard(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def ignored(told: sys.UnraisableHookArgs) -> None:
        # Raised where Python ignores everything, in a finalizer say: then it is heard once more, a moment later.
        if told.exc_type is KeyboardInterrupt:
            threading.Timer(0.01, os.kill, [os.getpid(), signal.SIGTERM]).start()
        else:
            told_before(told)

    before, told_before = signal.signal(signal.SIGTERM, heard), sys.unraisablehook
    sys.unraisablehook = ignored
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = told_before


def _prepare_runs_root(url: str) -> None:
    """Make the folder in which AoS had its runs, if the data is there, and let packs be written where it wrote them.

    Run folders that are there are taken into the store. What is wrong with one is told, and does not stop the others.
    """
    root = aos.runs_root()
    if root is None or url != aos.store_in(root):
        return
    root.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("STRONGROOM_SNAPSHOTS", str(aos.snapshots_in(root)))
    if not run_folders(root):
        return
    found = import_runs(root, url).runs
    if brought := [run for run in found if run.outcome == "imported"]:
        click.echo(f"took {len(brought)} of the runs in {root} into its store", err=True)
    for run in found:
        if run.outcome == "refused":
            click.echo(f"{run.folder} could not be taken in: {'; '.join(run.notes)}", err=True)


@cli.command()
@click.argument("target", metavar="MODULE:DISPATCHER")
@click.option("--drain", is_flag=True, help="Stop when nothing is left to do.")
def worker(target: str, drain: bool) -> None:
    """Run a program's functions on the store.

    Until told to stop (SIGTERM, Ctrl-C), or with --drain until nothing is left to do.
    """
    url = address()
    if is_server(url):
        raise InvalidInput("a worker works on a store itself, not through a server; give its address with --url")
    load(target)  # refuse a wrong name before a store is created for it
    if not wants_json():
        say("working for [bold]{}[/] on {}", target, hide_secrets(url))
    work(target, url=url, space=space(), drain=drain, **options())
    done({"stopped": target}, "stopped; what was acknowledged is kept")


@cli.command()
@click.option("--fast", is_flag=True, envvar="STRONGROOM_DEMO_FAST", help="Without pauses for reading.")
@click.option("--serve", "page", is_flag=True, help="Instead, fill a store with a day of agents and show the console.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="For --serve.")
@click.pass_context
def demo(command: click.Context, fast: bool, page: bool, port: int) -> None:
    """Watch an agent work, be killed, and carry on."""
    with ended_in_order():
        if page:
            _serve_sample(command, port)
            return
        facts = play(pause=0.0 if fast or not os.isatty(1) else 0.6, quiet=wants_json())
    if wants_json():
        as_json(facts)


def _serve_sample(command: click.Context, port: int) -> None:
    """Serve a store in a temporary folder, which goes when the server ends."""
    with tempfile.TemporaryDirectory(prefix="strongroom-demo-") as folder:
        url = str(Path(folder) / "agent.db")
        write_day(url, space=space())
        command.meta[URL] = url
        command.invoke(serve, host="127.0.0.1", port=port, workers=1, log_level="warning", no_keys=False)
