"""CrewAI needs older versions of packages that others pin newer: `make adapters` has an environment for it."""

from __future__ import annotations

import os
import warnings

from tests.adapters.frameworks import has

collect_ignore = [] if has("crewai") else ["test_storage.py", "test_memory.py", "test_processes.py"]

if has("crewai"):
    os.environ["OTEL_SDK_DISABLED"] = os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"  # tests tell nobody anything
    os.environ["CREWAI_TESTING"], os.environ["CREWAI_TRACING_ENABLED"] = "true", "false"  # it waits for its own traces
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those that importing it gives are its own
        import crewai.memory  # noqa: F401
