"""The `strongroom` command.

Exit codes: 0 done, 1 refused or not found (nothing changed), 2 wrong usage, 3 the store failed or is damaged,
130 interrupted. No traceback ever reaches the user; set STRONGROOM_DEBUG=1 to see one.
"""

from __future__ import annotations

import os
import sys

from strongroom.cli.overview import TEXT
from strongroom.cli.pipes import seen_enough

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line, and leave with an exit code."""
    given = list(sys.argv[1:] if args is None else args)
    if given in (["--help"], ["-h"]) and _columns() >= 80:
        # The first thing anybody types is answered at once: to work it out, every command would have to be imported.
        try:
            sys.stdout.write(TEXT)
            sys.stdout.flush()
        except BrokenPipeError:
            seen_enough()
        sys.exit(0)
    from strongroom.cli.running import run

    run(given)


def _columns() -> int:
    """Return the width to write for, as click finds it."""
    try:
        return int(os.environ.get("COLUMNS", "")) or 80
    except ValueError:
        pass
    try:
        return os.get_terminal_size().columns or 80
    except (OSError, ValueError):  # no terminal
        return 80
