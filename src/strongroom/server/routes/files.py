"""Files: a path to text. A path has slashes, so it is a parameter or part of a body, never of an address."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from strongroom.server.request import Limit, Natural, Request
from strongroom.server.responses import reply
from strongroom.server.router import Endpoints
from strongroom.server.versions import tag
from strongroom.services.files.erasure import Erased
from strongroom.services.files.values import File, FileHit, FileInfo, FileVersion

endpoint = Endpoints("files")


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
    """`degraded` says what there was no room to look at, and what is damaged."""

    hits: list[FileHit]
    degraded: str | None = None


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


@endpoint("GET /files", "read", "List files")
async def list_files(request: Request[None, ListQuery]) -> FilePage:
    query = request.query
    found = await request.fewer(
        query.limit, lambda limit: request.ctx.files.list(query.folder, after=query.after, limit=limit)
    )
    return FilePage(list(found), found.next, found.damaged)


@endpoint("GET /files/text", "read", "Read a file, now or as it was", answer=File)
async def read(request: Request[None, ReadQuery]) -> Response:
    path, version = request.query.path, request.query.version
    file = await (request.ctx.files.read(path) if version is None else request.ctx.files.at(path, version))
    return reply(file, headers=tag(file.version))


@endpoint("GET /files/history", "read", "List versions")
async def history(request: Request[None, HistoryQuery]) -> VersionPage:
    query = request.query
    found = await request.fewer(
        query.limit, lambda limit: request.ctx.files.history(query.path, after=query.after, limit=limit)
    )
    return VersionPage(list(found), found.next)


@endpoint("GET /files/search", "read", "Find files by their words")
async def search(request: Request[None, SearchQuery]) -> Hits:
    found = await request.ctx.files.search(request.query.q, folder=request.query.folder, k=request.query.k)
    return Hits(list(found), found.degraded)


@endpoint("PUT /files", "write", "Write a file", answer=FileInfo)
async def write(request: Request[NewText, None]) -> Response:
    wanted = request.content
    made = await request.ctx.files.write(
        wanted.path, wanted.text, expected_version=wanted.expected_version, commit_id=request.commit_id
    )
    return reply(made, headers=tag(made.version))


@endpoint("POST /files/restore", "write", "Bring a version back", answer=FileInfo)
async def restore(request: Request[Restoring, None]) -> Response:
    wanted = request.content
    made = await request.ctx.files.restore(
        wanted.path, wanted.version, expected_version=wanted.expected_version, commit_id=request.commit_id
    )
    return reply(made, headers=tag(made.version))


@endpoint("POST /files/rename", "write", "Move a file or a folder")
async def rename(request: Request[Renaming, None]) -> Count:
    wanted = request.content
    return Count(
        await request.ctx.files.rename(
            wanted.path, wanted.to, expected_version=wanted.expected_version, commit_id=request.commit_id
        )
    )


@endpoint("POST /files/delete", "write", "Delete a file or a folder")
async def delete(request: Request[Deleting, None]) -> Count:
    wanted = request.content
    return Count(
        await request.ctx.files.delete(
            wanted.path,
            recursive=wanted.recursive,
            expected_version=wanted.expected_version,
            commit_id=request.commit_id,
        )
    )


@endpoint("POST /files/erase", "admin", "Erase what a path ever said")
async def erase(request: Request[Erasing, None]) -> Erased:
    return await request.ctx.files.erase(request.content.path, commit_id=request.commit_id)
