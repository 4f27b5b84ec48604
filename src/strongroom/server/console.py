"""The console's files: one page and what it loads, from this server alone.

Whatever agents stored is shown there, so the policy lets nothing run but the files of this package, and Trusted Types
keep text from ever becoming markup. The files hold no data: what is seen comes through the API, with the caller's key.
"""

from __future__ import annotations

import os
from pathlib import Path

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parents[1] / "console" / "static"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
}


class ConsoleFiles(StaticFiles):
    """Files that are asked for anew after every update of the package, and not sent again if they are the same."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        return response


def console() -> list[BaseRoute]:
    """Return the routes of the console: the page at the root, its files beside it."""

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    # The same for everybody, so how well they compress tells nothing; answers with data are not compressed.
    return [Route("/", page), Mount("/console", GZipMiddleware(ConsoleFiles(directory=STATIC), minimum_size=1_000))]
