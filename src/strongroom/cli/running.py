"""From what was typed to an exit code."""

from __future__ import annotations

import io
import os
import sys

import click

from strongroom.cli.output import complain
from strongroom.cli.pipes import seen_enough
from strongroom.cli.root import cli
from strongroom.errors import REFUSING, Conflict, StoreError, StrongroomError


def run(given: list[str]) -> None:
    """Run the command, and leave with an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows few characters must not stop us
            stream.reconfigure(errors="backslashreplace")
    try:
        "".join(given).encode()
    except UnicodeEncodeError:  # bytes that are no text can be neither a name nor a content
        complain("what was typed is not valid UTF-8; nothing changed")
        sys.exit(2)
    try:
        code = cli.main(given, prog_name="strongroom", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as leaving:
        code = leaving.exit_code
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted; what was acknowledged is kept")
        code = 130
    except click.ClickException as wrong:
        wrong.show()
        code = 2
    except BrokenPipeError:
        seen_enough()
        code = 0
    except Exception as error:
        if os.environ.get("STRONGROOM_DEBUG"):
            raise
        code = _explain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Exception) -> int:
    """Say what went wrong, and return the exit code for it."""
    if isinstance(error, StrongroomError):
        complain(str(error))
        if isinstance(error, StoreError | Conflict):  # the others say all there is to know
            complain(f"why, and what to do: {error.help}")
        return 3 if isinstance(error, StoreError) and error.reason not in REFUSING else 1
    if isinstance(error, OSError):
        complain(str(error))
        return 1
    complain(f"this should not happen ({type(error).__name__}: {error}); STRONGROOM_DEBUG=1 shows where")
    return 3
