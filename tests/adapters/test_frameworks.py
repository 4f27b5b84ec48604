"""What is not tested here for want of a framework is said, not left out in silence."""

from __future__ import annotations

import pytest

from tests.adapters.frameworks import has
from tests.missing import not_here

# Frameworks that cannot be installed beside the others, and where their tests run.
ELSEWHERE = {"google.adk": "make adapters"}


@pytest.mark.parametrize("module", ELSEWHERE)
def test_a_framework_is_here_or_its_tests_run_elsewhere(module: str) -> None:
    if not has(module):
        not_here(module, f"its tests run with `{ELSEWHERE[module]}`")
