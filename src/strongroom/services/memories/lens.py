"""What a caller sees of the memories: whose they may be, and what a search or a list is narrowed to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, cast, get_args

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.meant import meant_argument
from strongroom.services.memories import keys
from strongroom.services.memories.conditions import Test, condition
from strongroom.services.memories.decisions import expired
from strongroom.services.memories.values import Memory, ScopeName, Trust, Type, at_least
from strongroom.store import require_name

_CHOICES: dict[str, tuple[object, ...]] = {
    "scope": (None, *get_args(ScopeName)),
    "type": (None, *get_args(Type)),
    "min_trust": get_args(Trust),
}
# How many is `k` of a search and `limit` of a list; whoever gets here mistook one for the other.
_COUNTS = {"limit": "k", "k": "limit"}
_TIMES = ("as_of", "happened_after", "happened_before")


class Filters(TypedDict, total=False):
    """What a search may be narrowed by. `user_id` and `project_id` also say whose memories may be seen at all."""

    scope: ScopeName | None
    user_id: str | None
    project_id: str | None
    type: Type | None
    min_confidence: float
    min_trust: Trust
    tags: Sequence[str]
    where: Mapping[str, Any] | None
    as_of: datetime | None
    happened_after: datetime | None
    happened_before: datetime | None


class Lens(Struct, frozen=True):
    """Which memories a caller sees."""

    scope: ScopeName | None = None
    user_id: str | None = None
    project_id: str | None = None
    type: Type | None = None
    min_confidence: float = 0.0
    min_trust: Trust = "untrusted"
    tags: tuple[str, ...] = ()
    where: Mapping[str, Any] | None = None
    as_of: datetime | None = None
    happened_after: datetime | None = None
    happened_before: datetime | None = None
    everyone: bool = False
    test: Test | None = None

    @classmethod
    def of(cls, filters: Filters | Mapping[str, Any], *, everyone: bool = False, besides: Sequence[str] = ()) -> Lens:
        """Make a lens, or raise `InvalidInput`: a filter that is misspelt must not show more than was meant.

        `besides` is what else may be said where the filters are.
        """
        for field, value in filters.items():
            if field not in Filters.__annotations__:
                raise InvalidInput(_no_filter(field, besides))
            allowed = _CHOICES.get(field)
            if allowed is not None and value not in allowed:
                raise InvalidInput(f"{field} must be one of {', '.join(map(str, allowed))}, not {value!r:.60}")
            if field in ("user_id", "project_id") and value is not None:
                require_name(value, field)
            if field == "min_confidence" and not (type(value) in (int, float) and 0 <= cast("float", value) <= 1):
                raise InvalidInput(f"min_confidence must be a number from 0 to 1, not {value!r:.60}")
            if field in _TIMES and value is not None and not (isinstance(value, datetime) and value.tzinfo):
                raise InvalidInput(f"{field} must be an aware time, such as datetime.now(UTC), not {value!r:.60}")
        given: dict[str, Any] = dict(filters)
        tags = given.pop("tags", ())
        if isinstance(tags, str) or len(tags) > 32 or not all(isinstance(tag, str) for tag in tags):
            raise InvalidInput(f"tags is a list of texts, not {tags!r:.60}")
        where = given.get("where")
        return cls(**given, tags=tuple(tags), everyone=everyone, test=None if where is None else condition(where))

    def owners(self) -> tuple[str | None, ...]:
        """Return the owner tags this lens can see; None for those of everybody."""
        if self.everyone:
            return (None,)
        users = {None, self.user_id}
        projects = {None, self.project_id}
        return tuple(sorted({keys.owner(user, project) for user in users for project in projects}))

    def carried(self, owner: str | None) -> dict[str, str]:
        """Return what a store's index is narrowed to."""
        return {**({} if owner is None else {"owner": owner}), **{keys.free_tag(tag): "1" for tag in self.tags}}

    def shows(self, memory: Memory, now: datetime, *, status: str | None = "active") -> bool:
        return (
            status in (None, memory.status) and not (status == "active" and expired(memory, now)) and self._fits(memory)
        )

    def showed(self, memory: Memory, time: datetime) -> bool:
        """Tell whether this memory was active at that time."""
        until = min([end.at for end in memory.ended] + ([memory.expires_at] if memory.expires_at else []), default=None)
        return memory.created_at <= time and (until is None or time < until) and self._fits(memory)

    def _fits(self, memory: Memory) -> bool:
        return (
            (self.everyone or memory.user_id in (None, self.user_id))
            and (self.everyone or memory.project_id in (None, self.project_id))
            and self.scope in (None, memory.scope)
            and self.type in (None, memory.type)
            and memory.confidence >= self.min_confidence
            and at_least(memory.trust, self.min_trust)
            and set(self.tags) <= set(memory.tags)
            and self._in_time(memory)
            and (self.test is None or self.test(memory))
        )

    def _in_time(self, memory: Memory) -> bool:
        """Tell whether a memory is about the time asked for: so at that instant, and happened within the range."""
        if self.as_of is not None:
            since, until = memory.valid_from or memory.happened_at, memory.valid_until
            if (since is not None and self.as_of < since) or (until is not None and self.as_of >= until):
                return False
        after, before = self.happened_after, self.happened_before
        return (after is None or memory.told_at >= after) and (before is None or memory.told_at < before)


def _no_filter(word: str, besides: Sequence[str]) -> str:
    """Return what to say of what is no filter: what was meant, and all that there is."""
    known = [*Filters.__annotations__]
    if word in _COUNTS:
        meant = f"{_COUNTS[word]} says how many; "
    else:
        ours = meant_argument(word, [*besides, *known])
        meant = f"did you mean {ours}?; " if ours else ""
    return (
        f"there is no filter {word!r:.60}; {meant}there are {', '.join(known)}, and besides them {', '.join(besides)}"
    )
