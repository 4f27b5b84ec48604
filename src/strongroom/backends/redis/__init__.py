"""The store on a Redis or Valkey server, blocking and async."""

from strongroom.errors import InvalidInput

try:
    import redis as _driver  # noqa: F401
except ModuleNotFoundError:
    raise InvalidInput("redis:// addresses need the extra 'redis': pip install 'strongroom[redis]'") from None

from strongroom.backends.redis.store import AsyncRedisStore, RedisStore

__all__ = ["AsyncRedisStore", "RedisStore"]
