"""The context brief: a working set and what is remembered, as text for a model (pure).

Seven headings, always all of them, always in this order. The same input gives the same bytes. What does not fit is left
out from the least important on, and every line left out is named in the receipt:

1. long-term memories, the least certain first,
2. sliding items, in the order of eviction,
3. artifacts, the oldest first; the summary of the last action; blockers, constraints, criteria, the last first,
4. pinned items, the last first.

The objective and the status never go. A brief that can not hold even them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from holdfast.errors import BudgetExceeded, InvalidInput
from holdfast.services.runs.changes import WorkingSetJson
from holdfast.services.runs.working_set import ranked
from holdfast.tokens import Tokenizer
from holdfast.values import Brief, BriefReceipt, LeftOut

TITLE = "# Context brief\n"
HEADINGS = (
    "Objective",
    "Acceptance criteria",
    "Constraints",
    "Pinned context",
    "Recent context",
    "Long-term memory",
    "Status",
)
OBJECTIVE, CRITERIA, CONSTRAINTS, PINNED, RECENT, MEMORY, STATUS = range(7)
NONE = "(none)\n"
SHOWN_ARTIFACTS = 5

Memory = Mapping[str, Any]


class Line(Struct, frozen=True):
    """One printed line: where it stands, what it is called, and when it would go (None: never; lowest first)."""

    section: int
    id: str
    text: str
    goes: tuple[int, int] | None = None


def compose(
    state: WorkingSetJson,
    memories: Sequence[Memory],
    *,
    max_tokens: int,
    min_confidence: float,
    tokenizer: Tokenizer,
) -> Brief:
    """Return the brief that fits, with its receipt."""
    if type(max_tokens) is not int or max_tokens < 1:
        raise InvalidInput(f"max_tokens must be a whole number above 0, not {max_tokens!r:.40}")
    known = sorted(memories, key=lambda memory: (-float(memory["confidence"]), str(memory["memory_id"])))
    certain = [memory for memory in known if float(memory["confidence"]) >= min_confidence]
    doubtful = [
        LeftOut(section=HEADINGS[MEMORY], id=str(memory["memory_id"]), reason="below_confidence")
        for memory in known
        if float(memory["confidence"]) < min_confidence
    ]
    lines = [*lines_of(state), *_memory_lines(certain)]
    kept, gone, tokens = _fit(lines, max_tokens, tokenizer)
    if tokens > max_tokens:
        raise BudgetExceeded(
            f"the objective and the status alone take {tokens} tokens, and max_tokens is {max_tokens}",
            limit=max_tokens,
            needed=tokens,
        )
    left_out = [LeftOut(section=HEADINGS[line.section], id=line.id, reason="over_budget") for line in gone]
    receipt = BriefReceipt(
        max_tokens=max_tokens,
        tokenizer=tokenizer.name,
        approximate=tokenizer.approximate,
        left_out=(*doubtful, *left_out),
    )
    return Brief(render(kept), tokens, receipt)


def memory_of(item: Any) -> Memory:
    """Return what a brief prints of a memory, a search hit, or a v2.1 memory item."""
    try:
        if isinstance(item, Mapping):
            known = {name: item[name] for name in ("memory_id", "content", "confidence")}
            return known | {"confidence": float(known["confidence"])}
        memory = getattr(item, "memory", item)
        return {"memory_id": memory.id, "content": memory.content, "confidence": memory.confidence}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidInput(f"a memory, a hit of a search or a v2.1 item was expected, not {item!r:.80}") from None


def lines_of(state: WorkingSetJson) -> list[Line]:
    """Return every line a working set prints."""
    lines = [Line(OBJECTIVE, "objective", _text(state["objective"]))]
    lines += _items(CRITERIA, _item_lines(state["acceptance_criteria"]), 6)
    lines += _items(CONSTRAINTS, _item_lines(state["constraints"]), 5)
    pinned = state["pinned_context"]
    lines += [
        Line(PINNED, item["id"], pinned_line(item), (7, len(pinned) - place)) for place, item in enumerate(pinned)
    ]
    leaving = {place: turn for turn, place in enumerate(ranked(state["sliding_context"]))}
    lines += [
        Line(RECENT, item["id"], sliding_line(item), (1, leaving[place]))
        for place, item in enumerate(state["sliding_context"])
    ]
    names = ("status", None), ("next_action", None), ("last_action_summary", (3, 0))
    lines += [Line(STATUS, id, text, goes) for (id, goes), text in zip(names, _status_lines(state), strict=False)]
    lines += _items(STATUS, _item_lines(state["blockers"], "blocked by: "), 4)
    refs = state["artifact_refs"]
    shown = [ref["id"] for ref in refs[-SHOWN_ARTIFACTS:]]
    ids = ["artifacts", *shown] if len(refs) > len(shown) else shown
    first = len(shown) - len(ids)
    return lines + [
        Line(STATUS, id, text, (2, turn))
        for turn, (id, text) in enumerate(zip(ids, _artifact_lines(refs), strict=True), first)
    ]


def fixed_lines(state: WorkingSetJson) -> list[str]:
    """Return the text of every line that can not slide out. Asked at each update, so nothing but the text."""
    return [
        _text(state["objective"]),
        *_item_lines(state["acceptance_criteria"]),
        *_item_lines(state["constraints"]),
        *map(pinned_line, state["pinned_context"]),
        *_status_lines(state),
        *_item_lines(state["blockers"], "blocked by: "),
        *_artifact_lines(state["artifact_refs"]),
    ]


def render(lines: Sequence[Line]) -> str:
    """Put the lines under their headings."""
    parts = [TITLE]
    for section in range(len(HEADINGS)):
        parts.append(heading(section))
        own = [line.text for line in lines if line.section == section]
        parts += own or [NONE]
    return "".join(parts)


def heading(section: int) -> str:
    return f"\n## {section + 1}. {HEADINGS[section]}\n"


def frame_tokens(count: Callable[[str], int]) -> int:
    """Return what the headings cost, each counted with the filler it may need."""
    return count(TITLE) + sum(count(heading(section)) + count(NONE) for section in range(len(HEADINGS)))


def pinned_line(item: Mapping[str, Any]) -> str:
    source = f" (source: {_flat(item['source_ref'])})" if item["source_ref"] else ""
    return f"- {_text(item['content'])[:-1]}{source}\n"


def sliding_line(item: Mapping[str, Any]) -> str:
    return f"- [{item['timestamp']}] {_text(item['content'])}"


def _fit(lines: list[Line], room: int, tokenizer: Tokenizer) -> tuple[list[Line], list[Line], int]:
    costs = [tokenizer.count(line.text) for line in lines]
    order = sorted((place for place, line in enumerate(lines) if line.goes is not None), key=lambda p: _turn(lines[p]))
    total = frame_tokens(tokenizer.count) + sum(costs)
    leaving = 0
    while leaving < len(order) and total > room:
        total -= costs[order[leaving]]
        leaving += 1
    while True:
        gone = set(order[:leaving])
        kept = [line for place, line in enumerate(lines) if place not in gone]
        # Lines are counted one by one and the whole once more: a tokenizer may see other words across a line's end.
        tokens = tokenizer.count(render(kept))
        if tokens <= room or leaving == len(order):
            return kept, [lines[place] for place in order[:leaving]], tokens
        leaving += 1


def _turn(line: Line) -> tuple[int, int]:
    assert line.goes is not None
    return line.goes


def _item_lines(items: Sequence[str], lead: str = "") -> list[str]:
    return [f"- {lead}{_text(item)}" for item in items]


def _items(section: int, texts: Sequence[str], turn: int) -> list[Line]:
    return [Line(section, str(place), text, (turn, len(texts) - place)) for place, text in enumerate(texts)]


def _status_lines(state: WorkingSetJson) -> list[str]:
    lines = [
        f"{state['status']}, stage {_flat(state['current_stage'])}\n",
        f"next action: {_flat(state['next_action']) or '(unset)'}\n",
    ]
    if state["last_action_summary"]:
        lines.append(f"last action: {_flat(state['last_action_summary'])}\n")
    return lines


def _artifact_lines(refs: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        f"- artifact {_flat(ref['id'])}: {_flat(ref['type'])} {_flat(ref['path'])}\n" for ref in refs[-SHOWN_ARTIFACTS:]
    ]
    older = len(refs) - len(lines)
    return [f"- {older} older artifacts\n", *lines] if older else lines


def _memory_lines(memories: Sequence[Memory]) -> list[Line]:
    return [
        Line(MEMORY, str(memory["memory_id"]), f"- {_text(str(memory['content']))}", (0, len(memories) - place))
        for place, memory in enumerate(memories)
    ]


def _text(text: str) -> str:
    """Indent what follows the first line, so that content can never pass for a heading of ours."""
    return text.strip().replace("\r", "").replace("\n", "\n  ") + "\n"


def _flat(text: str) -> str:
    return " ".join(text.split())
