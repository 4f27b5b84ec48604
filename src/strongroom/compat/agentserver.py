"""xml_pipeline under its earlier name, agentserver: `from strongroom.compat.agentserver.memory import ContextBuffer`.

Every module here is the module of that name in `strongroom.compat.xml_pipeline`, not a copy: same classes, same buffer.
"""

from __future__ import annotations

import sys

from strongroom.compat.xml_pipeline import llm, memory, message_bus
from strongroom.compat.xml_pipeline.llm import backend
from strongroom.compat.xml_pipeline.memory import context_buffer, shared_backend
from strongroom.compat.xml_pipeline.message_bus import message_state, stream_pump, thread_registry, worker

__all__ = ["llm", "memory", "message_bus"]
__path__: list[str] = []  # a package, whose modules are all known already

_LATER = "strongroom.compat.xml_pipeline"
for _module in (
    memory,
    context_buffer,
    shared_backend,
    message_bus,
    message_state,
    stream_pump,
    thread_registry,
    worker,
    llm,
    backend,
):
    sys.modules[_module.__name__.replace(_LATER, __name__)] = _module
