"""What a row of the table of repeats says of one operation that writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Call = Callable[[Any, Any, str | None], Awaitable[Any]]


@dataclass(frozen=True)
class Row:
    """One operation: what must be there, how to call it, and how to ask for something else under the same id.

    `prepare(ctx)` returns a state of plain data, so that it outlives the context. `call`, `other_content` and
    `other_target` take (ctx, state, commit_id) and return an answer that can be compared.
    """

    name: str
    prepare: Callable[[Any], Awaitable[Any]]
    call: Call
    other_content: Call
    other_target: Call
