"""Errors as clients know them (`detail`) and as they were promised them (`ok`, `error`): one body has both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request

from strongroom.errors import Conflict, NotFound, StoreError, StrongroomError

CONFLICT = "Conflict: State has changed. Reload and retry."


def refused(status: int, detail: Any, error: str) -> JSONResponse:
    return JSONResponse({"ok": False, "error": error, "detail": detail}, status)


async def http_exception_handler(request: Request, problem: HTTPException) -> JSONResponse:
    detail = str(problem.detail)
    return refused(problem.status_code, problem.detail, CONFLICT if detail.startswith("LOCK_ERROR") else detail)


async def validation_exception_handler(request: Request, problem: RequestValidationError) -> JSONResponse:
    told = [{"loc": list(each["loc"]), "msg": each["msg"], "type": each["type"]} for each in problem.errors()]
    return refused(422, told, "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in told))


async def strongroom_exception_handler(request: Request, problem: StrongroomError) -> JSONResponse:
    status = 404 if isinstance(problem, NotFound) else 409 if isinstance(problem, Conflict) else 400
    return refused(503 if isinstance(problem, StoreError) else status, str(problem), str(problem))


async def global_exception_handler(request: Request, exc: Exception) -> JSONResponse:
    """Say that something went wrong, and nothing of what: a traceback is for the log."""
    return refused(500, "internal error", "internal error")


HANDLERS: dict[int | type[Exception], Callable[..., Any]] = {
    HTTPException: http_exception_handler,
    RequestValidationError: validation_exception_handler,
    StrongroomError: strongroom_exception_handler,
    Exception: global_exception_handler,
}
