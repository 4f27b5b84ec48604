"""A LangChain message as a session keeps it, and back: exactly. Pure.

A session wants a role, a text and the tool calls, to count, search and send them. The framework wants its own object
back, so beside the message lies a sidecar: its class and those fields that are not what they are by default, as JSON
where that is exact, and otherwise the whole message as LangGraph's serializer makes it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from strongroom.adapters.exact import is_exact
from strongroom.codec import encode

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}
CLASSES: dict[str, type[BaseMessage]] = {
    cls.__name__: cls for cls in (HumanMessage, AIMessage, SystemMessage, ToolMessage, FunctionMessage)
}
DEFAULTS: dict[type[BaseMessage], dict[str, Any]] = {
    cls: {name: field.get_default(call_default_factory=True) for name, field in cls.model_fields.items()}
    for cls in CLASSES.values()
}

# An object of each class as pickling tells it, and which of its fields begin as a list or an object of their own.
BLANKS: dict[type[BaseMessage], tuple[dict[Any, Any], list[tuple[str, type]]]] = {
    cls: (
        cls.model_construct(content="").__getstate__(),
        [(name, type(value)) for name, value in defaults.items() if value in ([], {})],
    )
    for cls, defaults in DEFAULTS.items()
}

Pair = tuple[dict[str, Any], Any]
Blob = list[str]

MESSAGES = "messages"  # the kind of what a task wrote, where others have a type of the serializer's
FEW, BRIEF = 16, 65536  # messages, and bytes of all of them, that are kept so


def serializer() -> SerializerProtocol:
    """Return LangGraph's own serializer, which makes no objects of types that nobody allowed."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)


def dumped(serde: SerializerProtocol, value: Any) -> Blob:
    """Return what a serializer makes of a value, as JSON can hold it."""
    kind, data = serde.dumps_typed(value)
    return [kind, b64encode(data).decode()]


def loaded(serde: SerializerProtocol, blob: Blob) -> Any:
    return serde.loads_typed((blob[0], b64decode(blob[1])))


def written(serde: SerializerProtocol, value: Any) -> list[Any]:
    """Return what a task wrote. A few messages are kept as such, in a third of what a serializer makes of them."""
    if type(serde) is JsonPlusSerializer and is_list(value) and len(value) <= FEW:
        pairs = [packed(message, serde) for message in value]
        if all("fields" in sidecar for _, sidecar in pairs) and len(encode(pairs)) <= BRIEF:
            return [MESSAGES, pairs]
    return dumped(serde, value)


def loaded_written(serde: SerializerProtocol, blob: Sequence[Any]) -> Any:
    kind, held = blob
    if isinstance(held, list):
        return [unpacked(said, sidecar, serde) for said, sidecar in held]
    return loaded(serde, [kind, held])


def is_list(value: Any) -> bool:
    """Tell whether a value is a list of messages."""
    return type(value) is list and bool(value) and all(issubclass(kind, BaseMessage) for kind in set(map(type, value)))


def packed(message: BaseMessage, serde: SerializerProtocol) -> Pair:
    """Return a message for a session, and its sidecar."""
    said: dict[str, Any] = {"role": ROLES.get(message.type, "other")}
    calls = getattr(message, "tool_calls", None)
    if calls:
        said["tool_calls"] = [_call(call) for call in calls]
    if isinstance(message, ToolMessage):
        said["tool_call_id"] = message.tool_call_id
    if is_exact(message.content):
        said["content"] = message.content
    rest = _rest(message) if "content" in said else None
    if rest is not None:
        return said, {"class": type(message).__name__, "fields": rest}
    if not is_exact(said):  # ids of tool calls are whatever a model made up
        said = {"role": said["role"]}
    return said, {"serde": dumped(serde, message)}


def unpacked(said: dict[str, Any], sidecar: Any, serde: SerializerProtocol) -> BaseMessage:
    """Return the very message, as an object of its own."""
    if "serde" in sidecar:
        message: BaseMessage = loaded(serde, sidecar["serde"])
        return message
    cls = CLASSES[sidecar["class"]]
    blank, begun = BLANKS[cls]
    made = cls.__new__(cls)
    fields = {
        **DEFAULTS[cls],
        **{name: kind() for name, kind in begun},
        **sidecar["fields"],
        "content": said["content"],
    }
    # As unpickling makes an object: a list may hold ten thousand, and `model_construct` takes three times as long.
    made.__setstate__({**blank, "__dict__": fields, "__pydantic_fields_set__": set(fields)})
    return made


def _rest(message: BaseMessage) -> dict[str, Any] | None:
    """Return the fields that are not what they are by default; None if JSON would not bring back exactly these."""
    defaults = DEFAULTS.get(type(message))
    if defaults is None or message.model_extra:
        return None
    fields = dict(message)  # a model is the pairs of its fields
    if fields.keys() != defaults.keys():
        return None
    rest = {
        name: value
        for name, value in fields.items()
        if name != "content" and (value != defaults[name] or type(value) is not type(defaults[name]))
    }
    return rest if is_exact(rest) else None


def _call(call: Any) -> dict[str, Any]:
    arguments = encode(call["args"]).decode() if is_exact(call["args"]) else ""
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}
