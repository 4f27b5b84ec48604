"""A model behind a chat endpoint: one client for the two protocols that nearly every service speaks.

Whatever comes back is bounded before it is read: in bytes, and in time from the first byte sent to the last received.
Answers that are compressed are refused, because nobody knows their size before they are large. Refusals that may pass
(busy, overloaded, no connection) are tried again; all others are reported at once. Redirects are not followed: they
would carry the key to another host. The key stands in no repr and in no error, not even if the service repeats it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from strongroom.alarms import Alarm
from strongroom.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    import httpx

Protocol = Literal["openai", "anthropic"]

ANTHROPIC_VERSION = "2023-06-01"
MAX_ANSWER_BYTES = 4 * 1024 * 1024
LONGEST_PAUSE_SECONDS = 30.0
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(Struct):
    """What an OpenAI-compatible service answers, as far as it matters here."""

    choices: list[_Choice]


class _Block(Struct):
    type: str
    text: str = ""


class _Reply(Struct):
    """What Anthropic's API answers, as far as it matters here."""

    content: list[_Block]
    stop_reason: str | None = None


class ChatModel:
    """A model at an address. Calling it with messages returns the text of its answer. Made by `openai`, `anthropic`."""

    def __init__(
        self,
        model: str,
        *,
        protocol: Protocol,
        url: str,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        timeout_seconds: float = 120.0,
        attempts: int = 3,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise InvalidInput("a model service has an http:// or https:// address without a password in it")
        if not model or not model.isprintable():
            raise InvalidInput(f"a model has a name, not {model!r:.80}")
        if not timeout_seconds > 0 or attempts < 1:
            raise InvalidInput("timeout_seconds must be more than 0, and attempts 1 or more")
        self.name = model
        self.protocol: Protocol = protocol
        self.url = url.rstrip("/")
        self._key = api_key or ""
        self._options = dict(options or {})
        self._timeout_seconds = timeout_seconds
        self._attempts = attempts
        self._pause = pause
        self._httpx = _httpx()

    def __repr__(self) -> str:
        return f"<{self.protocol} model {self.name!r} at {self.url}>"

    def __call__(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the text that the model answers to these messages, or raise `Unavailable`."""
        address, headers, body = self._request(messages)
        raw = self._sent(address, headers, msgspec.json.encode(body))
        return (_openai_text if self.protocol == "openai" else _anthropic_text)(raw)

    def _request(self, messages: Sequence[Mapping[str, str]]) -> tuple[str, dict[str, str], dict[str, Any]]:
        said = [{"role": one["role"], "content": one["content"]} for one in messages]
        headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
        if self.protocol == "openai":
            if self._key:
                headers["authorization"] = f"Bearer {self._key}"
            body: dict[str, Any] = {"model": self.name, "messages": said, "response_format": {"type": "json_object"}}
            return f"{self.url}/chat/completions", headers, _set(body, self._options)
        if self._key:
            headers["x-api-key"] = self._key
        headers["anthropic-version"] = ANTHROPIC_VERSION
        body = {"model": self.name, "max_tokens": 4096, "messages": [one for one in said if one["role"] != "system"]}
        if system := "\n\n".join(one["content"] for one in said if one["role"] == "system"):
            body["system"] = system
        return f"{self.url}/messages", headers, _set(body, self._options)

    def _sent(self, address: str, headers: dict[str, str], body: bytes) -> bytes:
        for attempt in range(1, self._attempts + 1):
            wait = None
            try:
                with (
                    Alarm(self._timeout_seconds) as alarm,
                    self._httpx.Client(timeout=self._timeout_seconds, follow_redirects=False) as client,
                    client.stream("POST", address, headers=headers, content=body, extensions=_watched(alarm)) as answer,
                ):
                    raw = _bounded(answer, alarm)
                    status, wait = answer.status_code, _retry_after(answer.headers.get("retry-after"))
            except self._httpx.HTTPError as failure:
                problem = "timed out" if alarm.rang else f"{type(failure).__name__}: {failure}"
            else:
                if status == 200:
                    return raw
                problem = f"HTTP {status}: {raw[:500].decode(errors='replace')}"
                if status not in PASSING:
                    raise self._failed(f"{address} refused: {problem}")
            if attempt < self._attempts:
                self._pause(min(LONGEST_PAUSE_SECONDS, wait if wait is not None else 0.5 * 2 ** (attempt - 1)))
        raise self._failed(f"{address} did not answer in {self._attempts} attempts: {problem}")

    def _failed(self, message: str) -> Unavailable:
        return Unavailable(message.replace(self._key, "***") if self._key else message, reason="model")


def openai(
    model: str,
    *,
    url: str = "https://api.openai.com/v1",
    api_key: str | None = None,
    options: Mapping[str, Any] | None = None,
    timeout_seconds: float = 120.0,
    attempts: int = 3,
    pause: Callable[[float], object] = time.sleep,
) -> ChatModel:
    """Return a model that an OpenAI-compatible service answers for at `url`/chat/completions.

    Without an `api_key` that of OPENAI_API_KEY is used at OpenAI's own address, and none elsewhere. `options` are
    fields of the request; one that is None takes a field of ours away, such as `response_format`.
    """
    if api_key is None and url == "https://api.openai.com/v1":
        api_key = os.environ.get("OPENAI_API_KEY")
    return ChatModel(
        model, protocol="openai", url=url, api_key=api_key, options=options,
        timeout_seconds=timeout_seconds, attempts=attempts, pause=pause,
    )  # fmt: skip


def anthropic(
    model: str,
    *,
    url: str = "https://api.anthropic.com/v1",
    api_key: str | None = None,
    options: Mapping[str, Any] | None = None,
    timeout_seconds: float = 120.0,
    attempts: int = 3,
    pause: Callable[[float], object] = time.sleep,
) -> ChatModel:
    """Return a model that answers at `url`/messages, as Anthropic's do. The key is as with `openai`."""
    if api_key is None and url == "https://api.anthropic.com/v1":
        api_key = os.environ.get("ANTHROPIC_API_KEY")
    return ChatModel(
        model, protocol="anthropic", url=url, api_key=api_key, options=options,
        timeout_seconds=timeout_seconds, attempts=attempts, pause=pause,
    )  # fmt: skip


def _set(body: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**body, **options}.items() if value is not None}


def _watched(alarm: Alarm) -> dict[str, Any]:
    """Have an alarm watch the connection that a request is sent over."""

    def traced(event: str, about: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            alarm.watch(about["return_value"].get_extra_info("socket"))

    return {"trace": traced}


def _bounded(answer: httpx.Response, alarm: Alarm) -> bytes:
    """Read an answer while it is small and in time."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise Unavailable("the model service compressed its answer, though it was asked not to", reason="model")
    raw = bytearray()
    try:
        for chunk in answer.iter_raw():
            raw += chunk
            if len(raw) > MAX_ANSWER_BYTES:
                raise Unavailable(f"the model service sent more than {MAX_ANSWER_BYTES} bytes", reason="model")
    finally:
        if alarm.rang:  # what was cut off may look like an end
            raise Unavailable("the model service did not finish its answer in time", reason="model")
    return bytes(raw)


def _openai_text(raw: bytes) -> str:
    try:
        choice = msgspec.json.decode(raw, type=_Completion).choices[0]
    except (msgspec.MsgspecError, IndexError, RecursionError) as problem:
        raise Unavailable(f"the model service sent no completion: {problem}", reason="model") from None
    if choice.message.refusal:
        raise Unavailable(f"the model declined: {choice.message.refusal:.200}", reason="model")
    return _finished(choice.message.content, choice.finish_reason, "length")


def _anthropic_text(raw: bytes) -> str:
    try:
        reply = msgspec.json.decode(raw, type=_Reply)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise Unavailable(f"the model service sent no message: {problem}", reason="model") from None
    if reply.stop_reason == "refusal":
        raise Unavailable("the model declined", reason="model")
    return _finished(_joined(reply.content), reply.stop_reason, "max_tokens")


def _joined(blocks: Iterable[_Block]) -> str:
    return "".join(block.text for block in blocks if block.type == "text")


def _finished(text: str | None, reason: str | None, cut: str) -> str:
    if reason == cut:
        raise Unavailable("the model's answer was cut off: let it write more, or give it less to read", reason="model")
    if not text:
        raise Unavailable("the model answered nothing", reason="model")
    return text


def _retry_after(header: str | None) -> float | None:
    return float(header) if header is not None and header.isdecimal() and len(header) < 6 else None


def _httpx() -> Any:
    try:
        import httpx
    except ModuleNotFoundError:
        raise InvalidInput("asking a model over HTTP needs httpx; install strongroom[models]") from None
    return httpx
