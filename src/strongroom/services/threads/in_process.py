"""Appending to a thread in this process's memory, the short way.

In process a commit's ceremony (an id, a receipt that is kept, a general plan) costs several times the append itself,
and nobody could repeat an id they never saw. So a store that keeps its data here may offer `extend`, which does just
what one `Append` to a stream that exists would do. The usual message takes that way: a thread, names and a class seen
before, a receiver whose flag is up, and values that are plainly harmless. Anything else goes the long way, which
decides and explains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any

from strongroom.scope import now
from strongroom.services.threads.deliveries import mail_key
from strongroom.services.threads.payloads import SAFE, encode_body, kinds, seal
from strongroom.services.threads.plans import THREAD
from strongroom.services.threads.threads import AsyncThreads, kept
from strongroom.services.threads.values import Slot
from strongroom.store import Key, Record


class InProcess:
    """The short way for the threads of one space. `otherwise` is the long one."""

    def __init__(self, threads: AsyncThreads, *, store: Any, otherwise: Callable[..., Slot]) -> None:
        self._place: Callable[[Key, Key | None], object] = store.place
        self._extend: Callable[..., Record | None] = store.extend
        self._otherwise = otherwise
        self._scope = threads.scope
        self._clock = None if threads.scope.clock is now else threads.scope.clock
        self._limit = threads.limits.max_slots_per_thread
        self._births, self._types = threads.births, threads.types
        # Thread, sender and receiver that went the long way and were found in order; where the store has them.
        self._ways: dict[tuple[str, str, str], object] = {}

    def append(
        self,
        thread_id: str,
        payload: Any,
        *,
        from_id: str,
        to_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        commit_id: str | None = None,
    ) -> Slot:
        """See `AsyncThreads.append`."""
        kind = kinds.get(type(payload))
        try:
            way = self._ways[thread_id, from_id, to_id]
        except (KeyError, TypeError):  # the latter of what cannot even be looked up
            way = None
        if commit_id is None and metadata is None and way is not None and kind is not None:
            name, fields = kind
            for value in fields(payload):
                if type(value) not in SAFE:
                    body: bytes = seal(payload)
                    break
            else:
                try:
                    body = encode_body((payload,))
                except UnicodeEncodeError:
                    body = seal(payload)
            limit, clock = self._limit, self._clock
            if limit is not None:
                # A birth that is not known only makes the limit too low, and the long way looks.
                birth = self._births.get(thread_id)
                limit += 0 if birth is None else birth.first
            at = time_ns() // 1000 if clock is None else clock()
            record = self._extend(way, limit, name, body, at, from_id, to_id or None, payload)
            if record is not None:
                return Slot(thread_id, record, self._types, payload)
        slot = self._otherwise(thread_id, payload, from_id=from_id, to_id=to_id, metadata=metadata, commit_id=commit_id)
        if way is None:
            flag = mail_key(self._scope.space, thread_id=thread_id, receiver=to_id) if to_id else None
            kept(self._ways)[thread_id, from_id, to_id] = self._place(self._scope.key(THREAD, thread_id), flag)
        return slot


# What it stands in for, and what Python names where a call does not fit. A function around it would cost each call.
InProcess.append.__qualname__ = "Threads.append"
