"""Ed25519 signatures of pack manifests and of anchors. Needs the extra `signing`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from importlib.util import find_spec
from typing import Any

from strongroom.codec import encode
from strongroom.errors import InvalidInput

# What is signed begins with what it is, so that a signature of one cannot be used for the other.
PACK = b"strongroom/pack/1\0"
ANCHOR = b"strongroom/anchor/1\0"


def pair() -> tuple[bytes, bytes]:
    """Make a signing key: return its private half and its public one, 32 bytes each."""
    _require_extra()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    return key.private_bytes_raw(), key.public_key().public_bytes_raw()


def sign(manifest: dict[str, Any], private_key: bytes, domain: bytes = PACK) -> dict[str, Any]:
    """Return the signature to put into a manifest that has none yet."""
    _require_extra()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = Ed25519PrivateKey.from_private_bytes(private_key)
    except (ValueError, TypeError):
        raise InvalidInput("a signing key must be the 32 bytes of an Ed25519 private key") from None
    return {
        "algorithm": "ed25519",
        "public_key": b64encode(key.public_key().public_bytes_raw()).decode(),
        "value": b64encode(key.sign(domain + encode(manifest))).decode(),
    }


def problem(manifest: dict[str, Any] | None, public_key: bytes | None, domain: bytes = PACK) -> str:
    """Return what is wrong with a manifest's signature ("" if nothing): missing, by another key, or not valid."""
    signature = (manifest or {}).get("signature")
    if signature is None:
        return "it is not signed, and a public key was given" if public_key is not None else ""
    _require_extra()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    assert manifest is not None
    unsigned = {name: value for name, value in manifest.items() if name != "signature"}
    try:
        told = b64decode(signature["public_key"], validate=True)
        if public_key is not None and told != public_key:
            return "it is signed by another key"
        Ed25519PublicKey.from_public_bytes(told).verify(
            b64decode(signature["value"], validate=True), domain + encode(unsigned)
        )
    except (InvalidSignature, ValueError, TypeError, LookupError):
        return "its signature is not valid"
    return ""


def _require_extra() -> None:
    if find_spec("cryptography") is None:
        raise InvalidInput("signatures need `pip install 'strongroom[signing]'`; nothing changed")
