"""ADK needs older versions of packages that the other tests use: `make adapters` has an environment for it."""

from __future__ import annotations

from tests.adapters.frameworks import has

TESTS = ["test_services.py", "test_schedules.py", "test_importing.py", "test_processes.py"]
collect_ignore = [] if has("google.adk") else TESTS
