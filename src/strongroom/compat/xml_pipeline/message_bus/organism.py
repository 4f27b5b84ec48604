"""What `organism.yaml` says: the listeners, how many may work at once, where their context is kept.

Sections that are not about these (the model, the server, the users) are left alone.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig, ProcessPoolConfig, read_yaml, sections
from strongroom.compat.xml_pipeline.message_bus.worker import named
from strongroom.errors import InvalidInput


@dataclass
class ListenerConfig:
    """A listener as it is configured. `payload_class` and `handler` win over the paths that name them.

    A `cpu_bound` one runs in another process, which finds it by its paths.
    """

    name: str
    payload_class_path: str = ""
    handler_path: str = ""
    description: str = ""
    is_agent: bool = False
    peers: list[str] = field(default_factory=list)
    broadcast: bool = False
    prompt: str = ""
    payload_class: type | None = field(default=None, repr=False)
    handler: Callable[..., Any] | None = field(default=None, repr=False)
    cpu_bound: bool = False


@dataclass
class OrganismConfig:
    """An organism as it is configured."""

    name: str
    identity_path: str = ""
    port: int = 8765
    thread_scheduling: str = "breadth-first"
    listeners: list[ListenerConfig] = field(default_factory=list)
    max_concurrent_pipelines: int = 50
    max_concurrent_handlers: int = 20
    max_concurrent_per_agent: int = 5
    llm_config: dict[str, Any] = field(default_factory=dict)
    backend: BackendConfig = field(default_factory=BackendConfig)
    process_pool: ProcessPoolConfig = field(default_factory=ProcessPoolConfig)


@dataclass
class Listener:
    """A listener at work."""

    name: str
    payload_class: type
    handler: Callable[..., Any]
    description: str = ""
    is_agent: bool = False
    peers: list[str] = field(default_factory=list)
    broadcast: bool = False
    schema: Any = field(default=None, repr=False)
    root_tag: str = ""
    usage_instructions: str = ""
    cpu_bound: bool = False
    payload_class_path: str = ""
    handler_path: str = ""

    @classmethod
    def of(cls, lc: ListenerConfig) -> Listener:
        """Make a listener of its configuration."""
        payload_class = lc.payload_class or named(lc.payload_class_path)
        handler = lc.handler or named(lc.handler_path)
        return cls(
            name=lc.name,
            payload_class=payload_class,
            handler=handler,
            description=lc.description,
            is_agent=lc.is_agent,
            peers=list(lc.peers),
            broadcast=lc.broadcast,
            root_tag=f"{lc.name}.{payload_class.__name__}".lower(),
            cpu_bound=lc.cpu_bound,
            payload_class_path=lc.payload_class_path or _path(payload_class),
            handler_path=lc.handler_path or _path(handler),
        )

    def instructions(self, others: Mapping[str, Listener]) -> str:
        """Tell an agent whom it may send to, and what they take."""
        lines = [f"You are {self.name}. {self.description}", "You may send to:"]
        for peer in self.peers:
            other = others.get(peer)
            if other is None:
                lines.append(f"- {peer}, who is not here now")
                continue
            names = [each.name for each in dataclasses.fields(other.payload_class)]
            lines.append(f"- {peer}: {other.description}; takes a {other.payload_class.__name__} of {', '.join(names)}")
        return "\n".join(
            [*lines, "An answer to your caller ends what you have asked of others: ask first, then answer."]
        )


class ConfigLoader:
    """Reads `organism.yaml`."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OrganismConfig:
        """Read a file, and find what its listeners name."""
        raw = read_yaml(path)
        organism = raw.get("organism") or {}
        backend, process_pool = sections(raw)
        return OrganismConfig(
            name=organism.get("name", "unnamed"),
            identity_path=organism.get("identity", ""),
            port=organism.get("port", 8765),
            thread_scheduling=raw.get("thread_scheduling", "breadth-first"),
            listeners=[cls._listener(entry) for entry in raw.get("listeners") or []],
            max_concurrent_pipelines=raw.get("max_concurrent_pipelines", 50),
            max_concurrent_handlers=raw.get("max_concurrent_handlers", 20),
            max_concurrent_per_agent=raw.get("max_concurrent_per_agent", 5),
            llm_config=raw.get("llm") or {},
            backend=backend,
            process_pool=process_pool,
        )

    @classmethod
    def _listener(cls, entry: Mapping[str, Any]) -> ListenerConfig:
        missing = [name for name in ("name", "payload_class", "handler") if name not in entry]
        if missing:
            raise InvalidInput(f"a listener needs a {missing[0]!r}, and {dict(entry)!r:.120} has none")
        return ListenerConfig(
            name=entry["name"],
            payload_class_path=entry["payload_class"],
            handler_path=entry["handler"],
            description=entry.get("description", ""),
            is_agent=entry.get("agent", False),
            peers=list(entry.get("peers") or []),
            broadcast=entry.get("broadcast", False),
            prompt=entry.get("prompt", ""),
            payload_class=named(entry["payload_class"]),
            handler=named(entry["handler"]),
            cpu_bound=entry.get("cpu_bound", False),
        )


def _path(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"
