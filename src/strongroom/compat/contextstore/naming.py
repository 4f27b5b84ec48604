"""Ids for messages that came without one, as ContextStore gives them: 36 characters with dashes.

A session names such a message by its place, so that nothing is stored or looked up for an id nobody chose. Here that
name is written as a UUID of version 8: 48 bits that no other session has, and the place. It is the same at each load
and can be turned back. Random ids were tried first: each cost a document of its own, a quarter of an append.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any

from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import Naming
from strongroom.services.sessions.values import Message

_FORM = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4})-8000-([89ab][0-9a-f]{3})-([0-9a-f]{12})")
_VARIANT = 0b10 << 62


class Ids:
    """The ids of one session, as it knows them and as they are shown. Any other id is left as it is."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._naming = Naming(session.id)

    @cached_property
    def _mark(self) -> str:
        # The time is in it so that a message copied from another store's session of this name keeps an id of its own.
        name = f"{self._session.created_at.isoformat()} {self._session.id}"
        mark = blake2b(name.encode(), digest_size=6).hexdigest()
        return f"{mark[:8]}-{mark[8:]}"

    def shown(self, message: Message) -> dict[str, Any]:
        """Return a message as a dict of its own, with its id."""
        index = self._naming.index(message.id)
        return {**message, "id": message.id if index is None else self._dashed(index)}

    def known(self, message_id: Any) -> Any:
        """Return an id as the session knows it."""
        form = _FORM.fullmatch(message_id) if isinstance(message_id, str) else None
        if form is None or form[1] != self._mark:
            return message_id
        return self._naming.id(int(form[2] + form[3], 16) - _VARIANT)

    def given(self, message: Mapping[str, Any]) -> Any:
        """Return a message with its id, if it brought one, as the session knows it."""
        return {**message, "id": self.known(message["id"])} if "id" in message else dict(message)

    def _dashed(self, index: int) -> str:
        place = f"{_VARIANT + index:016x}"
        return f"{self._mark}-8000-{place[:4]}-{place[4:]}"
