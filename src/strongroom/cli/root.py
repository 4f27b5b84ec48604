"""The outermost command, and what every command shares: where the data is, whose it is, and --json.

These options may stand anywhere: `strongroom --json runs list` and `strongroom runs list --json` are the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click
from msgspec.structs import replace

import strongroom
import strongroom.config as config
from strongroom.arguments import whole_number
from strongroom.blocking import Context
from strongroom.cli.meant import meant
from strongroom.cli.output import JSON, clean, working
from strongroom.compat.aos_context import environment as aos
from strongroom.errors import InvalidInput, NotFound
from strongroom.files import is_read_only
from strongroom.opening import open_store
from strongroom.store import Store

# The module that each command is in. It is imported when the command is used, and all of them for no command.
MODULES = {
    "anchor": "runs",
    "backup": "upkeep",
    "check": "upkeep",
    "compact": "upkeep",
    "copy": "upkeep",
    "decrypt": "encryption",
    "demo": "serving",
    "doctor": "doctor",
    "encrypt": "encryption",
    "erase": "memories",
    "explain": "explaining",
    "files": "files",
    "import": "importing",
    "keys": "keys",
    "learn": "learning",
    "mcp": "mcp",
    "memories": "memories",
    "rekey": "encryption",
    "review": "reviewing",
    "runs": "runs",
    "serve": "serving",
    "sessions": "sessions",
    "threads": "threads",
    "version": "doctor",
    "worker": "serving",
}
DEFAULT_URL = "agent.db"
MAX_SUGGESTED_FROM = 1_000
MOST_SHOWN = 1_000  # of anything at a time
URL, SPACE, KEY = "strongroom.url", "strongroom.space", "strongroom.key"


# ---- options that may stand anywhere --------------------------------------------------------------------------------


def _remember(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value == "":
            raise click.BadParameter("it is empty; leave it out for the default")
        if value not in (None, False):
            context.meta[name] = value

    return callback


def _option(flag: str, name: str, **more: Any) -> click.Option:
    return click.Option([flag], expose_value=False, callback=_remember(name), **more)


def _json() -> click.Option:
    return _option("--json", JSON, is_flag=True, help="Answer in JSON.")


def _shared(own: Sequence[click.Parameter]) -> list[click.Parameter]:
    """Return the options to add to a command that has some of its own. Only --json is worth a line in each help."""
    taken = {name for parameter in own for name in parameter.opts}
    offered = [
        _json(),
        _option("--url", URL, hidden=True),
        _option("--space", SPACE, hidden=True),
        _option("--key", KEY, hidden=True),
    ]
    return [option for option in offered if option.opts[0] not in taken]


class Command(click.Command):
    """A command that takes the shared options too."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params = [*self.params, *_shared(self.params)]


class Group(click.Group):
    """A group of such commands, which helps with misspelt ones."""

    command_class = Command
    group_class: type[click.Group] | type[type] | None = type

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params = [*self.params, *_shared(self.params)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            group = "" if ctx.parent is None else self.name or ""
            hint = meant(args[0], group, self.list_commands(ctx), self.below(ctx))
            raise click.UsageError(f"no command {args[0]!r:.60}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def below(self, ctx: click.Context) -> dict[str, list[str]]:
        """Return the commands of each group in this one."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: one.list_commands(ctx) for name, one in commands.items() if isinstance(one, click.Group)}


class Root(Group):
    """The group of all commands, which loads the one that is wanted."""

    group_class = Group

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in MODULES:
            import_module(f"strongroom.cli.{MODULES[cmd_name]}")
        return super().get_command(ctx, cmd_name)


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        _option("--url", URL, envvar="STRONGROOM_URL", help="Where the data is (default: agent.db)."),
        _option("--space", SPACE, envvar="STRONGROOM_SPACE", help="Whose data, the tenant (default: default)."),
        _option("--key", KEY, envvar="STRONGROOM_API_KEY", help="Who you are, if the data is on a server."),
        _json(),
    ],
)
@click.version_option(strongroom.__version__, prog_name="strongroom")
def cli() -> None:
    """Everything an AI agent knows, in one crash-safe store."""


# ---- where the data is ----------------------------------------------------------------------------------------------


def address() -> str:
    """Return where the data is: --url, STRONGROOM_URL, strongroom.yaml, where AoS had its runs, or agent.db."""
    named = click.get_current_context().meta.get(URL)
    if named:
        return str(named)
    configured = _configured()
    if configured is not None and replace(configured.backend, repeats=None) != type(configured.backend)():
        return str(configured.url)
    return aos.store_in(aos.runs_root()) or DEFAULT_URL


def space() -> str:
    """Return whose data it is: --space, STRONGROOM_SPACE, strongroom.yaml, or `default`."""
    named = click.get_current_context().meta.get(SPACE)
    if not named and os.environ.get("STRONGROOM_SPACE") == "":
        raise InvalidInput("STRONGROOM_SPACE is empty, which names no space; unset it for the default one")
    configured = None if named else _configured()
    return str(named or (configured.backend.space if configured is not None else "default"))


def options() -> dict[str, Any]:
    """Return what `strongroom.yaml` says about opening a store. The environment is heard by whoever opens one."""
    configured = _configured()
    return {} if configured is None else dict(configured.options)


def searching() -> dict[str, Any]:
    """Return what `strongroom.yaml` or the environment says about searching by meaning."""
    configured = _configured()
    if configured is None and os.environ.get("STRONGROOM_EMBEDDER"):
        configured = config.load()
    return {} if configured is None else dict(configured.searching)


def _configured() -> Any:
    if os.environ.get("STRONGROOM_CONFIG") or Path(config.FILE).is_file():
        return config.load()
    return None


def is_server(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def file_of(url: str) -> Path | None:
    """Return the file an address stands for, or None if it is no file."""
    if "://" not in url:
        return Path(url)
    try:
        parts = urlsplit(url)
    except ValueError as problem:
        raise InvalidInput(f"{url!r:.80} is no address ({problem})") from None
    return Path(unquote(parts.netloc + parts.path.removeprefix("/"))) if parts.scheme == "sqlite" else None


def is_there(url: str) -> bool:
    """Tell whether there is something to look at. An empty file is nothing yet; servers are asked by connecting.

    Raise `Damaged` where nothing is left of a store but its log.
    """
    file = file_of(url)
    try:
        if file is None or (file.exists() and (not file.is_file() or file.stat().st_size > 0)):
            return True
        _stray().refuse_stray_log(file.resolve())
    except (OSError, ValueError):  # a name no file can have
        pass
    return False


def _stray() -> Any:
    from strongroom.backends.sqlite import stray  # here: help needs no SQLite

    return stray


def require_there(url: str, hint: str = "; name one with --url or STRONGROOM_URL") -> None:
    """Refuse to look at what is not there: looking must not create it."""
    if not is_there(url):
        file = file_of(url)
        if file is not None and os.path.isfile(file):  # noqa: PTH113 - which a name no file can have is not
            raise InvalidInput(f"{url!r} is an empty file, no store yet: a command that writes makes one of it{hint}")
        raise InvalidInput(f"there is no store at {url!r}{hint} (nothing was created)")


def how_to_open(url: str, *, looking: bool = False) -> dict[str, Any]:
    """Return how to open what is there: a file that cannot be written is still there to be read.

    Who is only `looking` leaves a backup as it was written, so that it is still known for one (`stray`).
    """
    file = file_of(url)
    read_only = file is not None and file.is_file() and (is_read_only(file) or (looking and _stray().is_whole(file)))
    return {"read_only": True} if read_only else options()  # which are for those who write


def may_record() -> bool:
    """Tell whether what a command reads can be told of in the store too: not in a file that is only read."""
    return is_server(address()) or "read_only" not in how_to_open(address())


@contextmanager
def opened(url: str | None = None, *, create: bool = False, looking: bool = False, **more: Any) -> Iterator[Store]:
    """Open the store itself, for work that knows no spaces."""
    wanted = url or address()
    file_of(wanted)  # refuses what is no address at all
    if is_server(wanted):
        with _connected(wanted) as remote:
            yield remote.store
        return
    if not create:
        require_there(wanted) if url is None else require_there(url, hint="")
    store = open_store(wanted, **how_to_open(wanted, looking=looking), **more)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def context(*, create: bool = False) -> Iterator[Context]:
    """Open everything in the user's space. A name that is not there comes back with the nearest one that is."""
    url = address()
    file_of(url)  # refuses what is no address at all
    if is_server(url):
        opening: Any = _connected(url)
    else:
        if not create:
            require_there(url)
        opening = strongroom.open(url, space=space(), **how_to_open(url), **searching())
    with opening as ctx:
        try:
            yield ctx
        except NotFound as missing:
            raise suggest(ctx, missing) from None


@contextmanager
def _connected(url: str) -> Iterator[Context]:
    wanted = click.get_current_context().meta
    with working(f"waiting for {url}"):
        connected = strongroom.connect(url, key=wanted.get(KEY))
    with connected as ctx:
        if wanted.get(SPACE) not in (None, ctx.space):
            raise InvalidInput(
                f"this key opens the space {ctx.space!r}, not {wanted[SPACE]!r}; the space comes from the key"
            )
        yield ctx


# ---- names that are nearly right ------------------------------------------------------------------------------------

_IDS: dict[str, Callable[[Context], list[str]]] = {
    "run": lambda ctx: [run.id for run in ctx.runs.list(limit=MAX_SUGGESTED_FROM)],
    "session": lambda ctx: [one.id for one in ctx.sessions.list(limit=MAX_SUGGESTED_FROM, reverse=True)],
    "thread": lambda ctx: [one.thread_id for one in ctx.threads.list(limit=MAX_SUGGESTED_FROM)],
    "memory": lambda ctx: [one.id for one in ctx.memories.list(status=None, everyone=True, limit=MAX_SUGGESTED_FROM)],
    "memory_batch": lambda ctx: [one.id for one in ctx.memories.pending(limit=MAX_SUGGESTED_FROM)],
}


def suggest(ctx: Context, missing: NotFound) -> NotFound:
    """Return the error with the nearest name that there is."""
    if missing.kind not in _IDS:
        return missing
    from difflib import get_close_matches

    what = missing.kind.replace("_", " ")
    known = _IDS[missing.kind](ctx)
    near = get_close_matches(missing.id, known, n=1, cutoff=0.5)
    begun = [name for name in known if len(missing.id) > 3 and name.startswith(missing.id)]
    if near or begun:
        hint = f"did you mean {(begun or near)[0]!r}?"
    elif known:
        hint = f"`strongroom {_GROUPS[missing.kind]}` shows what there is"
    else:
        hint = f"{_NONE.get(missing.kind, 'there is none at all')} in space {ctx.space!r}"
    return NotFound(f"no {what} {missing.id!r:.80}; {hint}", kind=missing.kind, id=missing.id)


_GROUPS = {
    "run": "runs list",
    "session": "sessions list",
    "thread": "threads list",
    "memory": "memories list --everyone --status any",
    "memory_batch": "memories pending",
}
_NONE = {  # of what is not listed once it has ended
    "thread": "there is no live one",
    "memory_batch": "none waits for a decision",
}


# Shells put what they are offered into the line as it is, and a stranger may have chosen it: `a$(reboot)` would be run.
# To quote it would take other signs in each shell, so only what needs none is offered.
_PLAIN = re.compile(r"[\w.:@/+][\w.:@/+-]*")


def completing(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a function that completes plain names of this kind in the user's shell."""

    def complete(given: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        try:
            with given, context() as ctx:
                return [name for name in _IDS[kind](ctx) if name.startswith(begun) and _PLAIN.fullmatch(name)]
        except Exception:  # a shell waiting for a completion has no use for an error
            return []

    return complete


class Count(click.IntRange):
    """How many of something, by the same rule and in the same words as through every other door."""

    def __init__(self, most: int = MOST_SHOWN) -> None:
        super().__init__(1, most)
        self._words = whole_number(1, most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"must be {self._words}, not {clean(value):.40}", param, ctx)


def argument(name: str, kind: str) -> Callable[[Any], Any]:
    """Return an argument that names a run, a session and so on."""
    return click.argument(name, shell_complete=completing(kind))


def me() -> str:
    """Return who is at the keyboard, for ledgers and reviews: STRONGROOM_ACTOR, or the login name."""
    import getpass

    try:
        return os.environ.get("STRONGROOM_ACTOR") or getpass.getuser()
    except (OSError, KeyError):  # no such user: a container with a number for a name
        return "cli"
