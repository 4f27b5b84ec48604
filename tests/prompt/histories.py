"""Histories as they are found in stores: dialects mixed, calls interrupted, messages cut out and appended anywhere."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Message = dict[str, Any]

WORDS = st.sampled_from(
    ["hello", "the tide turns at noon", "Lisbon in May", "", " ", "ok \n", "第二天", "a" * 300, "\n# 1. Heading"]
)
IDS = st.sampled_from(["call_1", "call_2", "call 3!", "x" * 60, "fc_9"])
NAMES = st.sampled_from(["find", "find flights", "7up", "n" * 80, "get-weather"])
ARGUMENTS = st.sampled_from(['{"q": 1}', "{}", "", "not json", "[1, 2]", '"text"'])
ROLES = st.sampled_from(["user", "assistant", "system", "developer"])


def said(role: str, text: Any) -> Message:
    return {"role": role, "content": text}


@st.composite
def plain(draw: st.DrawFn) -> list[Message]:
    role, text = draw(ROLES), draw(WORDS)
    shape = draw(st.integers(0, 5))
    if shape == 0:
        parts = [
            {"type": "text", "text": text},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ]
        return [said(role, parts)]
    if shape == 1:
        return [said(role, [{"type": "input_text", "text": text}])]
    if shape == 2:
        return [{"type": "reasoning", "summary": [], "encrypted_content": "opaque"}]
    return [said(role, text)]


@st.composite
def tool_use(draw: st.DrawFn) -> list[Message]:
    """One or two calls and their answers, in one of three dialects."""
    ids = draw(st.lists(IDS, min_size=1, max_size=2, unique=True))
    names = [draw(NAMES) for _ in ids]
    text, answer = draw(WORDS), draw(WORDS)
    dialect = draw(st.sampled_from(["chat", "blocks", "items"]))
    if dialect == "chat":
        calls = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": draw(ARGUMENTS)}}
            for id, name in zip(ids, names, strict=True)
        ]
        asked = [{"role": "assistant", "content": text or None, "tool_calls": calls}]
        answers = [{"role": "tool", "tool_call_id": id, "content": answer} for id in ids]
    elif dialect == "blocks":
        used = [{"type": "tool_use", "id": id, "name": n, "input": {"q": 1}} for id, n in zip(ids, names, strict=True)]
        asked = [said("assistant", [{"type": "text", "text": text}, *used])]
        results = [{"type": "tool_result", "tool_use_id": id, "content": answer} for id in ids]
        answers = [said("user", [*results, {"type": "text", "text": draw(WORDS)}])]
    else:
        asked = [
            {"type": "function_call", "call_id": id, "name": name, "arguments": draw(ARGUMENTS)}
            for id, name in zip(ids, names, strict=True)
        ]
        answers = [{"type": "function_call_output", "call_id": id, "output": answer} for id in ids]
    between = draw(st.lists(plain(), max_size=1))
    return [*asked, *(one for group in between for one in group), *answers]


@st.composite
def histories(draw: st.DrawFn, most: int = 12) -> list[Message]:
    """A conversation, of which a crash may have cut the end off and edits may have taken anything out."""
    groups = draw(st.lists(st.one_of(plain(), tool_use()), max_size=most))
    messages = [one for group in groups for one in group]
    cut = draw(st.integers(0, 2 * len(messages)))  # half of the time beyond the end: nothing was cut off
    messages = messages[:cut]
    for _ in range(draw(st.integers(0, 2))):
        if messages:
            del messages[draw(st.integers(0, len(messages) - 1))]
    return messages
