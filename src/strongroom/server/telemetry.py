"""What is told about requests, never of their contents: figures for Prometheus, and OpenTelemetry spans.

Prometheus' text needs no dependency: three counters and a histogram are a page of code. Spans are made if OpenTelemetry
is installed and somebody listens.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

from strongroom.codec import encode
from strongroom.services.runs.usage import MOST_MODELS, OTHERS, summed, told
from strongroom.values import ModelUsage, Usage

try:
    from opentelemetry import trace
except ImportError:
    _tracer: Any = None
else:
    _tracer = trace.get_tracer("strongroom.server")

MOST_IN_ALL = 20 * MOST_MODELS  # names of models that are told apart; a space may bring MOST_MODELS
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Figures:
    """What is counted for one method and route."""

    __slots__ = ("buckets", "longest", "seconds", "statuses")

    def __init__(self) -> None:
        self.statuses: defaultdict[int, int] = defaultdict(int)
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = self.longest = 0.0

    def quantile(self, share: float) -> float:
        """Return a time within which that share of the requests was answered."""
        wanted, running = share * sum(self.buckets), 0
        for bound, number in zip((*BOUNDS, self.longest), self.buckets, strict=True):
            running += number
            if running >= wanted:
                return min(bound, self.longest)
        return self.longest


SPENT = {
    "calls": "Model actions recorded.",
    "tokens_in": "Tokens that models read.",
    "tokens_cached": "Tokens that models read from a cache.",
    "tokens_out": "Tokens that models wrote.",
    "cost": "What models cost, in the unit of whoever recorded it.",
    "errors": "Model actions that failed.",
}


class Metrics:
    """Requests by method, route and status, and how long they took. Routes are templates, so ids never show."""

    def __init__(self) -> None:
        self._figures: defaultdict[tuple[str, str], Figures] = defaultdict(Figures)
        self._models: dict[tuple[str, str], ModelUsage] = {}  # by space and name
        self._names: Counter[str] = Counter()  # how many of them a space has brought

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        figures = self._figures[method, route]
        figures.statuses[status] += 1
        figures.buckets[bisect_left(BOUNDS, seconds)] += 1
        figures.seconds += seconds
        figures.longest = max(figures.longest, seconds)

    def slowest(self) -> list[tuple[str, str, Figures]]:
        """Return methods, routes and their figures, those that took longest at most before the others."""
        found = [(method, route, figures) for (method, route), figures in self._figures.items()]
        return sorted(found, key=lambda each: -each[2].longest)

    def record(self, space: str, type: object, payload: object) -> None:
        """Count what an event that was recorded here says of a model. A space that brings too many names takes none of
        the others' places: its further ones are counted together."""
        if not isinstance(type, str) or not isinstance(payload, dict):
            return
        for name, one in told(Usage(), type, payload).models.items():
            place = space, name
            if place not in self._models:
                if self._names[space] < MOST_MODELS and len(self._models) < MOST_IN_ALL:
                    self._names[space] += 1
                else:
                    place = "", OTHERS
            self._models[place] = summed(self._models.get(place, ModelUsage()), one)

    def text(self) -> str:
        """Return everything in Prometheus' text format."""
        lines = ["# HELP strongroom_requests_total Requests answered.", "# TYPE strongroom_requests_total counter"]
        for (method, route), figures in sorted(self._figures.items(), key=itemgetter(0)):
            for status, number in sorted(figures.statuses.items()):
                lines.append(
                    f'strongroom_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}'
                )
        lines += [
            "# HELP strongroom_request_seconds How long answers took.",
            "# TYPE strongroom_request_seconds histogram",
        ]
        for (method, route), figures in sorted(self._figures.items(), key=itemgetter(0)):
            labels, running = f'method="{method}",route="{route}"', 0
            for bound, number in zip((*map(str, BOUNDS), "+Inf"), figures.buckets, strict=True):
                running += number
                lines.append(f'strongroom_request_seconds_bucket{{{labels},le="{bound}"}} {running}')
            lines.append(f"strongroom_request_seconds_sum{{{labels}}} {figures.seconds:.6f}")
            lines.append(f"strongroom_request_seconds_count{{{labels}}} {running}")
        return "\n".join([*lines, *self._spent()]) + "\n"

    def _spent(self) -> Iterator[str]:
        """Yield what models came to in all spaces, as events recorded through this process tell."""
        models: defaultdict[str, ModelUsage] = defaultdict(ModelUsage)
        for (_, name), sums in self._models.items():
            models[name] = summed(models[name], sums)
        for name, help in SPENT.items():
            yield f"# HELP strongroom_model_{name}_total {help}"
            yield f"# TYPE strongroom_model_{name}_total counter"
            for model, sums in sorted(models.items()):
                label = encode(model).decode()  # quoted and escaped as Prometheus wants it
                yield f"strongroom_model_{name}_total{{model={label}}} {getattr(sums, name):g}"


# ---- spans ----------------------------------------------------------------------------------------------------------

ASK_SECONDS = 1.0


class _Heard:
    yet = False
    ask_after = 0.0


_heard = _Heard()


@contextmanager
def span() -> Iterator[Any]:
    """Begin a span for one request; its name is known when it ends."""
    with _tracer.start_as_current_span("request", record_exception=False) as current:
        yield current


def listening() -> bool:
    """Say whether anybody wants spans: installed does not mean that, and one that goes nowhere costs as much as looking
    up a run. Without a provider OpenTelemetry looks into the environment, so it is asked rarely."""
    if _tracer is None:
        return False
    if not _heard.yet and (now := time.monotonic()) > _heard.ask_after:
        _heard.ask_after = now + ASK_SECONDS
        _heard.yet = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return _heard.yet


def finish(current: Any, method: str, route: str, status: int, request_id: str) -> None:
    """Say what a request was. The route is a template, so ids and contents never show."""
    if current is None:
        return
    current.update_name(f"{method} {route}")
    current.set_attributes(
        {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "strongroom.request_id": request_id,
        }
    )
