"""The reference, made from the program while the site is built: names, events, errors, settings, the HTTP API.

A page here cannot be out of date, and a name without a docstring does not pass `tests/test_site.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, get_args, get_origin

import msgspec

import strongroom
from docs import settings
from strongroom import remedies, schemas
from strongroom.adapters.mem0 import Memory as Mem0
from strongroom.archives import FolderArchive
from strongroom.blocking import Context
from strongroom.blocking.files import Files
from strongroom.blocking.memories import Memories
from strongroom.blocking.registry import Registry
from strongroom.blocking.runs import Runs
from strongroom.blocking.sessions import Sessions
from strongroom.blocking.threads import Threads
from strongroom.config import Backend, ProcessPool
from strongroom.dispatch import AsyncDispatcher, Dispatcher, Retry
from strongroom.protocol.errors import ERRORS
from strongroom.server.openapi import describe
from strongroom.server.routes import ENDPOINTS
from strongroom.services.runs.ledger import RESERVED
from strongroom.testing import StoreConformance, explore, failures, guarantees, linearizable

NAV = {
    "Opening and the context": "reference/context.md",
    "Runs": "reference/runs.md",
    "Sessions and prompts": "reference/sessions.md",
    "Memories": "reference/memories.md",
    "Threads and dispatch": "reference/threads.md",
    "Files and turns": "reference/files.md",
    "Testing a store": "reference/testing.md",
    "Events": "reference/events.md",
    "Errors": "reference/errors.md",
    "Configuration": "reference/configuration.md",
    "Command line": "cli.md",
    "HTTP API": "reference/http.md",
}
# What is told on which page, in which order. `ctx.runs` and the like are shown under the name that a program writes.
NAMES: dict[str, tuple[tuple[str, Any], ...]] = {
    "reference/context.md": (
        ("strongroom.open", strongroom.open),
        ("strongroom.aopen", strongroom.aopen),
        ("strongroom.connect", strongroom.connect),
        ("strongroom.aconnect", strongroom.aconnect),
        ("Context", Context),
        ("AsyncContext", strongroom.AsyncContext),
        ("Durability", strongroom.Durability),
        ("Listing", strongroom.Listing),
    ),
    "reference/runs.md": (
        ("ctx.runs", Runs),
        ("Run", strongroom.Run),
        ("AsyncRun", strongroom.AsyncRun),
        ("WorkingSet", strongroom.WorkingSet),
        ("Status", strongroom.Status),
        ("UpdateFields", strongroom.UpdateFields),
        ("Event", strongroom.Event),
        ("EventType", strongroom.EventType),
        ("StepRequest", strongroom.StepRequest),
        ("ModelAction", strongroom.ModelAction),
        ("ToolCall", strongroom.ToolCall),
        ("ToolResult", strongroom.ToolResult),
        ("ModelUpdate", strongroom.ModelUpdate),
        ("ErrorTold", strongroom.ErrorTold),
        ("Episode", strongroom.Episode),
        ("Brief", strongroom.Brief),
        ("Verification", strongroom.Verification),
        ("RunConfig", strongroom.RunConfig),
    ),
    "reference/sessions.md": (
        ("ctx.sessions", Sessions),
        ("Session", strongroom.Session),
        ("AsyncSession", strongroom.AsyncSession),
        ("Message", strongroom.Message),
        ("NewMessage", strongroom.NewMessage),
        ("Tokenizer", strongroom.Tokenizer),
        ("MessageHit", strongroom.MessageHit),
        ("Window", strongroom.Window),
        ("Prompt", strongroom.Prompt),
        ("strongroom.fit", strongroom.fit),
    ),
    "reference/memories.md": (
        ("ctx.memories", Memories),
        ("Memory", strongroom.Memory),
        ("MemoryHit", strongroom.MemoryHit),
        ("MemoryRequest", strongroom.MemoryRequest),
        ("Batch", strongroom.Batch),
        ("Policy", strongroom.Policy),
        ("Embedder", strongroom.Embedder),
        ("VectorIndex", strongroom.VectorIndex),
        ("strongroom.adapters.mem0.Memory", Mem0),
    ),
    "reference/threads.md": (
        ("ctx.threads", Threads),
        ("Thread", strongroom.Thread),
        ("AsyncThread", strongroom.AsyncThread),
        ("Slot", strongroom.Slot),
        ("ctx.registry", Registry),
        ("strongroom.dispatch.Dispatcher", Dispatcher),
        ("strongroom.dispatch.AsyncDispatcher", AsyncDispatcher),
        ("strongroom.dispatch.Retry", Retry),
        ("strongroom.archives.FolderArchive", FolderArchive),
    ),
    "reference/files.md": (
        ("ctx.files", Files),
        ("File", strongroom.File),
        ("Turn", strongroom.Turn),
        ("AsyncTurn", strongroom.AsyncTurn),
    ),
    "reference/testing.md": (
        ("strongroom.testing.StoreConformance", StoreConformance),
        ("strongroom.testing.failures", failures),
        ("strongroom.testing.guarantees", guarantees),
        ("strongroom.testing.explore", explore),
        ("strongroom.testing.linearizable", linearizable),
    ),
}
BEFORE = {"reference/context.md": "Every option and its default: [Configuration](configuration.md#opening).\n\n"}
ASYNC = "Everything is as in `{0}`, with `await` before each call (iterators are `async for`)."
# The same names, awaited: told once.
TWINS = {"AsyncRun", "AsyncSession", "AsyncThread", "AsyncTurn", "AsyncContext", "strongroom.dispatch.AsyncDispatcher"}
# To be subclassed: what its tests call is no interface.
WHOLE = {"strongroom.testing.StoreConformance"}
WIDTH = 100


def pages() -> dict[str, str]:
    """Return every page of the reference."""
    titles = {name: title for title, name in NAV.items()}
    made = {name: f"# {titles[name]}\n\n{BEFORE.get(name, '')}{_names(parts)}" for name, parts in NAMES.items()}
    return made | {
        "reference/index.md": _index(),
        "reference/events.md": _events(),
        "reference/errors.md": _errors(),
        "reference/configuration.md": _configuration(),
        "reference/http.md": _http(),
    }


def documented() -> set[str]:
    """Return the public names that some page tells about."""
    told = {name.rpartition(".")[2] for parts in NAMES.values() for name, _ in parts}
    return told | {kind.__name__ for kind in _error_types()}


# ---- names ----------------------------------------------------------------------------------------------------------


def _names(parts: tuple[tuple[str, Any], ...]) -> str:
    return "\n".join(text for name, value in parts for text in _entry(name, value))


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"## `{name}`\n"
    if get_origin(value) is Literal:
        yield f"{_choices(value)}\n"
        return
    if not inspect.isclass(value):
        yield f"{_signature(name, value)}\n\n{_prose(value)}\n"
        return
    yield f"{_prose(value)}\n"
    if name in TWINS:
        yield f"{ASYNC.format(name.replace('Async', ''))}\n"
    if name in TWINS | WHOLE:
        return
    if fields := _fields(value):
        rows = "\n".join(f"| `{field}` | `{_cell(kind)}` | {default} |" for field, kind, default in fields)
        yield f"| field | type | default |\n|---|---|---|\n{rows}\n"
    for member, found in members(value):
        shown = f"{name}.{member}"
        if isinstance(found, property | cached_property):
            yield f"### `{shown}`\n\n{_prose(found)}\n"
        elif callable(found):
            yield f"### `{shown}`\n\n{_signature(shown, found)}\n\n{_prose(found)}\n"


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield what a class offers, in the order in which it is written down."""
    fields = {field for field, _, _ in _fields(kind)}
    for one in kind.__mro__:
        if not one.__module__.startswith("strongroom"):
            continue
        for name, value in vars(one).items():
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            known = callable(plain) or isinstance(plain, property | cached_property)
            if not name.startswith(("_", "test_")) and name not in fields and known and not inspect.isclass(plain):
                yield name, plain


def _fields(kind: type) -> list[tuple[str, str, str]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = {name: hint for one in reversed(kind.__mro__) for name, hint in _annotations(one).items()}
        found = msgspec.structs.fields(kind)
        public = [field for field in found if not field.name.startswith("_")]
        return [(field.name, str(hints.get(field.name, "")), _default(field)) for field in public]
    if hasattr(kind, "__required_keys__"):  # a TypedDict
        hints = _annotations(kind)
        needed: frozenset[str] = kind.__required_keys__
        return [(name, _hint(hint), "needed" if name in needed else "") for name, hint in hints.items()]
    return []


def _annotations(kind: Any) -> dict[str, Any]:
    return dict(getattr(kind, "__annotations__", {}))


def _hint(hint: Any) -> str:
    return str(getattr(hint, "__forward_arg__", hint))


def _default(field: Any) -> str:
    if field.default is not msgspec.NODEFAULT:
        return f"`{_cell(field.default)}`"
    return "" if field.default_factory is msgspec.NODEFAULT else f"`{field.default_factory.__name__}()`"


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return f"```py\n{name}(...)\n```"
    given = [one for place, one in enumerate(signature.parameters.values()) if place or one.name != "self"]
    returns = "" if signature.return_annotation is signature.empty else f" -> {_plain(signature.return_annotation)}"
    parts = list(_parameters(given))
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) > WIDTH:
        line = f"{name}(\n    " + ",\n    ".join(parts) + f",\n){returns}"
    return f"```py\n{line}\n```"


def _parameters(given: list[inspect.Parameter]) -> Iterator[str]:
    marked = any(one.kind is one.VAR_POSITIONAL for one in given)
    for one in given:
        if one.kind is one.KEYWORD_ONLY and not marked:
            marked = True
            yield "*"
        hint = "" if one.annotation is one.empty else f": {_plain(one.annotation)}"
        default = "" if one.default is one.empty else f"{' = ' if hint else '='}{_value(one.default)}"
        star = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        yield f"{star}{one.name}{hint}{default}"


def _value(value: Any) -> str:
    """Show a default. An object that is shown by its address would differ from run to run."""
    text = repr(value)
    return "..." if " at 0x" in text or text.startswith("<") else text


def _plain(hint: Any) -> str:
    return hint if isinstance(hint, str) else inspect.formatannotation(hint).replace("strongroom.", "")


def _prose(value: Any) -> str:
    """Return a docstring as Markdown: its examples become blocks."""
    text = inspect.getdoc(value.func if isinstance(value, cached_property) else value) or ""
    lines: list[str] = []
    within = False
    for line in text.splitlines():
        example = line.startswith((">>> ", "... ", "...")) or (within and line != "")
        if example != within:
            lines.append("```pycon" if example else "```")
            within = example
        lines.append(line)
    return "\n".join([*lines, "```"] if within else lines)


# ---- data -----------------------------------------------------------------------------------------------------------


def _index() -> str:
    """Return a table of contents: every name, and the line that says what it is."""
    parts = [
        "# Reference\n\nEvery public name, made from the program itself. "
        "Examples assume `import asyncio` and `import strongroom`.\n"
    ]
    for title, page in NAV.items():
        link = page.removeprefix("reference/") if page.startswith("reference/") else f"../{page}"
        parts.append(f"## [{title}]({link})\n")
        if page in NAMES:
            rows = [f"| [`{name}`]({link}#{_anchor(name)}) | {first_line(value)} |" for name, value in NAMES[page]]
            parts.append("| name | what it is |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", name.lower())


def _choices(value: Any) -> str:
    return f"One of {', '.join(f'`{one}`' for one in get_args(value))}."


def first_line(value: Any) -> str:
    if get_origin(value) is Literal:
        return _choices(value)
    return _cell((inspect.getdoc(value) or "").partition("\n")[0])


def _error_types() -> list[type[strongroom.StrongroomError]]:
    return [strongroom.StrongroomError, *(kind for kind, _ in ERRORS.values())]


def _errors() -> str:
    """Return every error with cause and remedy, and every reason of the store."""
    parts = [
        "# Errors\n\nThe type says whose fault it is and whether anything changed. `code` and `reason` are stable. "
        "`error.help`, and `help` in a server's answer, is the command that says the same in a terminal: "
        "`strongroom explain conflict`.\n"
    ]
    for kind in _error_types():
        told = remedies.ERRORS[kind.code]
        facts = ERRORS.get(kind.code, (kind, ()))[1]
        carries = ", ".join(f"`{fact}`" for fact in facts) or "nothing more"
        parts.append(
            f"## `{kind.__name__}` {{#{kind.code}}}\n\n{_prose(kind)}\n\n* **Cause.** {told.cause}\n"
            f"* **Remedy.** {told.remedy}\n* **Code** `{kind.code}`; carries {carries}.\n"
        )
    parts.append(f"## Reasons\n\nOf the store: `error.reason`.\n\n{_remedies('reason', remedies.REASONS)}\n")
    same = ", ".join(f"`{word}` is `{meant}`" for word, meant in remedies.SAME.items())
    parts.append(
        "## Codes of a server\n\nOf a request that was turned away (`code` in the answer); nothing changed. "
        f"Besides them, and those of the errors above, {same}.\n\n{_remedies('code', remedies.REQUESTS)}\n"
    )
    return "\n".join(parts)


def _remedies(title: str, table: dict[str, remedies.Remedy]) -> str:
    rows = [f'| <a id="{name}"></a>`{name}` | {one.cause} | {one.remedy} |' for name, one in sorted(table.items())]
    return "\n".join([f"| {title} | cause | remedy |", "|---|---|---|", *rows])


def _events() -> str:
    """Return every type of event with the fields of its payload."""
    schema = schemas.document("ledger_event")
    parts = [
        "# Events\n\nWhat a run's ledger holds. `run.record(type, payload)` writes those that are yours; the rest is "
        "written by the call it stands for, in the same commit. A type of your own is `custom.` and a name "
        "(`custom.invoice_sent`), with any object.\n"
    ]
    for name in schema["properties"]["event_type"]["anyOf"][0]["enum"]:
        payload = schema["$defs"][name]
        by = f"Written by `{RESERVED[name]}`." if name in RESERVED else "Yours to record."
        needed = set(payload.get("required", ()))
        rows = "\n".join(
            f"| `{field}` | {_type(one)} | {'needed' if field in needed else 'optional'} |"
            for field, one in payload.get("properties", {}).items()
        )
        parts.append(f"## `{name}`\n\n{by}\n\n| field | type | must it be there |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _type(schema: Any) -> str:
    if schema is True:
        return "any JSON"
    kind = schema.get("type", "any JSON")
    named = " or ".join(kind) if isinstance(kind, list) else kind
    if "items" in schema:
        named = f"list of {_type(schema['items'])}"
    bounds = [f"{word} {schema[key]:,}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    return f"{named} {' '.join(bounds)}".strip()


def _configuration() -> str:
    """Return every option of opening, every variable, and the settings of a file."""
    rows = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in settings.VARIABLES.items())
    parts = [
        "# Configuration\n\nDefaults, then `strongroom.yaml`, then the environment, then arguments: "
        "a later one overrides an earlier one.\n\n## Opening\n\n"
        "Of `strongroom.open` and `strongroom.aopen`. An option that a store does not have is refused.\n",
        settings.opening(),
        "## Connecting\n\nOf `strongroom.connect` and `strongroom.aconnect`.\n",
        settings.connecting(strongroom.connect),
        f"\n## Variables\n\n| variable | meaning |\n|---|---|\n{rows}\n",
        "## `strongroom.yaml`\n\nRead by `strongroom.config.load()` and the command line; needs the extra `config`.\n",
    ]
    for title, kind in (("backend", Backend), ("process_pool", ProcessPool)):
        fields = "\n".join(f"| `{name}` | `{_cell(hint)}` | {default} |" for name, hint, default in _fields(kind))
        parts.append(f"### `{title}`\n\n{_prose(kind)}\n\n| key | type | default |\n|---|---|---|\n{fields}\n")
    return "\n".join(parts)


def _http() -> str:
    """Return every endpoint, from the description that the server gives of itself."""
    described = describe(ENDPOINTS)
    parts = [
        "# HTTP API\n\nMade from the table of endpoints that the server works by. A running server shows the same "
        "with types and examples at `/docs`, and as OpenAPI at `/openapi.json`. How to use it: "
        "[the server](../server.md).\n"
    ]
    rows: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            told = _cell(one.get("summary") or one.get("description", "").partition("\n")[0])
            asked = ", ".join(f"`{each['name']}`" for each in one.get("parameters", ()) if each.get("in") == "query")
            group = path.split("/")[1] or "root"
            rows.setdefault(group, []).append(f"| `{method.upper()} {path}` | {told} | {asked} |")
    for group, lines in sorted(rows.items()):
        parts.append(f"## {group}\n\n| request | what it does | query |\n|---|---|---|\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)
