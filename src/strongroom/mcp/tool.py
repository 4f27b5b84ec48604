"""A tool as data: its name, for whom it is, what goes in, what comes out, what it does to the world, and its bound."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, Self

import mcp_types as types
import msgspec
from msgspec import Meta, Struct

from strongroom.allowed import allowed
from strongroom.arguments import beyond
from strongroom.errors import CommitUnknown, Conflict, InvalidInput, StrongroomError
from strongroom.mcp.data import NOTICE, beginning
from strongroom.mcp.elicitation import Elicitation
from strongroom.mcp.principals import Principal, Profile
from strongroom.mcp.schemas import schema_of
from strongroom.store import new_id

KIB = 1024
BOUND = 64 * KIB
ROOM = BOUND - 4 * KIB  # for the items of a list; the rest of an answer is small
ERROR_BYTES = 2 * KIB

Kind = Literal["reads", "adds", "changes", "destroys"]

Id = Annotated[str, Meta(min_length=1, max_length=255)]
CommitId = Annotated[
    str | None,
    Meta(
        description=(
            "Any id of your own. A repeat with the same id changes nothing and gives the first answer again. "
            "After commit_unknown repeat the call with the commit_id that it tells."
        )
    ),
]
After = Annotated[Annotated[str, Meta(max_length=2_000)] | None, Meta(description="`next` of the page before.")]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool takes."""

    def identified(self) -> Self:
        """Return the same with an id: what nobody knows the outcome of can then be repeated."""
        if getattr(self, "commit_id", "") is not None:
            return self
        return msgspec.structs.replace(self, commit_id=new_id())


class Answer(Struct, frozen=True):
    """What a tool gives, if it holds data: the first thing that it says is what that is."""

    notice: str = NOTICE


class ToolRequest(Struct, frozen=True):
    """One call: who makes it, and how the person behind it can be asked."""

    who: Principal
    person: Elicitation


class Tool(Struct, frozen=True, kw_only=True):
    """A row of the table."""

    name: str
    title: str
    description: str
    profiles: frozenset[Profile]
    kind: Kind
    takes: type[Arguments]
    gives: type[Struct]
    call: Callable[[ToolRequest, Any], Awaitable[Struct]]
    bound: int = BOUND  # bytes of an answer, as JSON

    def listed(self) -> types.Tool:
        """Return the tool as clients are shown it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema_of(self.takes),
            output_schema=schema_of(self.gives),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.kind == "reads",
                destructive_hint=self.kind in ("changes", "destroys"),  # all that does more than add
                idempotent_hint=self.kind in ("reads", "destroys"),
                open_world_hint=False,
            ),
        )

    async def run(self, call: ToolRequest, given: dict[str, Any]) -> types.CallToolResult:
        """Check what came, do it, and answer within the bound. What is the caller's fault is an answer, too."""
        wanted: Arguments | None = None
        try:
            wanted = self._understood(given).identified()
            answer = await self.call(call, wanted)
        except StrongroomError as problem:
            return refused(problem, getattr(wanted, "commit_id", None))
        encoded = msgspec.json.encode(answer)
        if len(encoded) > self.bound:
            return failed("this answer would be too large; ask for fewer things at once", "budget_exceeded")
        text = types.TextContent(type="text", text=encoded.decode())
        return types.CallToolResult(content=[text], structured_content=msgspec.json.decode(encoded))

    def _understood(self, given: dict[str, Any]) -> Arguments:
        try:
            return msgspec.convert(given, self.takes)
        except msgspec.ValidationError as problem:
            takes = ", ".join(field.encode_name for field in msgspec.structs.fields(self.takes)) or "nothing"
            unchanged = "" if self.kind == "reads" else "; nothing changed"
            inner = allowed(self.takes, str(problem)) if " - at `$." in str(problem) else ""
            raise InvalidInput(
                f"{beyond(self.takes, given) or f'{problem}{inner}'}; {self.name} takes: {takes}{unchanged}"
            ) from None


def refused(problem: StrongroomError, commit_id: str | None = None) -> types.CallToolResult:
    """Say what was wrong, with a stable code; a lost race says what is there now, an unknown outcome the id that a
    repeat finds it by."""
    facts: dict[str, Any] = {}
    if isinstance(problem, Conflict):
        facts = {"expected": problem.expected, "actual": problem.actual}
    if isinstance(problem, CommitUnknown) and commit_id is not None:
        facts = {"commit_id": commit_id}
    return failed(str(problem), problem.code, **facts)


def failed(message: str, code: str, **facts: Any) -> types.CallToolResult:
    """Answer that a call failed. The message may quote what somebody stored, so it is cut and fenced by JSON."""
    told = {"error": beginning(message, ERROR_BYTES), "code": code, **facts}
    text = types.TextContent(type="text", text=msgspec.json.encode(told).decode())
    return types.CallToolResult(content=[text], is_error=True)
