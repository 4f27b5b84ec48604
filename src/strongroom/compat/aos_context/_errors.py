"""What a working set is refused with, by the names of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strongroom.compat.aos_context.validation import ValidationError
from strongroom.errors import BudgetExceeded, Conflict, InvalidInput


class WSLockError(RuntimeError):
    """Somebody else has changed the run, or it is already there."""


class WSExistsError(WSLockError, FileExistsError):
    """There is another run of this id at this path, and what a run is about never changes."""


class WSSizeError(RuntimeError):
    """What never leaves a working set takes more tokens than the whole may."""


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Tell why a state is refused by the names of this package."""
    try:
        yield
    except BudgetExceeded as problem:
        raise WSSizeError(f"WS_SIZE_ERROR: {problem}") from None
    except Conflict:
        raise taken(path) from None
    except InvalidInput as problem:
        raise ValidationError(str(problem)) from None


def taken(path: Path) -> WSExistsError:
    return WSExistsError(
        f"there is another run at {path}: of this id, and with another objective, task or thread, which are fixed; "
        "choose another run_id or path; nothing changed"
    )
