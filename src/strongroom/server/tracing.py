"""OpenTelemetry spans, if it is installed; otherwise nothing at all."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

try:
    from opentelemetry import trace
except ImportError:
    _tracer: Any = None
else:
    _tracer = trace.get_tracer("strongroom.server")


ASK_SECONDS = 1.0


class _Heard:
    yet = False
    ask_after = 0.0


_heard = _Heard()


def span() -> AbstractContextManager[Any] | None:
    """Begin a span for one request, if anybody listens; its name is known when it ends."""
    # Installed does not mean that anybody listens, and a span that goes nowhere costs as much as looking up a run.
    if _tracer is None or not _listening():
        return None
    begun: AbstractContextManager[Any] = _tracer.start_as_current_span("request", record_exception=False)
    return begun


def _listening() -> bool:
    """Say whether there is a provider. Without one OpenTelemetry looks into the environment, so it is asked rarely."""
    if not _heard.yet and (now := time.monotonic()) > _heard.ask_after:
        _heard.ask_after = now + ASK_SECONDS
        _heard.yet = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return _heard.yet


def finish(current: Any, method: str, route: str, status: int, correlation: str) -> None:
    """Say what a request was. The route is a template, so ids and contents never show."""
    if current is None:
        return
    current.update_name(f"{method} {route}")
    current.set_attributes(
        {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "strongroom.request_id": correlation,
        }
    )
