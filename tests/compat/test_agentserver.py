"""The earlier name of xml_pipeline leads to the same modules."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from strongroom.compat import xml_pipeline
from strongroom.compat.agentserver import memory as earlier
from strongroom.compat.xml_pipeline import memory as later


def test_the_earlier_names_are_the_same_objects() -> None:
    for name in later.__all__:
        assert getattr(earlier, name) is getattr(later, name)


MODULES = [
    module.name.removeprefix(f"{xml_pipeline.__name__}.")
    for module in pkgutil.walk_packages(xml_pipeline.__path__, f"{xml_pipeline.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_every_earlier_module_is_the_later_one(name: str) -> None:
    modules = [importlib.import_module(f"strongroom.compat.{one}.{name}") for one in ("agentserver", "xml_pipeline")]
    assert modules[0] is modules[1]
