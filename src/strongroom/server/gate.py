"""The gate: who is asking, may they, and not too fast.

As long as a store never had a key, only this machine may come in, as an admin of one space: right for a laptop. From
the first key on, or with OIDC, everybody needs one, and revoking the last key opens nothing: whoever comes without is
let in only after a look at the store, which costs one small document, in every worker. `serve --no-keys` says aloud
that a store whose keys are all revoked is this machine's again. The space is the key's; nothing in a request can change
it. A browser may bring the key in a cookie instead of a header: see `cookies`.

Of credentials only those that were good are remembered, as digests. Each address may be wrong a few times a second.
"""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import lru_cache
from hashlib import sha256

from starlette.requests import HTTPConnection

from strongroom.server.cookies import SAFE, is_from_this_server, kept_key
from strongroom.server.keys import Caller, Keys, Right
from strongroom.server.limits import Rates
from strongroom.server.oidc import TokenVerifier, is_subject
from strongroom.server.responses import Refusal
from strongroom.server.settings import Settings, is_loopback
from strongroom.store import AsyncStore

REMEMBER_SECONDS = 5.0  # a revoked key works for at most this long in another process
MOST_REMEMBERED = 10_000
NOBODY = Caller("anonymous", "-", "reader")
LOCAL = "local"  # whoever is let in without a key; no key and no token is called so
LONGEST_KEY = 200
WRONG_PER_SECOND = 5.0
# Whoever comes through a proxy is not on this machine, though the proxy may be.
PROXIED = frozenset({"via", "forwarded", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})
FORWARDED = "x-forwarded-"
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]{1,253})(?::[0-9]{1,5})?")
ORIGIN = re.compile(r"https?://(.+)")


class Gate:
    """Lets callers in."""

    def __init__(self, store: AsyncStore, settings: Settings) -> None:
        self._keys = Keys(store)
        self._rates = Rates(settings.requests_per_second)
        self._wrong = Rates(WRONG_PER_SECOND)
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._keyless = settings.no_keys
        self._local = Caller(LOCAL, settings.space, "admin")
        self._origins = frozenset(settings.allowed_origins)
        self._tokens = TokenVerifier(settings) if settings.jwt_keys_url else None
        self._locked = self._tokens is not None  # whether there were keys when we last looked
        self._made = -1  # how many had been made by then
        self._used: OrderedDict[str, float] = OrderedDict()
        self.since = time.time()

    async def admit(self, request: HTTPConnection, right: Right | None) -> Caller:
        """Return the caller, or refuse."""
        if right is None:
            return NOBODY
        caller = await self._who(request)
        self._rates.take(caller.name)
        if not caller.may(right):
            raise Refusal(403, "forbidden", f"this needs the right to {right}, which a {caller.role} does not have")
        self._note(caller)
        return caller

    async def confirm(self, request: HTTPConnection, caller: Caller) -> None:
        """Refuse somebody who was let in and would not be let in as the same one now.

        Asked when a body is complete, before anything is done with it: how long that takes is up to who sends it.
        """
        if caller is NOBODY:
            return
        try:
            now = await self._who(request)
        except Refusal:
            now = None
        if now != caller:
            raise _unauthorised("who may come in has changed since this request began, and it may not; nothing changed")

    async def _who(self, request: HTTPConnection) -> Caller:
        header = request.headers.get("authorization", "")
        if header:
            try:
                return await self._identify(header)
            except Refusal:
                self._wrong.take(_host(request))
                raise
        await self._look()
        kept = kept_key(request) if self._locked else None  # without keys none can be good
        return self._neighbour(request) if kept is None else await self._visitor(request, kept)

    def used_at(self, name: str) -> float | None:
        """Return when a key was last let in here, since this worker started. Kept in memory: a read writes nothing."""
        return self._used.get(name)

    def _note(self, caller: Caller) -> None:
        self._used.pop(caller.name, None)
        self._used[caller.name] = time.time()
        if len(self._used) > MOST_REMEMBERED:
            self._used.popitem(last=False)

    def is_keyless(self, request: HTTPConnection) -> bool:
        """Tell whether somebody who was let in came as a neighbour, without a key."""
        return "authorization" not in request.headers and not self._locked

    def forget(self) -> None:
        """Look for every key again: one was revoked. Whoever is being looked for right now is not remembered either."""
        self._known = OrderedDict()

    async def still_admits(self, request: HTTPConnection, caller: Caller) -> bool:
        """Tell whether somebody who was let in may stay: with a key until it is revoked, with a token until it expires,
        without either until there is a key. Cheap: asked before everything that a stream sends."""
        header = request.headers.get("authorization", "")
        if not header:
            await self._look()
            kept = kept_key(request) if self._locked else None
            return not self._locked if kept is None else await self._lookup(kept) == caller
        credential = header.partition(" ")[2]
        if credential.startswith("srk_") or self._tokens is None:
            return await self._lookup(credential) == caller
        return await self._remembered(credential, self._tokens.verify) == caller

    async def still_knows(self, caller: Caller) -> bool:
        """Tell the same of somebody who left something open, and whose key nobody kept. A token is not asked for: the
        same person goes on with the next one."""
        if caller == self._local:
            await self._look()
            return not self._locked
        if is_subject(caller.name):
            return True
        stored = await self._keys.get(caller.name)
        return stored is not None and Caller(stored.name, stored.space, stored.role) == caller

    async def _identify(self, header: str) -> Caller:
        scheme, _, credential = header.partition(" ")
        if scheme.lower() != "bearer" or not credential:
            raise _unauthorised("send 'Authorization: Bearer <key>'")
        if credential.startswith("srk_"):
            caller = await self._lookup(credential)
        else:
            caller = await self._tokens.verify(credential) if self._tokens is not None else None
        if caller is None:
            raise _unauthorised("this key is not known, or no longer valid: misspelt, revoked or expired")
        return caller

    async def _visitor(self, request: HTTPConnection, key: str) -> Caller:
        """Somebody whose browser keeps a key, which is good for pages of this server alone."""
        if not is_from_this_server(request, must_say=request.scope["method"] not in SAFE):
            raise Refusal(403, "forbidden", "a key in a cookie is for pages of this server alone; nothing changed")
        caller = await self._lookup(key)
        if caller is None:
            self._wrong.take(_host(request))
            raise _unauthorised("the key in your browser's cookie is not known, or no longer valid")
        return caller

    def _neighbour(self, request: HTTPConnection) -> Caller:
        """Somebody without a key: fine on this machine as long as nobody has made one."""
        headers = request.headers
        if self._locked:
            raise _unauthorised("a key is needed: send 'Authorization: Bearer <key>'")
        proxied = any(name in PROXIED or name.startswith(FORWARDED) for name in headers)
        if proxied or not is_loopback(_host(request)):
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
            ever = made > 0 and not self._keyless
            self._locked, self._made = ever or await self._keys.any(), made

    async def _lookup(self, credential: str) -> Caller | None:
        return None if len(credential) > LONGEST_KEY else await self._remembered(credential, self._keys.find)

    async def _remembered(self, credential: str, find: Callable[[str], Awaitable[Caller | None]]) -> Caller | None:
        """Return whose credential this is, as it was a moment ago or as it is now."""
        known, digest = self._known, sha256(credential.encode("latin-1")).digest()
        moment, caller = known.get(digest, (-math.inf, None))
        if time.monotonic() - moment <= REMEMBER_SECONDS:
            return caller
        known.pop(digest, None)
        asked = time.monotonic()
        caller = await find(credential)
        if caller is not None:
            known[digest] = (asked, caller)
            if len(known) > MOST_REMEMBERED:
                known.popitem(last=False)
        return caller


def _host(request: HTTPConnection) -> str:
    return request.client.host if request.client is not None else ""


@lru_cache(64)
def _from_here(host: str, origin: str | None, site: str) -> bool:
    """Tell whether a browser, if it is one, shows a page of ours: other sites can reach this machine through it, by
    posting to it or by pointing a name of their own at it."""
    parsed = HOST.fullmatch(host)
    if parsed is None or not is_loopback(parsed.group(1).lower()):
        return False
    page = None if origin is None else ORIGIN.fullmatch(origin)
    same = origin is None or (page is not None and page.group(1) == host)
    return same and site in ("none", "same-origin")


def _unauthorised(message: str) -> Refusal:
    return Refusal(401, "unauthorised", message, headers={"WWW-Authenticate": "Bearer"})
