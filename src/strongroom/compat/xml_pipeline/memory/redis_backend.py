"""The backend `redis`, in the module that has always held it: a Redis or Valkey server, for any number of machines."""

from __future__ import annotations

from typing import Any

from strongroom.compat import stores
from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig
from strongroom.compat.xml_pipeline.memory.store_backend import StoreBackend
from strongroom.errors import InvalidInput, Unavailable

_USUAL = BackendConfig("redis")


class RedisBackend(StoreBackend):
    """A backend on a Redis or Valkey server: by a configuration, or by the address, prefix and seconds themselves."""

    def __init__(
        self,
        url: str | BackendConfig = _USUAL.redis_url,
        prefix: str = _USUAL.redis_prefix,
        ttl: int | None = _USUAL.redis_ttl,
    ) -> None:
        if isinstance(url, BackendConfig):
            if (prefix, ttl) != (_USUAL.redis_prefix, _USUAL.redis_ttl):
                raise InvalidInput("a configuration says the prefix and the ttl itself; nothing was opened")
            config = url
        else:
            config = BackendConfig("redis", redis_url=url, redis_prefix=prefix, redis_ttl=ttl)
        space = config.redis_prefix or "default"
        super().__init__(lambda: stores.using(config.redis_url, space), config)
        self.url, self.prefix, self.ttl = config.redis_url, config.redis_prefix, config.redis_ttl
        self._ttl = config.redis_ttl or None

    def __reduce__(self) -> tuple[Any, ...]:
        return RedisBackend, (self.config,)

    def ping(self) -> bool:
        """Tell whether the server answers."""
        try:
            self.buffer_thread_exists("-")
        except Unavailable:
            return False
        return True

    def info(self) -> dict[str, int]:
        """Count what is kept, and say for how long."""
        return {**super().info(), "ttl_seconds": self.ttl or 0}
