"""What is not tested here for want of a framework is said, not left out in silence."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.adapters.frameworks import has
from tests.missing import not_here

# Frameworks that cannot be installed beside the others, and where their tests run.
ELSEWHERE = {
    "google.adk": "make adapters",
    "llama_index.core": "make adapters",
    "crewai": "make adapters",
    "mem0": "make adapters",
    "pydantic_ai_harness": "make adapters",
}
# What each adapter imports first, and the extra that brings it.
NEEDED = {
    "openai_agents": ("agents", "openai-agents"),
    "anthropic": ("anthropic", "anthropic"),
    "langgraph": ("langgraph", "langgraph"),
    "adk": ("google", "adk"),
    "agent_framework": ("agent_framework", "agent-framework"),
    "crewai": ("crewai", "crewai"),
    "llama_index": ("llama_index", "llama-index"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "pydantic_ai_harness": ("pydantic_ai_harness", "pydantic-ai-harness"),
}


@pytest.mark.parametrize("module", ELSEWHERE)
def test_a_framework_is_here_or_its_tests_run_elsewhere(module: str) -> None:
    if not has(module):
        not_here(module, f"its tests run with `{ELSEWHERE[module]}`")


@pytest.mark.parametrize("adapter", NEEDED)
def test_an_adapter_without_its_framework_says_what_to_install(adapter: str) -> None:
    module, extra = NEEDED[adapter]
    program = f"import sys; sys.modules[{module!r}] = None; import strongroom.adapters.{adapter}"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert f"pip install 'strongroom[{extra}]'" in told.stderr.splitlines()[-1]
