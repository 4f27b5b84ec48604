"""A LangChain message as a session keeps it, and back: exactly. Pure.

A session wants a role, a text and the tool calls, to count, search and send them. The framework wants its own object
back, so beside the message lies a sidecar: its class and those fields that are not what they are by default, as JSON
where that is exact, and otherwise the whole message as LangGraph's serializer makes it.
"""

from __future__ import annotations

import copy
from base64 import b64decode, b64encode
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

Pair = tuple[dict[str, Any], Any]
Blob = list[str]


def serializer() -> SerializerProtocol:
    """Return LangGraph's own serializer, which makes no objects of types that nobody allowed."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)


def dumped(serde: SerializerProtocol, value: Any) -> Blob:
    """Return what a serializer makes of a value, as JSON can hold it."""
    kind, data = serde.dumps_typed(value)
    return [kind, b64encode(data).decode()]


def loaded(serde: SerializerProtocol, blob: Blob) -> Any:
    return serde.loads_typed((blob[0], b64decode(blob[1])))


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
    fields = {name: copy.copy(value) for name, value in DEFAULTS[cls].items()}
    return cls.model_construct(**{**fields, **sidecar["fields"], "content": said["content"]})


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
