"""A conversation as turns: what any dialect of messages says, and what every provider accepts (pure).

Histories mix dialects: chat completions, content blocks, response items. Here all of them become turns of blocks, and
in turns it is easy to keep the rules that providers share:

1. A turn that calls tools is followed at once by one answer to each of its calls, in the order of the calls. An answer
   that came later is moved there. A call without one is answered `INTERRUPTED`. An answer without a call is left out.
2. The id of a call occurs once, and has only letters that every provider takes; the same for names of tools.
3. Nothing is empty.
4. Nobody's words are put into the user's mouth in silence: what a role says that is neither the system, the user nor
   the assistant is text of the user's that begins with that role, as in `[narrator] Night falls.`

Reasoning is left out: providers take back only their own, and signed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from strongroom.codec import encode
from strongroom.tokens.roles import speaker

INTERRUPTED = "no result: interrupted"
LONGEST_CALL_ID = 40
LONGEST_TOOL_NAME = 64
LONGEST_ROLE = 40  # of a role that stands before its words

Role = Literal["system", "user", "assistant"]
_TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
_IMAGES = frozenset({"image_url", "input_image", "image"})
_REASONING = frozenset({"thinking", "redacted_thinking", "reasoning"})


class Text(Struct, frozen=True):
    """Something said."""

    text: str


class Image(Struct, frozen=True):
    """A picture by its address, which may be a `data:` one."""

    url: str


class ToolCall(Struct, frozen=True):
    """A call of a tool, with its arguments as an object."""

    id: str
    name: str
    arguments: dict[str, Any]


class Answer(Struct, frozen=True):
    """What a call came to. `failed` if it came to nothing."""

    id: str
    name: str
    text: str
    failed: bool = False


Block = Text | Image | ToolCall | Answer


class Turn(Struct, frozen=True):
    """What one side says at once."""

    role: Role
    blocks: tuple[Block, ...]


class Repaired(Struct, frozen=True):
    """Turns that every provider accepts, how many calls were answered for want of an answer, and the places of messages
    of which nothing is in them, with the reason: `empty`, `reasoning`, or `no_call` for answers to no call."""

    turns: tuple[Turn, ...]
    completed: int
    unsaid: dict[int, str]


def repaired(messages: Iterable[Mapping[str, Any]]) -> Repaired:
    """Turn messages of any dialect into turns that keep the rules above."""
    given = list(messages)
    spoken = [Turn(*_spoken(message)) for message in given]
    answers, orphaned = _paired(spoken)
    unsaid = {
        place: "no_call" if turn.blocks else "reasoning" if _reasons(given[place]) else "empty"
        for place, turn in enumerate(spoken)
        if len(turn.blocks) == orphaned[place]
    }
    turns: list[Turn] = []
    used: set[str] = set()
    completed = 0
    for place, turn in enumerate(spoken):
        blocks: list[Block] = []
        replies: list[Block] = []
        for nth, block in enumerate(turn.blocks):
            if isinstance(block, Answer):
                continue
            if isinstance(block, ToolCall):
                id, name = _unique(_call_id(block.id), used), tool_name(block.name)
                found = answers.get((place, nth))
                completed += found is None
                blocks.append(ToolCall(id, name, block.arguments))
                replies.append(Answer(id, name, INTERRUPTED, True) if found is None else _renamed(found, id, name))
            else:
                blocks.append(block)
        if blocks:
            turns.append(Turn("assistant" if replies else turn.role, tuple(blocks)))
        if replies:
            turns.append(Turn("user", tuple(replies)))
    return Repaired(tuple(turns), completed, unsaid)


def merged(turns: Iterable[Turn]) -> list[Turn]:
    """Join turns of one side that follow each other, for providers that want the sides to alternate."""
    joined: list[Turn] = []
    for turn in turns:
        if joined and joined[-1].role == turn.role:
            joined[-1] = Turn(turn.role, (*joined[-1].blocks, *turn.blocks))
        else:
            joined.append(turn)
    return joined


def tool_name(name: str) -> str:
    """Return a tool's name in letters that every provider takes."""
    safe = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:LONGEST_TOOL_NAME]
    return safe if safe[:1].isalpha() or safe[:1] == "_" else f"_{safe}"[:LONGEST_TOOL_NAME]


def _paired(turns: Sequence[Turn]) -> tuple[dict[tuple[int, int], Answer], Counter[int]]:
    """Return the answer to each call, by the call's place, and how many answers besides there are in which turn.

    An id may be used again: an answer belongs to the newest call of its id before it that has none yet.
    """
    waiting: dict[str, list[tuple[int, int]]] = {}
    found: dict[tuple[int, int], Answer] = {}
    orphaned: Counter[int] = Counter()
    for place, turn in enumerate(turns):
        for nth, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall):
                waiting.setdefault(block.id, []).append((place, nth))
            elif isinstance(block, Answer):
                calls = waiting.get(block.id)
                if calls:
                    found[calls.pop()] = block
                else:
                    orphaned[place] += 1
    return found, orphaned


def _renamed(answer: Answer, id: str, name: str) -> Answer:
    return Answer(id, name, answer.text if answer.text.strip() else "(empty)", answer.failed)


def _call_id(id: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)[:LONGEST_CALL_ID] or "call"


def _unique(id: str, used: set[str]) -> str:
    made, count = id, 1
    while made in used:
        count += 1
        made = f"{id[: LONGEST_CALL_ID - len(str(count)) - 1]}-{count}"
    used.add(made)
    return made


# ---- what the dialects say ------------------------------------------------------------------------------------------


def _spoken(message: Mapping[str, Any]) -> tuple[Role, tuple[Block, ...]]:
    """Return who speaks in a message, and what."""
    kind = str(message.get("type", ""))
    call_id = message.get("call_id")
    if isinstance(call_id, str) and kind.endswith("_call_output"):
        return "user", (Answer(call_id, "", _flat(message.get("output"))),)
    if isinstance(call_id, str) and kind.endswith("_call"):
        given = message.get("arguments", message.get("input", message.get("action")))
        return "assistant", (ToolCall(call_id, str(message.get("name") or kind), _arguments(given)),)
    if kind in _REASONING:
        return "assistant", ()
    if isinstance(message.get("tool_call_id"), str):
        return "user", (Answer(message["tool_call_id"], "", _flat(message.get("content"))),)
    said = [*_content(message.get("content", message.get("parts"))), *_content(message.get("refusal"))]
    if isinstance(message.get("function_call"), Mapping):  # the oldest dialect: a call without an id cannot be answered
        said.append(Text(f"[function_call] {_json(message['function_call'])}"))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, (list, tuple)) else ():
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            inner = call.get("function", call)
            inner = inner if isinstance(inner, Mapping) else {}
            given = inner.get("arguments", inner.get("args", inner.get("input")))
            said.append(ToolCall(call["id"], str(inner.get("name") or "tool"), _arguments(given)))
    who = speaker(message)
    if who == "assistant" or any(isinstance(block, ToolCall) for block in said):
        return "assistant", tuple(said)
    if who == "system":
        return "system", tuple(said)
    return "user", tuple(said if who in ("user", "") else _marked(said, who))


def _marked(said: Sequence[Block], who: str) -> list[Block]:
    """Begin what somebody else than the user says with who it is."""
    place = next((nth for nth, block in enumerate(said) if not isinstance(block, Answer)), None)
    if place is None:
        return [*said]
    first, label = said[place], f"[{' '.join(who.split())[:LONGEST_ROLE]}]"
    marked: list[Block] = [Text(f"{label} {first.text}")] if isinstance(first, Text) else [Text(label), first]
    return [*said[:place], *marked, *said[place + 1 :]]


def _reasons(message: Mapping[str, Any]) -> bool:
    """Tell whether a message holds reasoning."""
    content = message.get("content")
    parts = content if isinstance(content, (list, tuple)) else ()
    kinds = [message.get("type"), *(part.get("type") for part in parts if isinstance(part, Mapping))]
    return any(isinstance(kind, str) and kind in _REASONING for kind in kinds)


def _content(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [Text(content)] if content.strip() else []
    parts = content if isinstance(content, (list, tuple)) else () if content is None else (content,)
    return [block for part in parts for block in _part(part)]


def _part(part: Any) -> list[Block]:
    if not isinstance(part, Mapping):
        return _content(part if isinstance(part, str) else _json(part))
    kind = part.get("type")
    kind = kind if isinstance(kind, str) else None  # a set can be asked for nothing else
    if kind == "tool_use" and isinstance(part.get("id"), str):
        return [ToolCall(part["id"], str(part.get("name") or "tool"), _arguments(part.get("input")))]
    if kind == "tool_result" and isinstance(part.get("tool_use_id"), str):
        return [Answer(part["tool_use_id"], "", _flat(part.get("content")), part.get("is_error") is True)]
    if kind in _REASONING:
        return []
    if kind in _IMAGES and (url := _url(part)):
        return [Image(url)]
    text = part.get("text", part.get("refusal")) if kind is None or kind in _TEXTS else None
    if isinstance(text, str):
        return [Text(text)] if text.strip() else []
    return [Text(f"[{kind}]" if kind else _json(part))]


def _url(part: Mapping[str, Any]) -> str | None:
    """Return the address of a picture."""
    image = part.get("image_url", part.get("source"))
    if isinstance(image, Mapping):
        data, media = image.get("data"), image.get("media_type")
        image = f"data:{media};base64,{data}" if isinstance(data, str) else image.get("url")
    return image if isinstance(image, str) and image else None


def _flat(content: Any) -> str:
    """Return the text of an answer."""
    if isinstance(content, str):
        return content
    if isinstance(content, (list, tuple)):
        return "\n".join(block.text for part in content for block in _part(part) if isinstance(block, Text))
    return "" if content is None else _json(content)


def _arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a call as an object, whatever a model made of them."""
    value = given
    if isinstance(given, str):
        try:
            value = json.loads(given) if given.strip() else {}
        except ValueError:
            value = given
    if value is None:
        return {}
    return value if isinstance(value, dict) else {"arguments": value}


def _json(value: Any) -> str:
    return encode(value).decode()
