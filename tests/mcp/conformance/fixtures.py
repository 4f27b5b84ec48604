"""What the conformance tool calls besides: its own test tools, prompts and resources, added to our server.

Ours come first in every list, and whatever is not a fixture goes to our own handlers, so that the tool judges the real
application: its gate, its middleware, its transport and its handlers.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
Call = Callable[[Context, types.CallToolRequestParams], Awaitable[Any]]

PAUSE = 0.05


def png() -> str:
    """Return one red pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    whole = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + whole).decode()


def wav() -> str:
    """Return one sample of silence."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", 1) + b"\x80\x00"
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


def text(said: str) -> types.TextContent:
    return types.TextContent(type="text", text=said)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=png(), mime_type="image/png")


def embedded(uri: str, mime: str, said: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=mime, text=said)
    )


def done(*content: types.ContentBlock) -> types.CallToolResult:
    return types.CallToolResult(content=list(content))


# ---- content, progress, logging -------------------------------------------------------------------------------------


def gives(*content: types.ContentBlock) -> Call:
    async def call(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return done(*content)

    return call


async def failing(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    said = text("This tool intentionally returns an error for testing")
    return types.CallToolResult(content=[said], is_error=True)


async def progressing(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    for part in (0, 50, 100):
        await context.session.report_progress(part, 100)
        await asyncio.sleep(PAUSE)
    return done(text("done"))


async def logging(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", said, related_request_id=context.request_id)
        await asyncio.sleep(PAUSE)
    return done(text("logged"))


async def reconnecting(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
        await asyncio.sleep(2 * PAUSE)
    return done(text("reconnected"))


# ---- asking, in the older family ------------------------------------------------------------------------------------


async def sampling(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    prompt = types.SamplingMessage(role="user", content=text((params.arguments or {})["prompt"]))
    answer = await context.session.create_message([prompt], max_tokens=100, related_request_id=context.request_id)
    return done(text(f"LLM response: {getattr(answer.content, 'text', answer.content)}"))


def asks(properties: dict[str, Any], required: list[str], message: str = "Please fill in") -> Call:
    async def call(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        form = {"type": "object", "properties": properties, "required": required}
        shown = (params.arguments or {}).get("message", message)
        answer = await context.session.elicit_form(shown, form, related_request_id=context.request_id)
        return done(text(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"))

    return call


def titled(*values: str) -> list[dict[str, str]]:
    return [{"const": value, "title": value.title()} for value in values]


DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
OPTIONS = ["option1", "option2", "option3"]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": titled("value1", "value2", "value3")},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": titled("value1", "value2", "value3")}},
}


# ---- asking, in 2026-07-28 ------------------------------------------------------------------------------------------


def form(message: str, **properties: str) -> types.ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def question(said: str, tokens: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(said))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=tokens))


NAME = {"user_name": form("What is your name?", name="string")}
CAPITAL = {"capital_question": question("What is the capital of France?", 100)}
ROOTS = {"client_roots": types.ListRootsRequest()}
MANY = {**NAME, "greeting": question("Generate a greeting", 50), **ROOTS}
CONFIRM = {"confirm": form("Please confirm", ok="boolean")}
KINDS: dict[str, type[Any]] = {"elicitation/create": types.ElicitResult, "roots/list": types.ListRootsResult}


def needs(asked: Mapping[str, Any], state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=dict(asked), request_state=state)


def answered(params: Any, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the answers to what was asked, or None if one is missing or no answer."""
    given = params.input_responses or {}
    fits = {
        name: given[name]
        for name in asked
        if name in given and isinstance(given[name], KINDS.get(asked[name].method, object))
    }
    if any(isinstance(one, types.ElicitResult) and one.action == "accept" and not one.content for one in fits.values()):
        return None
    return fits if fits.keys() == asked.keys() else None


def round_trip(asked: Mapping[str, Any], say: Callable[[dict[str, Any]], str], state: str | None = None) -> Call:
    async def call(context: Context, params: types.CallToolRequestParams) -> Any:
        answers = answered(params, asked)
        if answers is None:
            return needs(asked, state)
        if state is not None and params.request_state != state:
            raise MCPError(types.INVALID_PARAMS, "the state is not ours")
        return done(text(say(answers)))

    return call


async def two_rounds(context: Context, params: types.CallToolRequestParams) -> Any:
    first = {"step1": form("Step 1: What is your name?", name="string")}
    second = {"step2": form("Step 2: What is your favorite color?", color="string")}
    if params.request_state == "round-2" and answered(params, second) is not None:
        return done(text("finished"))
    if params.request_state == "round-1" and answered(params, first) is not None:
        return needs(second, "round-2")
    return needs(first, "round-1")


async def by_capability(context: Context, params: types.CallToolRequestParams) -> Any:
    """Ask only for what the client can do."""
    can = context.session.client_capabilities
    asked: dict[str, Any] = {}
    if can is not None and can.elicitation is not None:
        asked |= NAME
    if can is not None and can.sampling is not None:
        asked |= CAPITAL
    return needs(asked) if asked and answered(params, asked) is None else done(text("nothing to ask"))


async def needs_sampling(context: Context, params: types.CallToolRequestParams) -> Any:
    wanted = types.ClientCapabilities(sampling=types.SamplingCapability())
    if not context.session.check_client_capability(wanted):
        missing = types.MissingRequiredClientCapabilityErrorData(required_capabilities=wanted)
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this needs sampling",
            missing.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    return done(text("sampled"))


def greeting(answers: dict[str, Any]) -> str:
    return f"Hello, {answers['user_name'].content['name']}!"


# ---- the tables -----------------------------------------------------------------------------------------------------

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
MESSAGE = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
PROMPT = {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}
DRAFT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADERS = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
    "required": ["region"],
}
MIXED = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
EMBEDDED = embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")

TOOLS: dict[str, tuple[dict[str, Any], Call]] = {
    "test_simple_text": (NOTHING, gives(text("This is a simple text response for testing."))),
    "test_image_content": (NOTHING, gives(image())),
    "test_audio_content": (
        NOTHING,
        gives(types.AudioContent(type="audio", data=wav(), mime_type="audio/wav")),
    ),
    "test_embedded_resource": (NOTHING, gives(EMBEDDED)),
    "test_multiple_content_types": (NOTHING, gives(text("Multiple content types test:"), image(), MIXED)),
    "test_error_handling": (NOTHING, failing),
    "test_tool_with_progress": (NOTHING, progressing),
    "test_tool_with_logging": (NOTHING, logging),
    "test_logging_tool": (NOTHING, logging),
    "test_reconnection": (NOTHING, reconnecting),
    "test_sampling": (PROMPT, sampling),
    "test_elicitation": (
        MESSAGE,
        asks({"username": {"type": "string"}, "email": {"type": "string"}}, ["username", "email"]),
    ),
    "test_elicitation_sep1034_defaults": (NOTHING, asks(DEFAULTS, [])),
    "test_elicitation_sep1330_enums": (NOTHING, asks(ENUMS, [])),
    "json_schema_2020_12_tool": (DRAFT, gives(text("valid"))),
    "test_custom_headers": (HEADERS, gives(text("headers agree"))),
    "test_missing_capability": (NOTHING, needs_sampling),
    "test_streaming_elicitation": (NOTHING, round_trip(NAME, greeting)),
    "test_input_required_result_elicitation": (NOTHING, round_trip(NAME, greeting)),
    "test_input_required_result_sampling": (NOTHING, round_trip(CAPITAL, lambda given: str(given))),
    "test_input_required_result_list_roots": (NOTHING, round_trip(ROOTS, lambda given: str(given))),
    "test_input_required_result_request_state": (NOTHING, round_trip(CONFIRM, lambda _: "state-ok", "asked")),
    "test_input_required_result_multiple_inputs": (NOTHING, round_trip(MANY, greeting, "asked")),
    "test_input_required_result_multi_round": (NOTHING, two_rounds),
    "test_input_required_result_tampered_state": (NOTHING, round_trip(CONFIRM, lambda _: "ok", "asked")),
    "test_input_required_result_capabilities": (NOTHING, by_capability),
}


def prompt(name: str, **arguments: str) -> types.Prompt:
    listed = [types.PromptArgument(name=each, description=said, required=True) for each, said in arguments.items()]
    return types.Prompt(name=name, description=f"The fixture {name}.", arguments=listed)


PROMPTS = [
    prompt("test_simple_prompt"),
    prompt("test_prompt_with_arguments", arg1="First test argument", arg2="Second test argument"),
    prompt("test_prompt_with_embedded_resource", resourceUri="URI of the resource to embed"),
    prompt("test_prompt_with_image"),
    prompt("test_input_required_result_prompt"),
]
CONTEXT = {"user_context": form("What context should the prompt use?", context="string")}


def get_prompt(params: types.GetPromptRequestParams) -> Any:
    given = params.arguments or {}
    blocks: dict[str, Callable[[], list[types.ContentBlock]]] = {
        "test_simple_prompt": lambda: [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": lambda: [
            text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
        ],
        "test_prompt_with_embedded_resource": lambda: [
            embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": lambda: [image(), text("Please analyze the image above.")],
        "test_input_required_result_prompt": lambda: [text("with the context that was given")],
    }
    if params.name == "test_input_required_result_prompt" and answered(params, CONTEXT) is None:
        return needs(CONTEXT)
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=block) for block in blocks[params.name]()]
    )


RESOURCES = [
    types.Resource(uri="test://static-text", name="text", description="A text.", mime_type="text/plain"),
    types.Resource(uri="test://static-binary", name="binary", description="A picture.", mime_type="image/png"),
]
TEMPLATE = types.ResourceTemplate(
    uri_template="test://template/{id}/data", name="template", description="Data.", mime_type="application/json"
)


def read_resource(uri: str) -> types.ReadResourceResult | None:
    if uri == "test://static-text":
        said = "This is the content of the static text resource."
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=said)]
        )
    if uri == "test://static-binary":
        return types.ReadResourceResult(
            contents=[types.BlobResourceContents(uri=uri, mime_type="image/png", blob=png())]
        )
    if uri.startswith("test://template/"):
        id = uri.split("/")[3]
        said = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=said)]
        )
    return None


# ---- joined to our own server ---------------------------------------------------------------------------------------


def with_fixtures(server: Server[Any]) -> Server[Any]:
    """Let a server answer for the fixtures too; everything else stays its own."""
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))

    def ours(method: str) -> Callable[[Context, Any], Awaitable[Any]]:
        entry = server.get_request_handler(method)
        assert entry is not None
        return entry.handler

    known = server.get_tool_input_schema
    assert known is not None
    server.get_tool_input_schema = lambda name: TOOLS[name][0] if name in TOOLS else known(name)
    list_tools, call_tool = ours("tools/list"), ours("tools/call")
    list_prompts, our_prompt, complete = ours("prompts/list"), ours("prompts/get"), ours("completion/complete")
    list_resources, our_resource = ours("resources/list"), ours("resources/read")
    list_templates = ours("resources/templates/list")

    async def tools(context: Context, params: Any) -> types.ListToolsResult:
        found: types.ListToolsResult = await list_tools(context, params)
        for name, (schema, _) in TOOLS.items():
            found.tools.append(types.Tool(name=name, description=f"The fixture {name}.", input_schema=schema))
        return found

    async def tool(context: Context, params: types.CallToolRequestParams) -> Any:
        return await (TOOLS[params.name][1] if params.name in TOOLS else call_tool)(context, params)

    async def prompts(context: Context, params: Any) -> types.ListPromptsResult:
        found: types.ListPromptsResult = await list_prompts(context, params)
        found.prompts.extend(PROMPTS)
        return found

    async def one_prompt(context: Context, params: types.GetPromptRequestParams) -> Any:
        known = params.name in {each.name for each in PROMPTS}
        return get_prompt(params) if known else await our_prompt(context, params)

    async def completion(context: Context, params: types.CompleteRequestParams) -> Any:
        if isinstance(params.ref, types.PromptReference) and params.ref.name.startswith("test_"):
            return types.CompleteResult(completion=types.Completion(values=["paris", "park"], has_more=False))
        return await complete(context, params)

    async def resources(context: Context, params: Any) -> types.ListResourcesResult:
        found: types.ListResourcesResult = await list_resources(context, params)
        found.resources.extend(RESOURCES)
        return found

    async def one_resource(context: Context, params: types.ReadResourceRequestParams) -> Any:
        return read_resource(str(params.uri)) or await our_resource(context, params)

    async def templates(context: Context, params: Any) -> types.ListResourceTemplatesResult:
        found: types.ListResourceTemplatesResult = await list_templates(context, params)
        found.resource_templates.append(TEMPLATE)
        return found

    async def set_level(context: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        return types.EmptyResult()

    handlers: tuple[tuple[str, type[Any], Any], ...] = (
        ("tools/list", types.PaginatedRequestParams, tools),
        ("tools/call", types.CallToolRequestParams, tool),
        ("prompts/list", types.PaginatedRequestParams, prompts),
        ("prompts/get", types.GetPromptRequestParams, one_prompt),
        ("completion/complete", types.CompleteRequestParams, completion),
        ("resources/list", types.PaginatedRequestParams, resources),
        ("resources/read", types.ReadResourceRequestParams, one_resource),
        ("resources/templates/list", types.PaginatedRequestParams, templates),
        ("logging/setLevel", types.SetLevelRequestParams, set_level),
    )
    for method, kind, handler in handlers:
        server.add_request_handler(method, kind, handler)
    return server
