"""What a caller of a prompt wants, and what was read for it."""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import Struct

from strongroom.services.owning import OWNER, whose
from strongroom.services.prompt.formats import Format
from strongroom.services.runs.state import Stored
from strongroom.services.sessions.windows import Gathered
from strongroom.tokens import Tokenizer


class Shares(TypedDict, total=False):
    """How much of a prompt's budget its parts are due: numbers above 0 and up to 1, in proportion to each other."""

    conversation: float
    run: float
    memories: float
    earlier: float


class Asked(Struct, frozen=True):
    """What a caller wants: everything but where to read it."""

    format: Format
    max_tokens: int
    reserve_tokens: int
    system: str | None
    tools: list[Any]
    query: str | None
    tokenizer: Tokenizer
    shares: dict[str, float]
    user_id: str | None
    project_id: str | None
    state: bool


class Known(Struct, frozen=True):
    """What was read: the conversation, the run, and what searches found."""

    gathered: Gathered | None
    run: Stored | None
    query: str
    user_id: str | None
    memories: tuple[Any, ...] = ()
    hits: tuple[Any, ...] = ()
    unsearched: tuple[str, ...] = ()  # the parts that nothing could be looked for in
    degraded: str | None = None
    damaged: dict[str, tuple[str, ...]] = {}  # by part, what searches came to and cannot be read


def of_whom(asked: Asked, gathered: Gathered | None, run: Stored | None) -> str | None:
    """Return whose memories may be seen: those of the user whose conversation and run it is, and no other's."""
    return whose(
        asked.user_id,
        session=None if gathered is None else (gathered.reading.view.id, gathered.reading.view.tags.get(OWNER)),
        run=None if run is None else (run.ref.run_id, run.state.user_id),
    )
