"""What assistants send, held against the rules of every other body; what is wrong with it, said as JSON-RPC.

The SDK reads JSON as leniently as Python does, and twice: so each body is looked at here before the SDK sees it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from strongroom.codec import parse, require_few_values
from strongroom.errors import BudgetExceeded, InvalidInput
from strongroom.server.responses import JSON

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603


def objection(raw: bytes) -> Response | None:
    """Return the refusal of a body that no other endpoint would take either, None for a good one."""
    try:
        require_few_values(raw)
        parse(raw)
    except BudgetExceeded as problem:
        return refusal(413, INVALID_REQUEST, str(problem), {"code": problem.code, "limit": problem.limit})
    except InvalidInput as problem:
        return refusal(400, PARSE_ERROR, f"Parse error: {problem}", {"code": problem.code})
    return None


def refusal(
    status: int, number: int, message: str, data: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    """Answer with an error that clients show to whoever uses them. It names no request: none was begun."""
    told = {"jsonrpc": "2.0", "id": None, "error": {"code": number, "message": message, "data": data}}
    return Response(msgspec.json.encode(told), status, headers, JSON)
