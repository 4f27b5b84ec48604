"""What providers refuse: their documented rules for a request, as functions that return what is wrong with one.

* OpenAI chat completions: each message of the assistant that calls tools is followed at once by one tool message for
  each of its calls, and by no other tool message; ids have at most 40 characters, names of functions are 1 to 64 of
  letters, digits, `_` and `-`; arguments are JSON in a string; content is there unless tools are called.
* OpenAI responses: each function call has one output, right behind the calls it was made with, and each output a call;
  items of a message are `input_text`, `input_image` (what goes in) or `output_text` (what the assistant said).
* Anthropic messages: the user begins and ends (what the assistant says at the end would be the beginning of its answer,
  which newer models refuse), sides alternate; a turn of the user's that follows calls begins with one result
  for each of them, and there are no other results; ids occur once, of letters, digits, `_` and `-`; texts are not
  empty; no message of the system's in between.
* Gemini: contents alternate between `user` and `model`, and the user begins and ends; a turn with function calls is
  followed by one with as many function responses, in order; arguments and responses are objects; names begin with a
  letter or `_`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")

Messages = list[dict[str, Any]]


def openai(messages: Messages, system: Any) -> Iterator[str]:
    if system is not None:
        yield "the system prompt is a message here"
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"{place}: an answer to no call before it"
            else:
                open_calls.remove(message["tool_call_id"])
            if not isinstance(message["content"], str):
                yield f"{place}: an answer without text"
            continue
        if open_calls:
            yield f"{place}: calls {open_calls} were not answered"
        open_calls = []
        if role not in ("system", "user", "assistant"):
            yield f"{place}: a role {role}"
        calls = message.get("tool_calls", [])
        if "tool_calls" in message and (role != "assistant" or not calls):
            yield f"{place}: no calls"
        for call in calls:
            open_calls.append(call["id"])
            yield from _call(place, call["id"], call["function"]["name"])
            json.loads(call["function"]["arguments"])
        if len(set(open_calls)) < len(open_calls):
            yield f"{place}: an id twice"
        yield from _openai_content(place, message, bool(calls))
    if open_calls:
        yield f"the last calls {open_calls} were not answered"


def _openai_content(place: int, message: dict[str, Any], calls: bool) -> Iterator[str]:
    content = message["content"]
    if content is None:
        if not calls:
            yield f"{place}: no content"
    elif isinstance(content, list):
        if message["role"] != "user":
            yield f"{place}: parts of another one than the user"
        if not content or any(part["type"] not in ("text", "image_url") for part in content):
            yield f"{place}: parts of no known type"
        if all(part["type"] == "text" for part in content):
            yield f"{place}: parts without a picture, where we promise a text"
    elif not isinstance(content, str) or not content:
        yield f"{place}: empty content"


def responses(items: Messages, system: Any) -> Iterator[str]:
    if system is not None:
        yield "the system prompt is an item here"
    waiting: list[str] = []
    answering = False
    for place, item in enumerate(items):
        kind = item["type"]
        if kind == "function_call":
            if answering and waiting:
                yield f"{place}: calls {waiting} were not answered"
            answering = False
            waiting.append(item["call_id"])
            yield from _call(place, item["call_id"], item["name"])
            json.loads(item["arguments"])
        elif kind == "function_call_output":
            answering = True
            if item["call_id"] not in waiting:
                yield f"{place}: an output of no call"
            else:
                waiting.remove(item["call_id"])
            if not isinstance(item["output"], str):
                yield f"{place}: an output without text"
        else:
            if waiting:
                yield f"{place}: something stands between a call and its output"
            kinds = {"assistant": {"output_text"}, "user": {"input_text", "input_image"}, "developer": {"input_text"}}
            if not item["content"] or any(part["type"] not in kinds[item["role"]] for part in item["content"]):
                yield f"{place}: content of another kind"
    if waiting:
        yield f"the last calls {waiting} were not answered"


def anthropic(messages: Messages, system: Any) -> Iterator[str]:
    if not isinstance(system, list) or any(not block["text"].strip() for block in system):
        yield "a system prompt is a list of texts"
    yield from _alternates([message["role"] for message in messages], "assistant")
    calls: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        blocks = message["content"]
        if not blocks:
            yield f"{place}: no content"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(calls):
            yield f"{place}: results {results} for calls {calls}"
        if any(block["type"] == "tool_result" for block in blocks[len(results) :]):
            yield f"{place}: results do not come first"
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if calls and message["role"] != "assistant":
            yield f"{place}: the user calls a tool"
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                yield f"{place}: an empty text"
            if block["type"] == "tool_use":
                yield from _call(place, block["id"], block["name"])
                if block["id"] in seen or not isinstance(block["input"], dict):
                    yield f"{place}: an id twice, or an input that is no object"
                seen.add(block["id"])
    if calls:
        yield f"the last calls {calls} have no results"


def gemini(contents: Messages, system: Any) -> Iterator[str]:
    if system is not None and not all(part["text"] for part in system["parts"]):
        yield "a system instruction has texts"
    yield from _alternates([content["role"] for content in contents], "model")
    calls: list[str] = []
    for place, content in enumerate(contents):
        parts = content["parts"]
        if not parts:
            yield f"{place}: no parts"
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if [one["name"] for one in answers] != calls:
            yield f"{place}: responses {answers} for calls {calls}"
        if not all(isinstance(one["response"], dict) for one in answers):
            yield f"{place}: a response that is no object"
        made = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = [one["name"] for one in made]
        if calls and content["role"] != "model":
            yield f"{place}: the user calls a function"
        for one in made:
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}", one["name"]) or not isinstance(one["args"], dict):
                yield f"{place}: a call that is none: {one}"
    if calls:
        yield f"the last calls {calls} have no responses"


def _alternates(roles: list[str], other: str) -> Iterator[str]:
    if roles and roles[0] != "user":
        yield f"{roles[0]} begins"
    if roles and roles[-1] != "user":
        yield f"{roles[-1]} ends"
    for place, (one, next) in enumerate(pairwise(roles)):
        if one == next or next not in ("user", other):
            yield f"{place}: {next} after {one}"


def _call(place: int, id: str, name: str) -> Iterator[str]:
    if not ID.fullmatch(id) or not NAME.fullmatch(name):
        yield f"{place}: an id or a name that is refused: {id!r}, {name!r}"


RULES: dict[str, Callable[[Messages, Any], Iterator[str]]] = {
    "openai": openai,
    "responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}


def broken(format: str, messages: Messages, system: Any) -> list[str]:
    """Return what a provider would say against a request."""
    return list(RULES[format](messages, system))
