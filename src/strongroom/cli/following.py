"""What every `tail` shares: it prints what there is and ends, as `kubectl logs` does, unless it is told to follow."""

from __future__ import annotations

import click

FOLLOW = click.option(
    "-f", "--follow", is_flag=True, help="Go on with what comes, from whatever process, until Ctrl-C."
)
IDLE = click.option(
    "--idle", type=click.FloatRange(0, 86_400), help="With --follow: stop after so many seconds without news."
)


def seconds_to_wait(follow: bool, idle: float | None) -> float | None:
    """Return how long to wait for what comes next; None is for ever."""
    if idle is not None and not follow:
        raise click.UsageError("--idle says how long to follow, so it needs --follow")
    return idle if follow else 0
