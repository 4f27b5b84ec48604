"""mem0 needs older versions of packages that others pin newer: `make adapters` has an environment for it."""

from __future__ import annotations

import os

from tests.adapters.frameworks import has

collect_ignore = [] if has("mem0") else ["test_importing.py"]
os.environ["MEM0_TELEMETRY"] = "False"  # tests tell nobody anything
