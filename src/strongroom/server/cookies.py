"""A key that a browser keeps: in a cookie, if a person asks for that, and as good as the key in a header.

Rules
-----
1. The server stores nothing about it. The cookie holds the key itself, so it ends when the key does, and whoever signs
   out has the browser drop it.
2. No script can read it (`HttpOnly`), and no page of another site has it sent along (`SameSite=Strict`). Over https it
   is sent over https alone (`Secure`, and a name with `__Host-`, which no other host of the domain can give out),
   and no other name is taken.
3. A browser adds it by itself, so a request must also come from a page of this server. What the browser says in
   `Sec-Fetch-Site` decides, and where it says nothing (plain http to another machine) `Origin` against `Host`; a
   request that could change something has to say one of the two. Neighbours on the same domain are another site, and
   CORS never allows credentials: a page that is named in STRONGROOM_ALLOWED_ORIGINS still sends a key of its own.

Cookies know nothing of ports, but two servers on one machine do: the port is part of the name.
"""

from __future__ import annotations

import re

from starlette.requests import HTTPConnection

from strongroom.server.settings import is_loopback

NAME = "strongroom"
SECURE = "__Host-"
KEPT_SECONDS = 7 * 24 * 60 * 60
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
KEY = re.compile(r"srk_[0-9A-Za-z]{1,64}\.[0-9A-Za-z]{1,128}")
PORT = re.compile(r":([0-9]{1,5})$")


def kept_key(request: HTTPConnection) -> str | None:
    """Return the key that the browser keeps for this server; None if there is none, or more than one."""
    text = request.headers.get("cookie", "")
    plain = () if _is_https(request) else (_name(request),)  # any neighbour on the domain could have given that one out
    for name in (SECURE + _name(request), *plain):
        found = [value for each, _, value in (part.strip().partition("=") for part in text.split(";")) if each == name]
        if found:
            return found[0] if len(found) == 1 and KEY.fullmatch(found[0]) else None
    return None


def is_from_this_server(request: HTTPConnection, *, must_say: bool) -> bool:
    """Tell whether a page of ours made this request; if it need not say so, also a person with the address bar."""
    headers = request.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site == "same-origin" or (site == "none" and not must_say)
    if origin is not None:
        return origin.partition("://")[2].lower() == headers.get("host", "").lower() != ""
    return not must_say


def keep(request: HTTPConnection, key: str) -> str:
    """Return the header that has the browser keep a key."""
    return _cookie(request, _is_https(request), key, KEPT_SECONDS)


def drop(request: HTTPConnection) -> list[str]:
    """Return the headers that have the browser drop it, however it was kept."""
    return [_cookie(request, secure, "", 0) for secure in (True, False)]


def _cookie(request: HTTPConnection, secure: bool, value: str, seconds: int) -> str:
    name = (SECURE if secure else "") + _name(request)
    flags = "HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
    return f"{name}={value}; Path=/; Max-Age={seconds}; {flags}"


def _is_https(request: HTTPConnection) -> bool:
    """Tell whether the browser speaks https, be it to a proxy.

    It says of which site a page is over https alone, and to its own machine.
    """
    headers = request.headers
    if request.url.scheme == "https" or headers.get("x-forwarded-proto", "").lower().startswith("https"):
        return True
    if headers.get("origin", "").lower().startswith("https://") and is_from_this_server(request, must_say=True):
        return True
    host = PORT.sub("", headers.get("host", "")).lower()
    return "sec-fetch-site" in headers and not (is_loopback(host.strip("[]")) or host.endswith(".localhost"))


def _name(request: HTTPConnection) -> str:
    port = PORT.search(request.headers.get("host", ""))
    return NAME if port is None else f"{NAME}-{port.group(1)}"
