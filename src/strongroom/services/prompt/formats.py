"""Turns in the shape of a provider (pure).

| format | rules beyond those of `turns` |
|---|---|
| `openai` | a system message may stand anywhere; answers are messages of their own; sides need not alternate |
| `responses` | calls and answers are items of their own |
| `anthropic` | no system messages; sides alternate, the user begins and ends; answers stand first in their turn |
| `gemini` | the same; a call and its answer are matched by order |

Where the user must begin and does not, a turn of the user's says that the beginning was left out. Where the user must
end and does not, one says that nothing came since: an assistant's words at the end would be taken for the beginning of
the answer, which newer models refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from strongroom.codec import encode
from strongroom.services.prompt.turns import Answer, Block, Image, Text, ToolCall, Turn, merged

Format = Literal["openai", "responses", "anthropic", "gemini"]
FORMATS: tuple[Format, ...] = ("openai", "responses", "anthropic", "gemini")
ALTERNATING: frozenset[Format] = frozenset({"anthropic", "gemini"})
BEGINNING = "[the conversation before this was left out]"
JOINT = "\n\n"  # between texts that become one
ENDING = "[nothing was said since: go on]"

Shaped = tuple[list[dict[str, Any]], Any]


def shaped(turns: Sequence[Turn], system: Sequence[str], format: Format) -> Shaped:
    """Return the messages of a provider, and its system prompt where that stands apart (None where it does not)."""
    return _SHAPES[format](turns, system)


def begun(turns: Sequence[Turn], format: Format) -> list[Turn]:
    """Let the user begin, where a provider wants that."""
    first = next((turn for turn in turns if turn.role != "system"), None)
    late = format in ALTERNATING and first is not None and first.role != "user"
    return [Turn("user", (Text(BEGINNING),)), *turns] if late else list(turns)


def ended(turns: Sequence[Turn], format: Format) -> list[Turn]:
    """Let the user end, where a provider wants that."""
    last = next((turn for turn in reversed(turns) if turn.role != "system"), None)
    early = format in ALTERNATING and last is not None and last.role != "user"
    return [*turns, Turn("user", (Text(ENDING),))] if early else list(turns)


def _openai(turns: Sequence[Turn], system: Sequence[str]) -> Shaped:
    messages: list[dict[str, Any]] = [{"role": "system", "content": text} for text in system]
    for turn in turns:
        answers = [block for block in turn.blocks if isinstance(block, Answer)]
        messages += [{"role": "tool", "tool_call_id": one.id, "content": one.text} for one in answers]
        calls = [block for block in turn.blocks if isinstance(block, ToolCall)]
        said = [block for block in turn.blocks if isinstance(block, (Text, Image))]
        if not said and not calls:
            continue
        message: dict[str, Any] = {"role": turn.role, "content": _openai_content(said, turn.role) if said else None}
        if calls:
            message["tool_calls"] = [
                {
                    "id": one.id,
                    "type": "function",
                    "function": {"name": one.name, "arguments": encode(one.arguments).decode()},
                }
                for one in calls
            ]
        messages.append(message)
    return messages, None


def _openai_content(said: Sequence[Text | Image], role: str) -> Any:
    """Return a text; parts only where there is a picture, which only a user shows."""
    if role != "user" or all(isinstance(block, Text) for block in said):
        return JOINT.join(_words(block) for block in said)
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, Text)
        else {"type": "image_url", "image_url": {"url": block.url}}
        for block in said
    ]


def _responses(turns: Sequence[Turn], system: Sequence[str]) -> Shaped:
    items: list[dict[str, Any]] = [_item("developer", [Text(text)]) for text in system]
    for turn in turns:
        said: list[Text | Image] = []
        calls: list[dict[str, Any]] = []
        for block in turn.blocks:
            if isinstance(block, ToolCall):
                arguments = encode(block.arguments).decode()
                call = {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": arguments}
                calls.append(call)
            elif isinstance(block, Answer):
                items.append({"type": "function_call_output", "call_id": block.id, "output": block.text})
            else:
                said.append(block)
        if said:
            items.append(_item("developer" if turn.role == "system" else turn.role, said))
        items += calls
    return items, None


def _item(role: str, said: Sequence[Text | Image]) -> dict[str, Any]:
    if role != "user":
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": _words(block)} for block in said]
    else:
        content = [
            {"type": "input_text", "text": block.text}
            if isinstance(block, Text)
            else {"type": "input_image", "image_url": block.url}
            for block in said
        ]
    return {"type": "message", "role": role, "content": content}


def _anthropic(turns: Sequence[Turn], system: Sequence[str]) -> Shaped:
    apart, spoken = _apart(turns)
    messages: list[dict[str, Any]] = []
    for turn in spoken:
        blocks = sorted(turn.blocks, key=lambda block: not isinstance(block, Answer))
        messages.append({"role": turn.role, "content": [_anthropic_block(block, turn.role) for block in blocks]})
    return messages, [{"type": "text", "text": text} for text in (*system, *apart)]


def _anthropic_block(block: Block, role: str) -> dict[str, Any]:
    if isinstance(block, ToolCall):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}
    if isinstance(block, Answer):
        made: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.id, "content": block.text}
        return made | {"is_error": True} if block.failed else made
    if isinstance(block, Text) or role != "user":
        return {"type": "text", "text": _words(block)}
    media, data = _data(block.url)
    source = {"type": "base64", "media_type": media, "data": data} if data else {"type": "url", "url": block.url}
    return {"type": "image", "source": source}


def _gemini(turns: Sequence[Turn], system: Sequence[str]) -> Shaped:
    apart, spoken = _apart(turns)
    contents: list[dict[str, Any]] = []
    for turn in spoken:
        blocks = sorted(turn.blocks, key=lambda block: not isinstance(block, Answer))
        role = "model" if turn.role == "assistant" else "user"
        contents.append({"role": role, "parts": [_gemini_part(block, role) for block in blocks]})
    parts = [{"text": text} for text in (*system, *apart)]
    return contents, {"parts": parts} if parts else None


def _gemini_part(block: Block, role: str) -> dict[str, Any]:
    if isinstance(block, ToolCall):
        return {"functionCall": {"name": block.name, "args": block.arguments}}
    if isinstance(block, Answer):
        return {
            "functionResponse": {"name": block.name, "response": {"error" if block.failed else "result": block.text}}
        }
    if isinstance(block, Text) or role != "user":
        return {"text": _words(block)}
    media, data = _data(block.url)
    if data:
        return {"inlineData": {"mimeType": media, "data": data}}
    return {"fileData": {"fileUri": block.url}}


def _apart(turns: Sequence[Turn]) -> tuple[list[str], list[Turn]]:
    """Take what the system says out of the conversation, and let the sides alternate."""
    apart = [_words(block) for turn in turns if turn.role == "system" for block in turn.blocks]
    return apart, merged(turn for turn in turns if turn.role != "system")


def _words(block: Block) -> str:
    if isinstance(block, Text):
        return block.text
    return "[image]" if isinstance(block, Image) else ""


def _data(url: str) -> tuple[str, str]:
    """Return the media type and the base64 of a `data:` address; nothing of another one."""
    head, _, data = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        return "", ""
    return head.removeprefix("data:").removesuffix(";base64"), data


_SHAPES: dict[Format, Callable[[Sequence[Turn], Sequence[str]], Shaped]] = {
    "openai": _openai,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
