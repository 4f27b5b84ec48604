"""OIDC: bearer tokens signed by somebody you trust. Needs the extra `oidc` (PyJWT)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from holdfast.errors import InvalidInput
from holdfast.server.keys import RIGHTS, Caller, Role
from holdfast.server.settings import Settings
from holdfast.store import MAX_NAME

ALGORITHMS = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "EdDSA"]  # never HMAC, never "none"
SPACE_CLAIM, ROLE_CLAIM = "holdfast_space", "holdfast_role"


class TokenVerifier:
    """Checks signature, issuer, audience and expiry; reads the space and role from the token's claims."""

    def __init__(self, settings: Settings) -> None:
        if not settings.jwt_issuer or not settings.jwt_audience:
            raise InvalidInput("OIDC needs HOLDFAST_JWT_ISSUER and HOLDFAST_JWT_AUDIENCE beside HOLDFAST_JWT_KEYS_URL")
        try:
            import jwt
        except ImportError:
            raise InvalidInput("OIDC needs PyJWT: pip install 'holdfast[oidc]'") from None
        self._jwt = jwt
        self._settings = settings
        self._keys = jwt.PyJWKClient(settings.jwt_keys_url, cache_keys=True, max_cached_keys=64, timeout=5)

    async def verify(self, token: str) -> Caller | None:
        """Return whose token it is, or None if it proves nothing."""
        try:
            claims = await asyncio.to_thread(self._decode, token)
        except self._jwt.PyJWTError:
            return None
        space, role = claims.get(SPACE_CLAIM), claims.get(ROLE_CLAIM, "reader")
        if not isinstance(space, str) or not isinstance(role, str) or role not in RIGHTS:
            return None
        if not 0 < len(space) <= MAX_NAME or not space.isprintable() or space.startswith("holdfast:"):
            return None
        return Caller(f"oidc:{claims['sub']}"[:200], space, cast(Role, role))

    def _decode(self, token: str) -> dict[str, Any]:
        key = self._keys.get_signing_key_from_jwt(token)
        claims: dict[str, Any] = self._jwt.decode(
            token,
            key.key,
            algorithms=ALGORITHMS,
            audience=self._settings.jwt_audience,
            issuer=self._settings.jwt_issuer,
            options={"require": ["exp", "sub", "iss", "aud"]},
        )
        return claims
