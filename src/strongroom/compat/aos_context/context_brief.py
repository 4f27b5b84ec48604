"""render_context_brief: a working set and what is remembered, as text for a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from strongroom.compat.aos_context.token_estimator import estimate_tokens
from strongroom.services.runs.brief import compose
from strongroom.services.runs.working_set import LISTS
from strongroom.tokens import tokenizer

_EMPTY: dict[str, Any] = {
    "objective": "(unset)",
    "status": "(unset)",
    "current_stage": "(unset)",
    "next_action": "",
    "last_action_summary": "",
    **{name: [] for name in LISTS},
}


def render_context_brief(
    ws: Mapping[str, Any], *, ltm_results: Sequence[Any] | None = None, min_confidence: float = 0.8
) -> str:
    """Return the brief of a working set, with the memories that are certain enough. It has no budget of its own."""
    return compose(
        {**_EMPTY, **ws},
        [_item(found) for found in ltm_results or ()],
        max_tokens=sys.maxsize,
        min_confidence=min_confidence,
        tokenizer=tokenizer(estimate_tokens),
    ).text


def _item(found: Any) -> dict[str, Any]:
    told = asdict(found) if is_dataclass(found) and not isinstance(found, type) else found
    return {"memory_id": "", "content": "", "confidence": 0.0, **told}
