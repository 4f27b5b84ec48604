"""OpenTelemetry spans, if it is installed; otherwise nothing at all."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

try:
    from opentelemetry import trace
except ImportError:
    _tracer: Any = None
else:
    _tracer = trace.get_tracer("holdfast.server")


_NOTHING: AbstractContextManager[Any] = nullcontext()


def span() -> AbstractContextManager[Any]:
    """Begin a span for one request; its name is known when it ends."""
    # Installed does not mean that anybody listens, and a span that goes nowhere costs as much as looking up a run.
    if _tracer is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return _NOTHING
    begun: AbstractContextManager[Any] = _tracer.start_as_current_span("request", record_exception=False)
    return begun


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
            "holdfast.request_id": correlation,
        }
    )
