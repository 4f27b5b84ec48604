"""The context brief: a working set and what is remembered, as text for a model (pure).

Seven headings, always all of them, always in this order, and no others: what stands under them makes none
(`strongroom.quoting`). The same input gives the same bytes. What does not fit is left out from the least important on,
and every line left out is named in the receipt:

1. long-term memories, the least certain first,
2. sliding items, in the order of eviction,
3. artifacts, the oldest first; the summary of the last action; blockers, constraints, criteria, the last first,
4. pinned items, the last first,
5. the run's own state, which stands there only if it is asked for.

The objective and the status never go. A brief that cannot hold even them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from strongroom.codec import encode
from strongroom.errors import BudgetExceeded, InvalidInput, shown
from strongroom.quoting import flat, quoted
from strongroom.services.runs.working_set import WorkingSetJson, ranked
from strongroom.tokens import Tokenizer
from strongroom.values import Brief, BriefReceipt, LeftOut

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
OBJECTIVE, CRITERIA, CONSTRAINTS, PINNED, RECENT, MEMORY, STATUS, OWN = range(8)
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
    memories: Sequence[Memory] | None,
    *,
    max_tokens: int,
    min_confidence: float,
    tokenizer: Tokenizer,
    with_state: bool = False,
    damaged: Iterable[str] = (),
) -> Brief:
    """Return the brief that fits, with its receipt. No memories at all: they could not be searched for.

    `damaged` are the ids of memories that were found and cannot be read.
    """
    if type(max_tokens) is not int or max_tokens < 1:
        raise InvalidInput(f"max_tokens must be a whole number above 0, not {max_tokens!r:.40}")
    unsearched = [LeftOut(section=HEADINGS[MEMORY], id="", reason="no_index")] if memories is None else []
    unsearched += [LeftOut(section=HEADINGS[MEMORY], id=id, reason="damaged") for id in damaged]
    known = sorted(memories or (), key=lambda memory: (-float(memory["confidence"]), str(memory["memory_id"])))
    certain = [memory for memory in known if float(memory["confidence"]) >= min_confidence]
    doubtful = [
        LeftOut(section=HEADINGS[MEMORY], id=str(memory["memory_id"]), reason="below_confidence")
        for memory in known
        if float(memory["confidence"]) < min_confidence
    ]
    lines = [*lines_of(state), *_memory_lines(certain)]
    if with_state and state.get("state") is not None:
        lines.append(Line(OWN, "state", own_line(state["state"]) + "\n", (8, 0)))
    kept, gone, tokens = _fit(lines, max_tokens, tokenizer)
    if tokens > max_tokens:
        raise BudgetExceeded(
            f"the objective and the status alone take {tokens} tokens, and max_tokens is {max_tokens}",
            limit=max_tokens,
            needed=tokens,
        )
    left_out = [LeftOut(section=_name(line.section), id=line.id, reason="over_budget") for line in gone]
    receipt = BriefReceipt(
        max_tokens=max_tokens,
        tokenizer=tokenizer.name,
        approximate=tokenizer.approximate,
        left_out=(*unsearched, *doubtful, *left_out),
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
        raise InvalidInput(f"a memory, a hit of a search or a v2.1 item was expected, not {shown(item)}") from None


def lines_of(state: WorkingSetJson) -> list[Line]:
    """Return every line a working set prints."""
    lines = [Line(OBJECTIVE, "objective", _objective_line(state["objective"]))]
    lines += _items(CRITERIA, _item_line, state["acceptance_criteria"], 6)
    lines += _items(CONSTRAINTS, _item_line, state["constraints"], 5)
    pinned = state["pinned_context"]
    lines += [
        Line(PINNED, item["id"], _pinned_line(item["content"], item.get("source_ref", "")), (7, len(pinned) - place))
        for place, item in enumerate(pinned)
    ]
    leaving = {place: turn for turn, place in enumerate(ranked(state["sliding_context"]))}
    lines += [
        Line(RECENT, item["id"], sliding_line(item["timestamp"], item["content"]), (1, leaving[place]))
        for place, item in enumerate(state["sliding_context"])
    ]
    lines.append(Line(STATUS, "status", _status_line(state["status"], state["current_stage"])))
    lines.append(Line(STATUS, "next_action", _next_line(state["next_action"])))
    if state["last_action_summary"]:
        lines.append(Line(STATUS, "last_action_summary", _last_line(state["last_action_summary"]), (3, 0)))
    lines += _items(STATUS, _blocker_line, state["blockers"], 4)
    shown, older = _shown(state["artifact_refs"])
    if older:
        lines.append(Line(STATUS, "artifacts", _older_line(older), (2, -1)))
    return lines + [
        Line(STATUS, ref["id"], _artifact_line(ref["id"], ref["type"], ref.get("path", "")), (2, turn))
        for turn, ref in enumerate(shown)
    ]


def fixed_parts(state: WorkingSetJson) -> list[tuple[Any, ...]]:
    """Return how each line that cannot slide out is made, and of what. Asked at each update, most of whose lines are
    known: what they cost can be looked up without making them."""
    parts: list[tuple[Any, ...]] = [
        (_objective_line, state["objective"]),
        (_status_line, state["status"], state["current_stage"]),
        (_next_line, state["next_action"]),
    ]
    if state["last_action_summary"]:
        parts.append((_last_line, state["last_action_summary"]))
    parts += [(_item_line, item) for item in state["acceptance_criteria"]]
    parts += [(_item_line, item) for item in state["constraints"]]
    parts += [(_blocker_line, item) for item in state["blockers"]]
    parts += [(_pinned_line, item["content"], item.get("source_ref", "")) for item in state["pinned_context"]]
    shown, older = _shown(state["artifact_refs"])
    if older:
        parts.append((_older_line, older))
    return parts + [(_artifact_line, ref["id"], ref["type"], ref.get("path", "")) for ref in shown]


def render(lines: Sequence[Line]) -> str:
    """Put the lines under their headings."""
    parts = [TITLE]
    for section in range(OWN + 1):
        own = [line.text for line in lines if line.section == section]
        if own or section != OWN:
            parts += [heading(section), *(own or [NONE])]
    return "".join(parts)


def heading(section: int) -> str:
    return f"\n## {section + 1}. {_name(section)}\n"


def _name(section: int) -> str:
    return "State" if section == OWN else HEADINGS[section]


def frame_tokens(count: Callable[[str], int]) -> int:
    """Return what the headings cost, each counted with the filler it may need."""
    return count(TITLE) + sum(count(heading(section)) + count(NONE) for section in range(OWN))


def sliding_line(timestamp: str, content: str) -> str:
    return quoted(f"- [{timestamp}] ", content) + "\n"


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


def _items(section: int, form: Callable[[str], str], items: Sequence[str], turn: int) -> list[Line]:
    return [Line(section, str(place), form(item), (turn, len(items) - place)) for place, item in enumerate(items)]


def _objective_line(objective: str) -> str:
    return quoted("", objective) + "\n"


def _item_line(item: str) -> str:
    return quoted("- ", item) + "\n"


def _pinned_line(content: str, source_ref: str) -> str:
    source = f" (source: {flat(source_ref)})" if source_ref else ""
    return quoted("- ", content) + f"{source}\n"


def _status_line(status: str, stage: str) -> str:
    return f"{status}, stage {flat(stage)}\n"


def _next_line(action: str) -> str:
    return f"next action: {flat(action) or '(unset)'}\n"


def _last_line(summary: str) -> str:
    return f"last action: {flat(summary)}\n"


def _blocker_line(blocker: str) -> str:
    return quoted("- blocked by: ", blocker) + "\n"


def _artifact_line(id: str, type: str, path: str) -> str:
    where = f" {flat(path)}" if path else ""
    return f"- artifact {flat(id)}: {flat(type)}{where}\n"


def _older_line(older: int) -> str:
    return f"- {older} older artifacts\n"


def _shown(refs: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], int]:
    """Return the artifacts that are named, and how many are not."""
    return refs[-SHOWN_ARTIFACTS:], max(0, len(refs) - SHOWN_ARTIFACTS)


def _memory_lines(memories: Sequence[Memory]) -> list[Line]:
    return [
        Line(MEMORY, str(memory["memory_id"]), _item_line(str(memory["content"])), (0, len(memories) - place))
        for place, memory in enumerate(memories)
    ]


# The ends of lines that JSON leaves as they are.
_ESCAPED = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


def own_line(state: Any) -> str:
    """Return a run's own state as JSON on one line."""
    return encode(state).decode().translate(_ESCAPED)
