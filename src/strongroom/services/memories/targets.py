"""What an erasure of memories is about: one memory and its lineage, all of an owner, all that cites a source. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from strongroom.errors import InvalidInput
from strongroom.folding import folded
from strongroom.scope import Scope
from strongroom.services.memories import keys
from strongroom.services.memories.sources import session_of
from strongroom.services.memories.values import Memory, Request
from strongroom.store import Key, Scan, require_name

PAGE = 100


class Target(Struct, frozen=True):
    """What is to be erased: one memory and its lineage, all of an owner, or all that cites a source.

    A source is cited by whoever spells it alike. That of a session, whose `session_id` is told, is cited only by its
    very letters, and also by whoever cites one of its messages.
    """

    memory_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    source_ref: str | None = None
    session_id: str | None = None

    def __post_init__(self) -> None:
        named = [name for name, value in self.named.items() if value is not None]
        if len(named) != 1 and named != ["user_id", "project_id"]:
            raise InvalidInput(
                "erase() takes one of memory_id, user_id, project_id, source_ref, or a user_id in a project_id; "
                "nothing changed"
            )
        for name in named:
            if name != "source_ref":
                require_name(getattr(self, name), name)

    @property
    def named(self) -> dict[str, str | None]:
        """What the caller named."""
        return {name: getattr(self, name) for name in ("memory_id", "user_id", "project_id", "source_ref")}

    def key(self, scope: Scope) -> Key:
        """Return what the operation is about, so that one id may be used for several."""
        if self.memory_id is not None:
            return scope.key(keys.MEMORY, self.memory_id)
        if self.source_ref is not None:
            return keys.revocation_key(scope.space, self.source_ref)
        return scope.key(keys.LOG, keys.owner(self.user_id, self.project_id))

    def owns(self, user_id: str | None, project_id: str | None) -> bool:
        """Tell whether the owner that is to be erased is this one."""
        if self.user_id is None and self.project_id is None:
            return False
        return self.user_id in (None, user_id) and self.project_id in (None, project_id)


class Targets:
    """All that one erasure is about, so that a walk over what is stored answers for all of it."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.targets = targets
        self._owners = [one for one in targets if one.source_ref is None]
        self._sessions = {one.session_id for one in targets if one.session_id is not None}
        self._exact = {one.source_ref for one in targets if one.session_id is not None}
        self._folded = {
            folded(one.source_ref) for one in targets if one.source_ref is not None and one.session_id is None
        }

    def include(self, said: Memory | Request) -> bool:
        """Tell whether what is said is of an owner, or cites a source, that is to be erased."""
        return any(one.owns(said.user_id, said.project_id) for one in self._owners) or self.cited(said.source_refs)

    def cited(self, refs: Sequence[str]) -> bool:
        """Tell whether one of these sources is to be erased."""
        if not self._exact.isdisjoint(refs) or (self._folded and not self._folded.isdisjoint(map(folded, refs))):
            return True
        return bool(self._sessions) and any(session_of(ref, refs) in self._sessions for ref in refs)

    def scans(self, space: str) -> Iterator[Scan]:
        """Give what finds the memories of these owners and sources. The tag of an owner is that of a user *in* a
        project, so all of a user, or of a project, are found only by looking at every memory."""
        if any(one.memory_id is None for one in self._owners):
            yield Scan(space, keys.MEMORY, limit=PAGE)
            return
        for ref in dict.fromkeys(one.source_ref for one in self.targets if one.source_ref is not None):
            yield Scan(space, keys.MEMORY, {keys.source_tag(ref): "1"}, limit=PAGE)
