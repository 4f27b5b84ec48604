"""OIDC: bearer tokens signed by somebody you trust. Needs the extra `oidc` (PyJWT)."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, cast

from strongroom.errors import InvalidInput
from strongroom.server.keys import RIGHTS, Caller, Role
from strongroom.server.settings import Settings
from strongroom.store import MAX_NAME

log = logging.getLogger("strongroom.server")

ALGORITHMS = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "EdDSA"]  # never HMAC, never "none"
KEPT_SECONDS = 300.0
PAUSE_SECONDS = 10.0
LONGEST_SUBJECT = 100
SPACE_CLAIM, ROLE_CLAIM = "strongroom_space", "strongroom_role"


class IssuerKeys:
    """The keys an issuer publishes, by their names.

    They are fetched when a token names one that is not known, which is how an issuer introduces a new key, and now and
    then, which is how it takes one back. Anybody can make up names, so it is asked at most every few seconds; while it
    cannot be reached, what it said last holds.
    """

    def __init__(self, fetch: Callable[[], Iterable[Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str | None, Any] = {}
        self._asked = -math.inf
        self._lock = threading.Lock()

    def get(self, name: str | None) -> Any:
        """Return the key of this name, or None."""
        with self._lock:
            age = self._clock() - self._asked
            if age > KEPT_SECONDS or (name not in self._keys and age > PAUSE_SECONDS):
                self._asked = self._clock()
                try:
                    self._keys = {key.key_id: key for key in self._fetch()}
                except Exception:
                    log.warning("the keys of the token issuer could not be fetched")
        return self._keys.get(name)


def name_of(subject: str) -> str:
    """Return what somebody is called here. Two people never have one name, however long theirs are."""
    if len(subject) <= LONGEST_SUBJECT and subject.isprintable():
        return f"oidc:{subject}"
    return f"oidc#{sha256(subject.encode(errors='surrogatepass')).hexdigest()}"


def is_subject(name: str) -> bool:
    """Tell whether somebody is called so because of a token; names of keys are hexadecimal."""
    return name.startswith(("oidc:", "oidc#"))


class TokenVerifier:
    """Checks signature, issuer, audience and expiry; reads the space and role from the token's claims."""

    def __init__(self, settings: Settings) -> None:
        if not settings.jwt_issuer or not settings.jwt_audience:
            raise InvalidInput(
                "OIDC needs STRONGROOM_JWT_ISSUER and STRONGROOM_JWT_AUDIENCE beside STRONGROOM_JWT_KEYS_URL"
            )
        try:
            import jwt
        except ImportError:
            raise InvalidInput("OIDC needs PyJWT: pip install 'strongroom[oidc]'") from None
        self._jwt = jwt
        self._settings = settings
        self._keys = IssuerKeys(jwt.PyJWKClient(settings.jwt_keys_url, cache_jwk_set=False, timeout=5).get_signing_keys)

    async def verify(self, token: str) -> Caller | None:
        """Return whose token it is, or None if it proves nothing."""
        try:
            claims = await asyncio.to_thread(self._decode, token)
        except Exception as problem:  # PyJWT passes on what a key of another kind than the header says raises
            if not isinstance(problem, self._jwt.PyJWTError):
                log.info("a token could not be looked at: %s", type(problem).__name__)
            return None
        space, role = claims.get(SPACE_CLAIM), claims.get(ROLE_CLAIM, "reader")
        if not isinstance(space, str) or not isinstance(role, str) or role not in RIGHTS:
            return None
        if not 0 < len(space) <= MAX_NAME or not space.isprintable() or space.startswith("strongroom:"):
            return None
        return Caller(name_of(str(claims["sub"])), space, cast(Role, role))

    def _decode(self, token: str) -> dict[str, Any]:
        key = self._keys.get(self._jwt.get_unverified_header(token).get("kid"))
        if key is None:
            raise self._jwt.InvalidTokenError
        claims: dict[str, Any] = self._jwt.decode(
            token,
            key.key,
            algorithms=ALGORITHMS,
            audience=self._settings.jwt_audience,
            issuer=self._settings.jwt_issuer,
            options={"require": ["exp", "sub", "iss", "aud"]},
        )
        return claims
