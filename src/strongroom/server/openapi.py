"""The OpenAPI description, made from the table of endpoints, and the page that shows it.

Its examples were recorded from a server that really answered (`make docs`), so they are true and can be tried. The page
comes from this server alone: scripts from elsewhere would show nothing without the internet, and whoever controls that
place could speak to a server that trusts this machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

import strongroom
from strongroom.server.paths import PathRoute
from strongroom.server.request import Nothing
from strongroom.server.responses import JSON
from strongroom.server.router import Endpoint

REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")

ERROR = {
    "type": "object",
    "required": ["ok", "error", "code", "id"],
    "properties": {
        "ok": {"const": False},
        "error": {"type": "string", "description": "what was wrong, what was expected, and whether anything changed"},
        "code": {"type": "string", "description": "a stable word for the kind of problem"},
        "id": {"type": "string", "description": "look for this in the server's log"},
        "expected": {"type": ["integer", "null"], "description": "of every 409: the version the caller saw, if any"},
        "actual": {"type": ["integer", "null"], "description": "of every 409: the version there is, if any"},
        "help": {"type": "string", "description": "the command that says why, and what to do"},
        "details": {"type": "object"},
    },
}


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the whole document."""
    kinds = [kind for each in endpoints for kind in (each.body, each.answer, each.query) if _is_typed(kind)]
    unique = list(dict.fromkeys(kinds))
    schemas, components = msgspec.json.schema_components(unique, ref_template=REF)
    schema_of = dict(zip(unique, schemas, strict=True))
    paths: dict[str, Any] = {}
    for each in endpoints:
        path = _PARAMETER.sub(r"{\1}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _operation(each, schema_of, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Strongroom", "version": strongroom.__version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "srk_<name>.<secret>"}},
        },
    }


ABOUT = (
    "Everything an AI agent knows, over HTTP. The space (tenant) comes from the key, never from the request. "
    "`If-Match` with the ETag of a run, a file or a session says which version you saw; "
    "`Idempotency-Key` makes a repeat safe."
)


@cache
def examples() -> dict[str, Any]:
    """Return, by method and path, what was asked (`path`, `query`, `body`) and the `answer`."""
    found: dict[str, Any] = msgspec.json.decode((files("strongroom.server") / "examples.json").read_bytes())
    return found


def _operation(each: Endpoint, schema_of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    example = examples().get(f"{each.method} {each.path}", {})
    answer: dict[str, Any] = {"schema": schema_of.get(each.answer, {})}
    if "answer" in example:
        answer["example"] = example["answer"]
    operation: dict[str, Any] = {
        "summary": each.summary,
        "tags": [each.group],
        "operationId": f"{each.method.lower()}_{re.sub(r'[^a-z0-9]+', '_', each.path.lower()).strip('_')}",
        "parameters": [
            parameter | _shown(parameter["name"], example.get(parameter["in"], {}))
            for parameter in (*_path_parameters(each), *_query_parameters(each, schema_of, components), *_headers(each))
        ],
        "responses": {
            "200": {"description": "done", "content": {each.media: answer}},
            "default": {
                "description": "refused",
                "content": {"application/json": {"schema": {"$ref": REF.format(name="Error")}}},
            },
        },
    }
    if each.right is not None:
        operation["security"] = [{"key": []}, {}]
        operation["description"] = f"Needs the right to {each.right}."
    if each.accepts != JSON:
        operation["requestBody"] = {
            "required": True,
            "content": {each.accepts: {"schema": {"type": "string", "format": "binary"}}},
        }
    elif each.body is not None:
        content = {"schema": schema_of[each.body], **_shown("body", example)}
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    return operation


def _shown(name: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"example": given[name]} if name in given else {}


def _path_parameters(each: Endpoint) -> list[dict[str, Any]]:
    name_schema = {"type": "string", "minLength": 1, "maxLength": 255}
    number = {"type": "integer", "minimum": 0}
    return [
        {
            "name": match.group(1),
            "in": "path",
            "required": True,
            "schema": number if match.group(0).endswith(":int}") else name_schema,
        }
        for match in _PARAMETER.finditer(each.path)
    ]


def _query_parameters(each: Endpoint, schema_of: dict[Any, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    if each.query is Nothing:
        return []
    schema = components[schema_of[each.query]["$ref"].rpartition("/")[2]]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": part}
        for name, part in schema["properties"].items()
    ]


def _headers(each: Endpoint) -> list[dict[str, Any]]:
    if not each.keyed or each.method == "GET":
        return []
    text = (
        "Choose one for each thing you want done, and use it again if no answer came: it is done once. "
        "Another body under the same key is refused."
    )
    schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[ -~]+$"}
    return [{"name": "Idempotency-Key", "in": "header", "required": False, "description": text, "schema": schema}]


def _is_typed(kind: Any) -> bool:
    return kind is not None and kind is not Nothing


# ---- the page -------------------------------------------------------------------------------------------------------

ASSETS = "/docs/assets"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Strongroom</title>
<link rel="stylesheet" href="{base}{assets}/swagger-ui.css">
<link rel="icon" href="{base}{assets}/favicon-32x32.png">
</head><body><div id="swagger-ui"></div>
<script src="{base}{assets}/swagger-ui-bundle.js"></script>
<script>SwaggerUIBundle({{url: '{base}/openapi.json', dom_id: '#swagger-ui', deepLinking: true}})</script>
</body></html>"""
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data:; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def documentation(endpoints: Sequence[Endpoint]) -> list[BaseRoute]:
    """Return the routes of the description and its page."""

    @cache
    def described() -> bytes:  # when somebody asks: it takes longer than all else about starting
        return msgspec.json.encode(describe(endpoints))

    async def description(_: Request) -> Response:
        return Response(described(), media_type=JSON)

    async def page(request: Request) -> Response:
        text = PAGE.format(base=quote(request.scope.get("root_path", "")), assets=ASSETS)
        return Response(text, media_type="text/html", headers={"Content-Security-Policy": POLICY})

    return [
        PathRoute("/openapi.json", description),
        PathRoute("/docs", page),
        PathRoute("/redoc", page),  # where users of older servers look for it
        Mount(ASSETS, StaticFiles(packages=[("swagger_ui", "static")])),
    ]
