"""Which store processes share, what they may ask of it, and the two sections of `organism.yaml` that say so.

```yaml
backend:
  type: redis
  redis_url: redis://localhost:6379
  redis_ttl: 3600
process_pool:
  enabled: true
  workers: 4
  max_tasks_per_child: 100
```
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from strongroom.errors import InvalidInput

T = TypeVar("T")
MAX_SLOTS = 10_000
MAX_THREADS = 1_000
BACKENDS = ("memory", "manager", "redis")
# How else the fields are called in a file, where their section says what they belong to.
_SHORT = {
    "type": "backend_type",
    "url": "redis_url",
    "prefix": "redis_prefix",
    "ttl": "redis_ttl",
    "address": "manager_address",
    "authkey": "manager_authkey",
    "max_workers": "workers",
}
# What a section means that does not say it. Without one, processes are forked where that is usual, as a script needs
# that has no guard around its main program; processes that are to be replaced cannot be forked.
_USUAL: dict[str, dict[str, Any]] = {"process_pool": {"max_tasks_per_child": 100}}


@dataclass
class BackendConfig:
    """Which store, and its limits.

    On Redis, threads end that nobody has written to for `redis_ttl` seconds; 0 is never.
    """

    backend_type: Literal["memory", "manager", "redis"] = "memory"
    redis_url: str = "redis://localhost:6379"
    redis_prefix: str = "xp:"
    redis_ttl: int | None = 86400
    manager_address: str | os.PathLike[str] | None = None
    manager_authkey: bytes | None = None
    max_slots_per_thread: int = MAX_SLOTS
    max_threads: int = MAX_THREADS


@runtime_checkable
class SharedBackend(Protocol):
    """What a buffer and a registry need of a place they share. Data is bytes, chains and ids are strings."""

    def buffer_append(self, thread_id: str, slot_data: bytes) -> int: ...
    def buffer_get_thread(self, thread_id: str) -> list[bytes]: ...
    def buffer_get_slot(self, thread_id: str, index: int) -> bytes | None: ...
    def buffer_thread_len(self, thread_id: str) -> int: ...
    def buffer_thread_exists(self, thread_id: str) -> bool: ...
    def buffer_delete_thread(self, thread_id: str) -> bool: ...
    def buffer_list_threads(self) -> list[str]: ...
    def buffer_clear(self) -> None: ...
    def registry_set(self, chain: str, uuid: str) -> None: ...
    def registry_get_uuid(self, chain: str) -> str | None: ...
    def registry_get_chain(self, uuid: str) -> str | None: ...
    def registry_delete(self, uuid: str) -> bool: ...
    def registry_list_all(self) -> dict[str, str]: ...
    def registry_clear(self) -> None: ...
    def close(self) -> None: ...


@dataclass
class ProcessPoolConfig:
    """Whether CPU-bound handlers run in processes of their own, how many, and after how many messages each is replaced.

    None is as many as there are processors, and never.
    """

    enabled: bool = True
    workers: int | None = 4
    max_tasks_per_child: int | None = None


def load_sections(path: str | os.PathLike[str]) -> tuple[BackendConfig, ProcessPoolConfig]:
    """Read the sections `backend` and `process_pool` of an `organism.yaml`. Its other sections are left alone."""
    return sections(read_yaml(path))


def sections(content: Mapping[str, Any]) -> tuple[BackendConfig, ProcessPoolConfig]:
    """Return what the two sections of a file say."""
    backend = _section(BackendConfig, "backend", content)
    if backend.backend_type not in BACKENDS:
        raise InvalidInput(f"backend.type must be one of {', '.join(BACKENDS)}, not {backend.backend_type!r:.40}")
    return backend, _section(ProcessPoolConfig, "process_pool", content)


def read_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a YAML file whose content is a mapping. Nothing in it is executed."""
    try:
        import yaml  # an extra, and only those who have such a file need it
    except ImportError:
        raise InvalidInput(
            f"reading {os.fspath(path)!r} needs the extra 'config': pip install 'strongroom[config]'"
        ) from None
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{os.fspath(path)!r} is not YAML: {problem}") from None
    if not isinstance(content, dict):
        raise InvalidInput(f"{os.fspath(path)!r} must hold a mapping, not a {type(content).__name__}")
    return content


def _section(made_of: type[T], name: str, content: Mapping[str, Any]) -> T:
    section = content.get(name) or {}
    if not isinstance(section, Mapping):
        raise InvalidInput(f"the section {name!r} must be a mapping, not a {type(section).__name__}")
    usual = _USUAL.get(name, {}) if name in content else {}
    values = {**usual, **{_SHORT.get(str(key), str(key)): value for key, value in section.items()}}
    known = {field.name for field in dataclasses.fields(made_of)}  # type: ignore[arg-type]
    unknown = sorted(values.keys() - known)
    if unknown:
        raise InvalidInput(f"the section {name!r} has no {unknown[0]!r:.60}; it has {', '.join(sorted(known))}")
    if isinstance(values.get("manager_authkey"), str):
        values["manager_authkey"] = values["manager_authkey"].encode()
    return made_of(**values)
