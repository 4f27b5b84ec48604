"""One prompt out of everything that is known."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from strongroom.server.request import Natural, Request
from strongroom.server.router import Endpoints
from strongroom.services.prompt.values import Prompt

endpoint = Endpoints("prompt", keyed=False)  # it only reads

MOST_TOKENS = 10_000_000  # more than any model reads, less than what fills a server


class NewPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    max_tokens: Annotated[int, Meta(ge=0, le=MOST_TOKENS)]
    session_id: str | None = None
    run_id: str | None = None
    query: str | None = None
    system: str | None = None
    tools: list[Any] | dict[str, Any] = []
    model: str | None = None
    format: Literal["openai", "responses", "anthropic", "gemini"] = "openai"
    reserve_tokens: Natural = 0
    shares: dict[str, float] | None = None
    user_id: str | None = None
    project_id: str | None = None
    state: bool = False


@endpoint("POST /prompt", "read", "A prompt in the shape of a provider")
async def prompt(request: Request[NewPrompt, None]) -> Prompt:
    wanted = msgspec.structs.asdict(request.content)
    return await request.ctx.prompt(session=wanted.pop("session_id"), run=wanted.pop("run_id"), **wanted)
