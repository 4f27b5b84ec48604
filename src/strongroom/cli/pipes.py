"""Where the reader of our output (head, less) has gone. Apart, since help is printed before all else is imported."""

from __future__ import annotations

import os
import sys


def seen_enough() -> None:
    """Write no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
