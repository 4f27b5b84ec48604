"""The harness wants one older version of Pydantic AI: `make adapters` has an environment for it."""

from __future__ import annotations

from tests.adapters.frameworks import has

collect_ignore = [] if has("pydantic_ai_harness") else ["test_memory.py", "test_processes.py"]
