"""A store on the other side of HTTP, blocking and async. Everything above the port runs unchanged on top of it."""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from strongroom.bridge import finish
from strongroom.client.retry import PATIENCE_SECONDS, SILENT_SECONDS, WHO, Request, Retry, foreign, no_server
from strongroom.client.times import KNOWN_SECONDS, ServerTime
from strongroom.errors import InvalidInput, SchemaMismatch
from strongroom.operations import Operation
from strongroom.protocol import wire
from strongroom.protocol.paging import Reading
from strongroom.protocol.wire import HEAD_BYTES, UPLOAD
from strongroom.store import Answer, AnyQuestion, Commit, Durability, Find, Found, Key, Receipt

try:
    import httpx
except ImportError:
    raise InvalidInput("connecting to a server needs httpx: pip install 'strongroom[client]'") from None

ABOUT = Request(WHO, method="GET")
LONG_POLL_SECONDS = 20.0
CONNECT_SECONDS = 5.0  # to reach an address at all
LAST_PORT = 65535
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class _Known:
    """What both kinds know of their server."""

    _http: httpx.Client | httpx.AsyncClient
    _retry_seconds: float | None
    _silent = True  # nothing has answered yet

    def __init__(self, about: wire.About) -> None:
        self._silent = False
        self.space = about.space
        self.role = about.role
        self.durability: Durability = about.durability
        self._time = ServerTime(about.now_ns)

    def __repr__(self) -> str:
        url = self._http.base_url
        return f"{type(self).__name__}('{url.scheme}://{url.netloc.decode()}')"  # netloc: without a password

    def _about(self, answer: bytes) -> wire.About:
        try:
            told: wire.About = wire.load(answer, wire.About)
        except SchemaMismatch:
            raise no_server(str(self._http.base_url), "what answered there speaks of something else") from None
        return told

    def _retry(self, request: Request) -> Retry:
        server, keyless = str(self._http.base_url).rstrip("/"), "Authorization" not in self._http.headers
        patience = PATIENCE_SECONDS if self._retry_seconds is None else self._retry_seconds
        # Whoever names a time means it of the first answer as well: a worker that starts beside its server.
        silence = SILENT_SECONDS if self._silent and self._retry_seconds is None else None
        return Retry(request, patience, server=server, keyless=keyless, silent_seconds=silence)


class HttpStore(_Known):
    """A blocking store. Safe to share between threads."""

    _http: httpx.Client

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        retry_seconds: float | None = None,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self._http = httpx.Client(**_options(url, key, ca_file))
        self._retry_seconds = retry_seconds
        try:
            about = self._about(self.send(ABOUT))
        except BaseException:
            self._http.close()
            raise
        super().__init__(about)
        if about.searchable:
            self.search = self._search

    def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        if not questions:
            return []
        reading = Reading(questions)
        while asked := reading.next():
            reading.answered(asked, self.send(_reading(asked)))
        return reading.answers()

    def commit(self, commit: Commit) -> Receipt:
        request = _committing(commit)
        made: Receipt = _made(request, self.send(request), Receipt)
        return made

    def perform(self, operation: Operation) -> Receipt | None:
        """Have the server make an operation of a service. None: it is for the caller to decide."""
        request = _performing(operation, self._time)
        made: Receipt | None = _made(request, self.send(request), Receipt | None)
        return made

    def new_id(self) -> str:
        """Return an id of ours by the server's time."""
        if self._time.is_old:
            self._time.told(self._about(self.send(ABOUT)).now_ns)
        return self._time.new_id()

    def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        end = time.monotonic() + timeout_seconds
        while (left := end - time.monotonic()) > 0 and not wire.load(self.send(_waiting(key, length, left)), bool):
            pass

    def _search(self, find: Find) -> Found:
        found: Found = wire.load(self.send(Request("/store/search", wire.dump(find))), Found)
        return found

    def send(self, request: Request) -> bytes:
        """Send a request until it is answered, or patience ends."""
        retry = self._retry(request)
        while True:
            try:
                with _body(request) as body:
                    answer = self._http.request(**_fields(request), content=body)
            except (httpx.RequestError, RuntimeError) as error:
                pause: float | None = _unanswered(error, retry)
            else:
                pause = retry.answered(answer.status_code, answer.headers, answer.content)
                if pause is None:
                    return answer.content
            time.sleep(pause or 0)
            retry.rested()

    def close(self) -> None:
        self._http.close()


class AsyncHttpStore(_Known):
    """The same store for an event loop. Made by `open`."""

    _http: httpx.AsyncClient
    search: Callable[[Find], Awaitable[Found]]  # only if the server's store can

    def __init__(self, http: httpx.AsyncClient, retry_seconds: float | None) -> None:
        self._http = http
        self._retry_seconds = retry_seconds

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        key: str | None = None,
        retry_seconds: float | None = None,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> AsyncHttpStore:
        store = cls(httpx.AsyncClient(**_options(url, key, ca_file)), retry_seconds)
        try:
            about = store._about(await store.send(ABOUT))
        except BaseException:
            await store._http.aclose()
            raise
        _Known.__init__(store, about)
        if about.searchable:
            store.search = store._search
        return store

    async def read(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        if not questions:
            return []
        reading = Reading(questions)
        while asked := reading.next():
            reading.answered(asked, await self.send(_reading(asked)))
        return reading.answers()

    async def commit(self, commit: Commit) -> Receipt:
        """Apply a commit, all or nothing. A cancelled caller waits until it has landed or failed."""
        request = _committing(commit)
        made: Receipt = _made(request, await finish(self.send(request)), Receipt)
        return made

    async def perform(self, operation: Operation) -> Receipt | None:
        """See `HttpStore.perform`. A cancelled caller waits, as with `commit`."""
        request = _performing(operation, self._time)
        made: Receipt | None = _made(request, await finish(self.send(request)), Receipt | None)
        return made

    async def new_id(self) -> str:
        """Return an id of ours by the server's time."""
        if self._time.is_old:
            self._time.told(self._about(await self.send(ABOUT)).now_ns)
        return self._time.new_id()

    async def wait(self, key: Key, length: int, timeout_seconds: float) -> None:
        end = time.monotonic() + timeout_seconds
        while (left := end - time.monotonic()) > 0:
            if wire.load(await self.send(_waiting(key, length, left)), bool):
                return

    async def _search(self, find: Find) -> Found:
        found: Found = wire.load(await self.send(Request("/store/search", wire.dump(find))), Found)
        return found

    async def send(self, request: Request) -> bytes:
        """Send a request until it is answered, or patience ends."""
        retry = self._retry(request)
        while True:
            try:
                with _body(request) as body:
                    content = body if body is None or isinstance(body, bytes) else _each(body)
                    answer = await self._http.request(**_fields(request), content=content)
            except (httpx.RequestError, RuntimeError) as error:
                pause: float | None = _unanswered(error, retry)
            else:
                pause = retry.answered(answer.status_code, answer.headers, answer.content)
                if pause is None:
                    return answer.content
            await asyncio.sleep(pause or 0)
            retry.rested()

    async def close(self) -> None:
        await self._http.aclose()


def _options(url: str, key: str | None, ca_file: str | os.PathLike[str] | None) -> dict[str, Any]:
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"a server's address begins with http:// or https://, not {url!r:.80}")
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError) as problem:
        raise InvalidInput(f"{url!r:.80} is no address ({problem})") from None
    if address.port is not None and not 0 < address.port <= LAST_PORT:
        raise InvalidInput(f"{url!r:.80} is no address: there is no port {address.port}, they are 1 to {LAST_PORT}")
    if address.query or address.fragment:
        raise InvalidInput(f"a server's address ends before ? and #, unlike {url!r:.80}")
    if key is not None and not key.strip():
        raise InvalidInput("the key is empty; leave it out where a server needs none", path="key")
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise InvalidInput("a key is printable ASCII without spaces, as `strongroom keys create` shows it", path="key")
    return {
        "base_url": url.rstrip("/"),
        "headers": {} if key is None else {"Authorization": f"Bearer {key}"},
        "limits": httpx.Limits(max_connections=256, max_keepalive_connections=64),
        "trust_env": False,  # no proxy, and no password of a .netrc
        "verify": _authorities(url, ca_file),
    }


def _authorities(url: str, ca_file: str | os.PathLike[str] | None) -> bool | ssl.SSLContext:
    """Return whose certificates are accepted: of those that are named, here or in the variables that every program goes
    by, or else of the public ones."""
    if not url.startswith("https://"):
        if ca_file:
            raise InvalidInput("ca_file goes with an https:// address; nothing was opened")
        return False  # to load certificates takes longer than all else about connecting
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    where = "SSL_CERT_FILE" if file else "SSL_CERT_DIR"
    if ca_file:
        file, folder, where = os.fspath(ca_file), None, "ca_file"
    if not file and not folder:
        return True
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as problem:
        raise InvalidInput(
            f"{file or folder} holds no certificates that can be read ({problem.strerror or problem}); "
            "nothing was opened",
            path=where,
        ) from None


def _fields(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.path,
        "headers": {"Content-Type": request.media} if request.body is not None else {},
        "timeout": httpx.Timeout(request.timeout_seconds, connect=CONNECT_SECONDS),
    }


def _unanswered(error: httpx.RequestError | RuntimeError, retry: Retry) -> float:
    """Return the pause after a try that brought no answer, or raise what is then to be said."""
    if isinstance(error, httpx.TransportError):
        return retry.lost(error, sent=not isinstance(error, _NEVER_SENT), late=isinstance(error, httpx.ReadTimeout))
    if isinstance(error, httpx.RequestError):
        raise retry.garbled(error) from error
    if "closed" in str(error):
        raise retry.closed() from None
    raise error


def _made(request: Request, answer: bytes, kind: Any) -> Any:
    """Read the receipt of what was asked for."""
    try:
        return wire.load(answer, kind)
    except SchemaMismatch as problem:
        raise foreign(request, str(problem)) from None


def _reading(questions: Sequence[AnyQuestion]) -> Request:
    return Request("/store/read", wire.dump_questions(questions))


def _committing(commit: Commit) -> Request:
    known = math.inf if commit.keep else KNOWN_SECONDS
    return Request("/store/commit", wire.dump_commit(commit), commit_id=commit.id, known_seconds=known)


def _performing(operation: Operation, clock: ServerTime) -> Request:
    told, id = wire.dump_operation(operation), operation.commit_id
    assert id is not None
    known = clock.known_seconds(id)
    if operation.source is None:
        return Request("/store/perform", told, commit_id=id, known_seconds=known)
    head = len(told).to_bytes(HEAD_BYTES, "big") + told
    return Request("/store/upload", head, UPLOAD, commit_id=id, known_seconds=known, source=operation.source)


@contextmanager
def _body(request: Request) -> Iterator[bytes | Iterator[bytes] | None]:
    """Offer what a request sends, from its beginning at each try."""
    if request.source is None:
        yield request.body
        return
    with request.source() as chunks:
        yield chain([request.body or b""], chunks)


async def _each(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _waiting(key: Key, length: int, left: float) -> Request:
    poll = min(left, LONG_POLL_SECONDS)
    return Request("/store/wait", wire.dump(wire.Waiting(key, length, poll)), timeout_seconds=poll + 30.0)
