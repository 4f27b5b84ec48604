"""The gate: who is asking, may they, and not too fast.

Without any key in the store only this machine may come in, as an admin of one space: right for a laptop. As soon as a
key exists, or OIDC is configured, everybody needs one: whoever comes without is let in only after a look at the store,
which costs one small document, in every worker. The space is the key's; nothing in a request can change it.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from functools import lru_cache

from strongroom.server.asking import Asking
from strongroom.server.keys import Caller, Keys, Right
from strongroom.server.limits import Rates
from strongroom.server.settings import Settings, is_loopback
from strongroom.server.tokens import TokenVerifier
from strongroom.server.wire import Refusal
from strongroom.store import AsyncStore

REMEMBER_SECONDS = 5.0  # a revoked key works for at most this long in another process
MOST_REMEMBERED = 10_000
NOBODY = Caller("anonymous", "-", "reader")
FORWARDED = frozenset({"x-forwarded-for", "forwarded", "x-real-ip"})


class Gate:
    """Lets callers in."""

    def __init__(self, store: AsyncStore, settings: Settings) -> None:
        self._keys = Keys(store)
        self._rates = Rates(settings.requests_per_second)
        self._known: OrderedDict[str, tuple[float, Caller | None]] = OrderedDict()
        self._local = Caller("local", settings.space, "admin")
        self._origins = frozenset(settings.allowed_origins)
        self._tokens = TokenVerifier(settings) if settings.jwt_keys_url else None
        self._locked = self._tokens is not None  # whether there were keys when we last looked
        self._made = -1  # how many had been made by then

    async def admit(self, asking: Asking, right: Right | None) -> Caller:
        """Return the caller, or refuse."""
        if right is None:
            return NOBODY
        header = asking.headers.get("authorization", "")
        if header:
            caller = await self._identify(header)
        else:
            await self._look()
            caller = self._neighbour(asking)
        self._rates.take(caller.name)
        if not caller.may(right):
            raise Refusal(403, "forbidden", f"this needs the right to {right}, which a {caller.role} does not have")
        return caller

    async def still_admits(self, caller: Caller) -> bool:
        """Tell whether somebody who was let in may stay: without a key, only until there is one."""
        if caller is self._local:
            await self._look()
            return not self._locked
        return True

    async def _identify(self, header: str) -> Caller:
        scheme, _, credential = header.partition(" ")
        if scheme.lower() != "bearer" or not credential:
            raise _unauthorised("send 'Authorization: Bearer <key>'")
        if credential.startswith("srk_"):
            caller = await self._lookup(credential)
        else:
            caller = await self._tokens.verify(credential) if self._tokens is not None else None
        if caller is None:
            raise _unauthorised("this key is not known, or no longer valid")
        return caller

    def _neighbour(self, asking: Asking) -> Caller:
        """Somebody without a key: fine on this machine as long as nobody has made one."""
        headers = asking.headers
        if self._locked:
            raise _unauthorised("a key is needed: send 'Authorization: Bearer <key>'")
        if not FORWARDED.isdisjoint(headers) or not is_loopback(asking.host):
            raise _unauthorised("without keys only this machine is served; make one with `strongroom keys create`")
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin.lower() in self._origins:
            origin, site = None, "none"  # as good as a page of ours; a setting that names nobody is not
        if not _from_here(headers.get("host", ""), origin, site):
            raise _unauthorised("without keys no web page of another site is served")
        return self._local

    async def _look(self) -> None:
        if self._locked:
            return
        made = await self._keys.made()
        if made != self._made:
            self._locked, self._made = await self._keys.any(), made

    async def _lookup(self, credential: str) -> Caller | None:
        moment, caller = self._known.get(credential, (-math.inf, None))
        if time.monotonic() - moment > REMEMBER_SECONDS:
            caller = await self._keys.find(credential)
            self._known[credential] = (time.monotonic(), caller)
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return caller


@lru_cache(64)
def _from_here(host: str, origin: str | None, site: str) -> bool:
    """Tell whether a browser, if it is one, shows a page of ours: other sites can reach this machine through it, by
    posting to it or by pointing a name of their own at it."""
    before, _, after = host.rpartition(":")
    name = before if after.isdecimal() else host
    same = origin is None or origin.partition("://")[2] == host
    return len(name) < 256 and is_loopback(name.lower()) and same and site in ("none", "same-origin")


def _unauthorised(message: str) -> Refusal:
    return Refusal(401, "unauthorised", message, headers={"WWW-Authenticate": "Bearer"})
