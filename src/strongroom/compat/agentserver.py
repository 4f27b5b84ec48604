"""xml_pipeline under its earlier name, agentserver: `from strongroom.compat.agentserver.memory import ContextBuffer`.

Every module here is the module of that name in `strongroom.compat.xml_pipeline`, not a copy: same classes, same buffer.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import walk_packages

from strongroom.compat import xml_pipeline
from strongroom.compat.xml_pipeline import llm, memory, message_bus

__all__ = ["llm", "memory", "message_bus"]
__path__: list[str] = []  # a package, whose modules are all known already

_LATER = xml_pipeline.__name__
for _found in walk_packages(xml_pipeline.__path__, f"{_LATER}."):
    sys.modules[_found.name.replace(_LATER, __name__)] = import_module(_found.name)
