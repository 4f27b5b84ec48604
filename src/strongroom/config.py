"""Settings: from `strongroom.yaml`, the environment and arguments to an open context.

Later wins: defaults, the file, the environment, arguments. A key that does not exist is an error that names the nearest
one that does; so is a value of the wrong type. Nothing is opened until everything has been checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from strongroom.archives import FolderArchive
from strongroom.blocking import Context
from strongroom.blocking.threads import Threads
from strongroom.context import AsyncContext, Opening
from strongroom.errors import InvalidInput
from strongroom.meaning import split
from strongroom.opening import REPEATS_VARIABLE, open_async_scope, open_scope
from strongroom.services.threads.values import Limits
from strongroom.store import kept_seconds

FILE = "strongroom.yaml"
BackendType = Literal["memory", "sqlite", "postgres", "redis"]
_TYPE_OF_SCHEME: dict[str, BackendType] = {
    "memory": "memory",
    "": "sqlite",
    "sqlite": "sqlite",
    "file": "sqlite",
    "postgresql": "postgres",
    "postgres": "postgres",
    "redis": "redis",
    "rediss": "redis",
}
_DEFAULT_URLS: dict[BackendType, str] = {"memory": "memory://", "sqlite": "strongroom.db"}


class Backend(Struct, frozen=True, kw_only=True):
    """Where the data is, how long ids that callers chose are remembered, and how much of it threads may hold.

    `archive` is a folder for threads that have to leave.
    """

    type: BackendType | None = None
    url: str | None = None
    space: str = "default"
    prefix: str | None = None
    repeats: str | None = None
    ttl_seconds: float | None = None
    max_slots_per_thread: int | None = None
    max_threads: int | None = None
    archive: str | None = None


class ProcessPool(Struct, frozen=True, kw_only=True):
    """How many processes run CPU-bound functions, and after how many messages each is replaced."""

    max_workers: int | None = None
    max_tasks_per_child: int | None = None


class Searching(Struct, frozen=True, kw_only=True):
    """What is searched by meaning with: see `strongroom.meaning`."""

    embedder: str | None = None
    embedder_key: str | None = None
    qdrant_url: str | None = None
    qdrant_collection: str | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that can be set."""

    backend: Backend = Backend()
    process_pool: ProcessPool = ProcessPool()
    meaning: Searching = Searching()

    @property
    def url(self) -> str:
        """The store's address, with the prefix in it."""
        backend = self.backend
        url = backend.url or _DEFAULT_URLS.get(backend.type or "sqlite", "")
        if backend.prefix is None:
            return url
        return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode({'prefix': backend.prefix})}"

    @property
    def options(self) -> dict[str, Any]:
        """The options that the store is opened with."""
        return {} if self.backend.repeats is None else {"repeats": self.backend.repeats}

    @property
    def searching(self) -> dict[str, Any]:
        """The options that say what is searched by meaning with."""
        return {name: value for name, value in msgspec.structs.asdict(self.meaning).items() if value is not None}

    @property
    def limits(self) -> Limits:
        backend = self.backend
        return Limits(
            max_slots_per_thread=backend.max_slots_per_thread,
            max_threads=backend.max_threads,
            ttl_seconds=backend.ttl_seconds,
            archive=None if backend.archive is None else FolderArchive(backend.archive),
        )

    @property
    def dispatch(self) -> dict[str, Any]:
        """The options of a `Dispatcher` on this store."""
        return {"address": self.url, **msgspec.structs.asdict(self.process_pool)}

    def open(self, **options: Any) -> Context:
        """Open the store for blocking code."""
        found, own = split(self._all(options))
        limits = self.limits
        scope = open_scope(self.url, self.backend.space, own)
        context = Context(_limited(AsyncContext(scope, embedder=found.embedder, index=found.index), limits))
        context.threads = Threads(context._async.threads)
        return context

    def aopen(self, **options: Any) -> Opening:
        """Open the store for async code."""

        async def opened() -> AsyncContext:
            found, own = split(self._all(options))
            limits = self.limits
            scope = await open_async_scope(self.url, self.backend.space, own)
            return _limited(AsyncContext(scope, embedder=found.embedder, index=found.index), limits)

        return Opening(opened(), "config.aopen")

    def _all(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return these options with those of the settings; what these say about writing is not for a reader."""
        return {**({} if given.get("read_only") else self.options), **self.searching, **given}


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    backend: Mapping[str, Any] | None = None,
    process_pool: Mapping[str, Any] | None = None,
    meaning: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings: a file (default: `strongroom.yaml` if there is one), the environment, then the arguments.

    `STRONGROOM_URL` says where the data is, `STRONGROOM_REPEATS` how long ids are remembered; `STRONGROOM_EMBEDDER`,
    `STRONGROOM_EMBEDDER_KEY`, `QDRANT_URL` and `QDRANT_COLLECTION` what is searched by meaning with;
    `STRONGROOM_BACKEND_MAX_THREADS` and the like set any other key, and `STRONGROOM_CONFIG` names the file.
    """
    env = os.environ if environ is None else environ
    named = path or env.get("STRONGROOM_CONFIG")
    source = Path(named or FILE)
    layers = [_read(source) if named is not None or source.is_file() else {}]
    layers.append(_from_environment(env))
    given = {"backend": backend, "process_pool": process_pool, "meaning": meaning}
    layers.append({section: dict(values or {}) for section, values in given.items()})
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, values in layer.items():
            merged.setdefault(section, {}).update(values)
    return _check(_convert(merged))


def _limited(context: AsyncContext, limits: Limits) -> AsyncContext:
    context.threads = context.threads.limited(**msgspec.structs.asdict(limits))
    return context


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise InvalidInput(f"reading {path} needs PyYAML; install strongroom[config]") from None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidInput(f"the settings in {path} cannot be read: {problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise InvalidInput(f"{path} is not valid YAML: {problem}") from None
    return _checked_keys({} if content is None else content, str(path))


def _from_environment(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for section, cls in _SECTIONS.items():
        start = f"STRONGROOM_{section.upper()}_"
        for name, value in environ.items():
            if name.startswith(start):
                key = name.removeprefix(start).lower()
                _require_key(key, cls.__struct_fields__, name)
                found.setdefault(section, {})[key] = value
    for name, (section, key) in _VARIABLES.items():
        # QDRANT_URL may be there for others: it is ours where an embedder is.
        if environ.get(name) and (not name.startswith("QDRANT") or environ.get("STRONGROOM_EMBEDDER")):
            found.setdefault(section, {})[key] = environ[name]
    return found


def _checked_keys(content: Any, where: str) -> dict[str, dict[str, Any]]:
    if not isinstance(content, dict):
        raise InvalidInput(f"{where} must hold the sections {', '.join(_SECTIONS)}, not a {type(content).__name__}")
    for section, values in content.items():
        _require_key(section, tuple(_SECTIONS), where)
        if not isinstance(values, dict):
            raise InvalidInput(f"{where}: {section} must be a section with keys, not {values!r:.60}")
        for key in values:
            _require_key(key, _SECTIONS[section].__struct_fields__, f"{where}: {section}")
    return content


def _require_key(key: Any, known: tuple[str, ...], where: str) -> None:
    if key in known:
        return
    near = get_close_matches(str(key), known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    raise InvalidInput(f"{where}: there is no setting {key!r}; {hint}")


def _convert(merged: dict[str, dict[str, Any]]) -> Settings:
    try:
        # Not strict: the environment has only strings, and "4" is a fine number of workers.
        return msgspec.convert(_checked_keys(merged, "settings"), Settings, strict=False)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"a setting has a wrong value: {problem}") from None


def _check(settings: Settings) -> Settings:
    backend = settings.backend
    if backend.url is not None:
        scheme = urlsplit(backend.url).scheme if "://" in backend.url else ""
        actual = _TYPE_OF_SCHEME.get(scheme)
        if backend.type is not None and actual != backend.type:
            raise InvalidInput(f"backend: the url is a {actual or scheme} address, but the type says {backend.type}")
    elif backend.type not in (None, *_DEFAULT_URLS):
        raise InvalidInput(f"backend: a {backend.type} store needs a url")
    if backend.prefix is not None and not settings.url.startswith(("redis://", "rediss://")):
        raise InvalidInput("backend: only a redis store has a prefix; use a space to keep tenants apart")
    for name in ProcessPool.__struct_fields__:
        number = getattr(settings.process_pool, name)
        if number is not None and number < 1:
            raise InvalidInput(f"process_pool: {name} must be 1 or more, not {number}")
    _ = settings.limits  # making them checks them
    if backend.repeats is not None:
        kept_seconds(backend.repeats)
    wanted = settings.meaning
    if wanted != Searching() and not wanted.embedder:
        raise InvalidInput("meaning: an index and a key go with an embedder, and none is named")
    return settings


_SECTIONS: dict[str, type[Struct]] = {"backend": Backend, "process_pool": ProcessPool, "meaning": Searching}
_VARIABLES = {
    "STRONGROOM_URL": ("backend", "url"),
    REPEATS_VARIABLE: ("backend", "repeats"),
    "STRONGROOM_EMBEDDER": ("meaning", "embedder"),
    "STRONGROOM_EMBEDDER_KEY": ("meaning", "embedder_key"),
    "QDRANT_URL": ("meaning", "qdrant_url"),
    "QDRANT_COLLECTION": ("meaning", "qdrant_collection"),
}
