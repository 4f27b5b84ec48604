"""A store on the other side of HTTP, in both colours. Everything above the port runs unchanged on top of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from strongroom.client import wire
from strongroom.client.paging import Reading
from strongroom.client.trying import Ask, Tries
from strongroom.errors import Closed, InvalidInput
from strongroom.store import Commit, Durability, Find, Found, Key, Question, Receipt

try:
    import httpx
except ImportError:
    raise InvalidInput("connecting to a server needs httpx: pip install 'strongroom[client]'") from None

ABOUT = Ask("/store", method="GET")
LONG_POLL_SECONDS = 20.0
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class _Known:
    """What both colours know of their server."""

    _http: httpx.Client | httpx.AsyncClient

    def __init__(self, about: wire.About) -> None:
        self.space = about.space
        self.durability: Durability = about.durability

    def __repr__(self) -> str:
        url = self._http.base_url
        return f"{type(self).__name__}('{url.scheme}://{url.netloc.decode()}')"  # netloc: without a password


class HttpStore(_Known):
    """A blocking store. Safe to share between threads."""

    _http: httpx.Client

    def __init__(self, url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> None:
        self._http = httpx.Client(**_options(url, key))
        self._retry_seconds = retry_seconds
        try:
            about = wire.load(self.ask(ABOUT), wire.About)
        except BaseException:
            self._http.close()
            raise
        super().__init__(about)
        if about.searchable:
            self.search = self._search

    def read(self, questions: Sequence[Question]) -> list[Any]:
        if not questions:
            return []
        reading = Reading(questions)
        while asked := reading.next():
            reading.answered(asked, self.ask(_reading(asked)))
        return reading.answers()

    def commit(self, commit: Commit) -> Receipt:
        made: Receipt = wire.load(self.ask(_committing(commit)), Receipt)
        return made

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        end = time.monotonic() + timeout_seconds
        while (left := end - time.monotonic()) > 0 and not wire.load(self.ask(_waiting(key, length, left)), bool):
            pass

    def _search(self, find: Find) -> Found:
        found: Found = wire.load(self.ask(Ask("/store/search", wire.dump(find))), Found)
        return found

    def ask(self, ask: Ask) -> bytes:
        """Send a request until it is answered, or patience ends."""
        tries = Tries(ask, self._retry_seconds, server=str(self._http.base_url).rstrip("/"))
        while True:
            try:
                answer = self._http.request(**_request(ask))
            except httpx.TransportError as error:
                pause: float | None = tries.lost(error, sent=not isinstance(error, _NEVER_SENT))
            except RuntimeError as error:
                raise _closed(error, ask) from None
            else:
                pause = tries.answered(answer.status_code, answer.headers, answer.content)
                if pause is None:
                    return answer.content
            time.sleep(pause or 0)

    def close(self) -> None:
        self._http.close()


class AsyncHttpStore(_Known):
    """The same store for an event loop. Made by `open`."""

    _http: httpx.AsyncClient
    search: Callable[[Find], Awaitable[Found]]  # only if the server's store can

    def __init__(self, http: httpx.AsyncClient, retry_seconds: float) -> None:
        self._http = http
        self._retry_seconds = retry_seconds

    @classmethod
    async def open(cls, url: str, *, key: str | None = None, retry_seconds: float = 15.0) -> AsyncHttpStore:
        store = cls(httpx.AsyncClient(**_options(url, key)), retry_seconds)
        try:
            about = wire.load(await store.ask(ABOUT), wire.About)
        except BaseException:
            await store._http.aclose()
            raise
        _Known.__init__(store, about)
        if about.searchable:
            store.search = store._search
        return store

    async def read(self, questions: Sequence[Question]) -> list[Any]:
        if not questions:
            return []
        reading = Reading(questions)
        while asked := reading.next():
            reading.answered(asked, await self.ask(_reading(asked)))
        return reading.answers()

    async def commit(self, commit: Commit) -> Receipt:
        # A cancelled caller waits until its commit has landed or failed, as with every other store.
        asking = asyncio.ensure_future(self.ask(_committing(commit)))
        try:
            made: Receipt = wire.load(await asyncio.shield(asking), Receipt)
        except asyncio.CancelledError:
            await asyncio.wait({asking})
            asking.exception()
            raise
        return made

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        end = time.monotonic() + timeout_seconds
        while (left := end - time.monotonic()) > 0:
            if wire.load(await self.ask(_waiting(key, length, left)), bool):
                return

    async def _search(self, find: Find) -> Found:
        found: Found = wire.load(await self.ask(Ask("/store/search", wire.dump(find))), Found)
        return found

    async def ask(self, ask: Ask) -> bytes:
        """Send a request until it is answered, or patience ends."""
        tries = Tries(ask, self._retry_seconds, server=str(self._http.base_url).rstrip("/"))
        while True:
            try:
                answer = await self._http.request(**_request(ask))
            except httpx.TransportError as error:
                pause: float | None = tries.lost(error, sent=not isinstance(error, _NEVER_SENT))
            except RuntimeError as error:
                raise _closed(error, ask) from None
            else:
                pause = tries.answered(answer.status_code, answer.headers, answer.content)
                if pause is None:
                    return answer.content
            await asyncio.sleep(pause or 0)

    async def close(self) -> None:
        await self._http.aclose()


def _options(url: str, key: str | None) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"a server's address begins with http:// or https://, not {url!r:.80}")
    return {
        "base_url": url.rstrip("/"),
        "headers": {} if key is None else {"Authorization": f"Bearer {key}"},
        "limits": httpx.Limits(max_connections=256, max_keepalive_connections=64),
        "trust_env": False,
    }


def _request(ask: Ask) -> dict[str, Any]:
    return {
        "method": ask.method,
        "url": ask.path,
        "content": ask.body,
        "headers": {"Content-Type": ask.media} if ask.body is not None else {},
        "timeout": ask.timeout_seconds,
    }


def _reading(questions: Sequence[Question]) -> Ask:
    return Ask("/store/read", wire.dump_questions(questions))


def _committing(commit: Commit) -> Ask:
    return Ask("/store/commit", wire.dump_commit(commit), commit_id=commit.id)


def _waiting(key: Key, length: int, left: float) -> Ask:
    poll = min(left, LONG_POLL_SECONDS)
    return Ask("/store/wait", wire.dump(wire.Waiting(key, length, poll)), timeout_seconds=poll + 30.0)


def _closed(error: RuntimeError, ask: Ask) -> Exception:
    nothing = "" if ask.commit_id is None else "; nothing changed"
    return Closed(f"this connection is closed{nothing}") if "closed" in str(error) else error


def json_ask(path: str, body: Any, *, method: str = "POST", commit_id: str | None = None) -> Ask:
    """Make a request of the JSON API."""
    return Ask(path, msgspec.json.encode(body), "application/json", method, commit_id)
