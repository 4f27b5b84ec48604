"""Pages for people: the documentation of the API, from this server alone.

FastAPI's own page loads its scripts from elsewhere: nothing to see without the internet, and whoever controls that
place could speak to a server that trusts this machine.
"""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

ASSETS = "/docs/assets"
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_pages(app: FastAPI) -> None:
    """Put the documentation at /docs, and let the root lead there."""
    app.mount(ASSETS, StaticFiles(packages=[("fastapi_swagger", "resources")]))
    app.add_route("/docs", _docs, include_in_schema=False)
    app.add_route("/", _root, include_in_schema=False)


async def _docs(request: Request) -> Response:
    base = request.scope.get("root_path", "")
    page = get_swagger_ui_html(
        openapi_url=f"{base}/openapi.json",
        title=request.app.title,
        swagger_js_url=f"{base}{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{base}{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{base}{ASSETS}/favicon-32x32.png",
    )
    page.headers["content-security-policy"] = POLICY
    return page


async def _root(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/docs")
