"""The store on a Redis or Valkey server, in both colours."""

from holdfast.errors import InvalidInput

try:
    import redis as _driver  # noqa: F401
except ModuleNotFoundError:
    raise InvalidInput("redis:// addresses need the extra 'redis': pip install 'holdfast[redis]'") from None

from holdfast.backends.redis.store import AsyncRedisStore, RedisStore

__all__ = ["AsyncRedisStore", "RedisStore"]
