"""Files: a path to text. A path has slashes, so it is a parameter or part of a body, never of an address."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from strongroom.server.endpoint import Call, Endpoint, Limit, Natural
from strongroom.services.files.erasure import Erased
from strongroom.services.files.values import File, FileHit, FileInfo, FileVersion


class NewText(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    text: str
    expected_version: Natural | None = None


class Restoring(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    version: Natural
    expected_version: Natural | None = None


class Renaming(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    to: str
    expected_version: Natural | None = None


class Erasing(Struct, frozen=True, forbid_unknown_fields=True):
    path: str


class Deleting(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    recursive: bool = False
    expected_version: Natural | None = None


class FilePage(Struct, frozen=True):
    """`damaged` names what belongs on the page and cannot be read."""

    files: list[FileInfo]
    next: str | None
    damaged: tuple[str, ...] = ()


class VersionPage(Struct, frozen=True):
    versions: list[FileVersion]
    next: str | None


class Hits(Struct, frozen=True):
    hits: list[FileHit]


class Count(Struct, frozen=True):
    files: int


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    folder: str = "/"
    after: str | None = None
    limit: Limit = 100


class ReadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    version: Natural | None = None


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    after: str | None = None
    limit: Limit = 100


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: str
    folder: str = "/"
    k: Limit = 5


async def list_files(call: Call[None, ListQuery]) -> FilePage:
    query = call.query
    found = await call.fewer(
        query.limit, lambda limit: call.ctx.files.list(query.folder, after=query.after, limit=limit)
    )
    return FilePage(list(found), found.next, found.damaged)


async def read(call: Call[None, ReadQuery]) -> File:
    path, version = call.query.path, call.query.version
    return await (call.ctx.files.read(path) if version is None else call.ctx.files.at(path, version))


async def history(call: Call[None, HistoryQuery]) -> VersionPage:
    query = call.query
    found = await call.fewer(
        query.limit, lambda limit: call.ctx.files.history(query.path, after=query.after, limit=limit)
    )
    return VersionPage(list(found), found.next)


async def search(call: Call[None, SearchQuery]) -> Hits:
    return Hits(list(await call.ctx.files.search(call.query.q, folder=call.query.folder, k=call.query.k)))


async def write(call: Call[NewText, Any]) -> FileInfo:
    wanted = call.body
    return await call.ctx.files.write(
        wanted.path, wanted.text, expected_version=wanted.expected_version, commit_id=call.commit_id
    )


async def restore(call: Call[Restoring, Any]) -> FileInfo:
    wanted = call.body
    return await call.ctx.files.restore(
        wanted.path, wanted.version, expected_version=wanted.expected_version, commit_id=call.commit_id
    )


async def rename(call: Call[Renaming, Any]) -> Count:
    wanted = call.body
    return Count(
        await call.ctx.files.rename(
            wanted.path, wanted.to, expected_version=wanted.expected_version, commit_id=call.commit_id
        )
    )


async def delete(call: Call[Deleting, Any]) -> Count:
    wanted = call.body
    return Count(
        await call.ctx.files.delete(
            wanted.path,
            recursive=wanted.recursive,
            expected_version=wanted.expected_version,
            commit_id=call.commit_id,
        )
    )


async def erase(call: Call[Erasing, Any]) -> Erased:
    return await call.ctx.files.erase(call.body.path, commit_id=call.commit_id)


def _endpoint(method: str, path: str, call: Any, right: Any, summary: str, **more: Any) -> Endpoint:
    return Endpoint(method=method, path=path, call=call, right=right, summary=summary, group="files", **more)


ENDPOINTS = (
    _endpoint("GET", "/files", list_files, "read", "List files", query=ListQuery, answer=FilePage),
    _endpoint("PUT", "/files", write, "write", "Write a file", body=NewText, answer=FileInfo),
    _endpoint("GET", "/files/text", read, "read", "Read a file, now or as it was", query=ReadQuery, answer=File),
    _endpoint("GET", "/files/history", history, "read", "List versions", query=HistoryQuery, answer=VersionPage),
    _endpoint("GET", "/files/search", search, "read", "Find files by their words", query=SearchQuery, answer=Hits),
    _endpoint("POST", "/files/restore", restore, "write", "Bring a version back", body=Restoring, answer=FileInfo),
    _endpoint("POST", "/files/rename", rename, "write", "Move a file or a folder", body=Renaming, answer=Count),
    _endpoint("POST", "/files/delete", delete, "write", "Delete a file or a folder", body=Deleting, answer=Count),
    _endpoint("POST", "/files/erase", erase, "admin", "Erase what a path ever said", body=Erasing, answer=Erased),
)  # fmt: skip
