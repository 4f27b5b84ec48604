"""What a chat message is to a model: its tokens, and the tool calls it makes or answers.

Three dialects of tool use are understood, because histories mix them: chat completions (`tool_calls` and
`tool_call_id`), content blocks (`tool_use` and `tool_result`) and response items (`function_call` and its output).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strongroom.codec import encode
from strongroom.tokens.counting import Tokenizer

MESSAGE_TOKENS = 3  # what chat formats put around each message
IMAGE_TOKENS = 765  # a 1024 x 1024 picture at high detail; its base64 text says nothing about its cost
SMALL_IMAGE_TOKENS = 85

# Book-keeping that is not sent to a model.
UNSENT = frozenset({"id", "timestamp", "created_at", "metadata", "pinned", "priority"})
_IMAGES = frozenset({"image_url", "input_image", "image"})


def count_message(message: Mapping[str, Any], tokenizer: Tokenizer) -> int:
    """Return what a message costs in a prompt: its role, content and tool calls, and what the format adds."""
    total = MESSAGE_TOKENS
    for key, value in message.items():
        if key in UNSENT or value is None:
            continue
        if key == "content" and type(value) in (list, tuple):
            total += sum(_count_part(part, tokenizer) for part in value)
        else:
            total += tokenizer.count(_text(value))
    return total


def count_tools(tools: Sequence[Any], tokenizer: Tokenizer) -> int:
    """Return what tool schemas cost, counted as the JSON they are sent as."""
    return sum(tokenizer.count(_text(tool)) for tool in tools)


def calls(message: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of the tool calls a message makes."""
    return frozenset(_calls(message))


def answers(message: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of the tool calls a message answers."""
    return frozenset(_answers(message))


def _calls(message: Mapping[str, Any]) -> Iterator[str]:
    made = message.get("tool_calls")
    for call in made if isinstance(made, (list, tuple)) else ():
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            yield call["id"]
    for part in _parts(message):
        if part.get("type") == "tool_use" and isinstance(part.get("id"), str):
            yield part["id"]
    if str(message.get("type", "")).endswith("_call") and isinstance(message.get("call_id"), str):
        yield message["call_id"]


def _answers(message: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(message.get("tool_call_id"), str):
        yield message["tool_call_id"]
    for part in _parts(message):
        if part.get("type") == "tool_result" and isinstance(part.get("tool_use_id"), str):
            yield part["tool_use_id"]
    if str(message.get("type", "")).endswith("_call_output") and isinstance(message.get("call_id"), str):
        yield message["call_id"]


def _parts(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        yield from (part for part in content if isinstance(part, Mapping))


def _count_part(part: Any, tokenizer: Tokenizer) -> int:
    if not isinstance(part, Mapping):
        return tokenizer.count(_text(part))
    if part.get("type") in _IMAGES:
        image = part.get("image_url")
        detail = image.get("detail") if isinstance(image, Mapping) else part.get("detail")
        return SMALL_IMAGE_TOKENS if detail == "low" else IMAGE_TOKENS
    text = part.get("text")
    return tokenizer.count(text) if isinstance(text, str) else tokenizer.count(_text(part))


def _text(value: Any) -> str:
    return value if type(value) is str else encode(value).decode()
