"""The `strongroom` command.

Exit codes: 0 done, 1 refused or not found (nothing changed), 2 wrong usage, 3 the store failed or is damaged,
130 interrupted. No traceback ever reaches the user; set STRONGROOM_DEBUG=1 to see one.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import click

from strongroom.cli import commands, importing, memories, runs, serving, sessions, threads  # noqa: F401 - they register
from strongroom.cli.output import complain
from strongroom.cli.root import cli
from strongroom.errors import StoreError, StrongroomError

__all__ = ["cli", "main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line, and leave with an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows few characters must not stop us
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if args is None else args)
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
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
        return 3 if isinstance(error, StoreError) else 1
    if isinstance(error, OSError):
        complain(str(error))
        return 1
    complain(f"this should not happen ({type(error).__name__}: {error}); STRONGROOM_DEBUG=1 shows where")
    return 3
