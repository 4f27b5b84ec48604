"""`make docs`: rebuild the parts of docs/ that come from the program itself, then the site (see `site.py`).

* the help texts in `cli.md`, between its two marks;
* the conversation in `mcp.md`, between its two marks: see `conversation.py`;
* `guarantees.md`, the promises that the conformance suite proves;
* what is on each long page, between its two marks: see `contents.py`;
* `overview.py` of the command line, what `strongroom --help` says;
* `drawn/*.svg`, the drawings of `concepts.md`: see `drawings.py`;
* `screens/*.svg`, what commands print, from really running them;
* `examples.json` of the server, in its description of the API: see `recording.py`.

Tests compare all but the screens with what this would write, so a change of the program cannot leave them behind.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

import strongroom
from docs import conversation, drawings, site
from docs.contents import with_contents
from docs.recording import EXAMPLES, record, shape
from strongroom.cli.root import cli
from strongroom.testing import guarantees

DOCS = Path(__file__).parent
OVERVIEW = DOCS.parent / "src" / "strongroom" / "cli" / "overview.py"
WIDTH = 100
BEGIN, END = "<!-- help texts: made by `make docs` -->", "<!-- end of help texts -->"
INTRODUCTION = """# Guarantees

What every store promises. Each line is a test of `strongroom.testing.StoreConformance`, which ships in the wheel and
runs against each of our own stores; subclass it in five lines to prove a store of yours. `make docs` writes this page.

An id that a caller chose is remembered for 30 days, or as long as the store was told to (`repeats=`, up to
`"forever"`); one of ours for an hour. `strongroom doctor` tells which is in force, and what it costs in bytes is said
in the [file format](format.md). `strongroom backup` keeps these commit ids; `strongroom copy` leaves them behind, and
[a repeat is done again there](how-to/move.md).
"""
SCREENS = {
    "help": ["--help"],
    "demo": ["demo", "--fast"],
    "runs-show": ["runs", "show", "scraper"],
    "doctor": ["doctor"],
}


# ---- pages ----------------------------------------------------------------------------------------------------------


def pages() -> dict[Path, str]:
    """Return the pages as they should be."""
    made = {
        DOCS / "cli.md": cli_page((DOCS / "cli.md").read_text()),
        DOCS / "mcp.md": conversation.page((DOCS / "mcp.md").read_text()),
        DOCS / "guarantees.md": guarantees_page(),
    }
    # Decisions are looked up by their numbers: a line of more than a hundred would be a page of its own.
    written = {path: path.read_text() for path in sorted(DOCS.glob("*.md")) if path.name != "design.md"} | made
    return {path: with_contents(text) for path, text in written.items()} | {OVERVIEW: overview()}


def overview() -> str:
    """Return the module that answers `strongroom --help` without importing every command."""
    context = cli.make_context("strongroom", [], resilient_parsing=True, terminal_width=80)
    text = "\n".join(line.rstrip() for line in cli.get_help(context).splitlines())
    return f'"""What `strongroom --help` says. `make docs` writes this file."""\n\nTEXT = """\\\n{text}\n"""\n'


def cli_page(old: str) -> str:
    """Return the page with the help texts of now between its marks."""
    before, _, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    texts = "\n\n".join(f"### `{name}`\n\n```text\n{text}\n```" for name, text in helps(cli, "strongroom", None))
    return f"{before}{BEGIN}\n\n{texts}\n\n{END}{after}"


def helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    """Yield each command's full name and help, a group before what is in it."""
    context = command.make_context(name.split()[-1], [], parent, resilient_parsing=True, terminal_width=WIDTH)
    yield name, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            assert found is not None
            yield from helps(found, f"{name} {part}", context)


def guarantees_page() -> str:
    """Return the table of promises."""
    parts = [INTRODUCTION]
    for group, promises in groupby(guarantees(), key=lambda promise: promise.group):
        rows = "\n".join(
            f"| {' '.join(promise.sentence.split())} | `{promise.name.removeprefix('test_')}` |" for promise in promises
        )
        parts.append(f"## {group.capitalize()}\n\n| promise | test |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


# ---- screens --------------------------------------------------------------------------------------------------------


def screens() -> dict[Path, str]:
    """Run the commands and return pictures of what they print. New amounts and ids alone are no reason for new ones."""
    with tempfile.TemporaryDirectory(prefix="strongroom-docs-") as folder:
        _prepare(Path(folder) / "agent.db")
        made = {DOCS / "screens" / f"{name}.svg": _screen(name, args, folder) for name, args in SCREENS.items()}
    old = {path: path.read_text() if path.exists() else "" for path in made}
    return {path: old[path] if still(old[path]) == still(text) else text for path, text in made.items()}


def still(picture: str) -> str:
    """Return the words of a picture, without what differs from run to run: ids, times and amounts."""
    words = re.sub(r"<[^>]*>|(&#160;|\s)+", " ", picture)
    return re.sub(r"[0-9a-f]{16}|\d[\d.,:-]*", "#", " ".join(words.split()))


def _prepare(path: Path) -> None:
    with strongroom.open(path) as ctx:
        run = ctx.runs.create(
            objective="Build a scraper for example.com",
            acceptance_criteria=["saves JSON", "finishes in an hour"],
            constraints=["be polite"],
            run_id="scraper",
        )
        run.update(status="BUSY", current_stage="FETCH", next_action="fetch page 42", blockers=["HTTP 429 at times"])
        run.record("TOOL_CALL", {"tool_name": "fetch", "arguments": {"url": "https://example.com"}})
        run.attach(b"<html></html>", type="page", path="page-41.html")
        run.milestone("the first page is saved")


def _screen(name: str, args: list[str], folder: str) -> str:
    look = {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color", "TTY_INTERACTIVE": "0"}
    quiet = {
        name: value for name, value in os.environ.items() if not name.startswith(("STRONGROOM_", "AOS_", "QDRANT_"))
    }
    ran = subprocess.run(
        [sys.executable, "-m", "strongroom", *args],
        env={**quiet, **look},
        cwd=folder,
        stdout=subprocess.PIPE,
        check=True,
    )
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ strongroom {' '.join(args)}", "bold green"))
    console.print(Text.from_ansi(ran.stdout.decode()), end="", soft_wrap=False)
    # Without the font that would be loaded from elsewhere: a picture in a repository asks nobody for anything.
    shape = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    shape = shape.replace("Fira Code, monospace", "Menlo, Consolas, DejaVu Sans Mono, monospace")
    drawn = console.export_svg(title="strongroom", code_format=shape, unique_id=f"strongroom-{name}")
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def examples() -> dict[Path, str]:
    """Return the examples as they should be. New times and ids alone are no reason for new ones."""
    old, new = EXAMPLES.read_text() if EXAMPLES.exists() else "{}", record()
    return {EXAMPLES: old if shape(json.loads(old)) == shape(new) else json.dumps(new, indent=1) + "\n"}


def main() -> None:
    """Write everything that changed."""
    for path, text in {**pages(), **drawings.drawn(), **screens(), **examples()}.items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"written: {path.relative_to(DOCS.parent)}")
    site.main()


if __name__ == "__main__":
    main()
