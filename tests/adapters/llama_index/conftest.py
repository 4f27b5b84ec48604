"""LlamaIndex brings a newer setuptools and much else along: `make adapters` has an environment for it."""

from __future__ import annotations

from tests.adapters.frameworks import has

collect_ignore = [] if has("llama_index.core") else ["test_chats.py", "test_memory.py"]
