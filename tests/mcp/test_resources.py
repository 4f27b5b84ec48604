"""What can be read by address, and how clients hear that it changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.subscriptions import ResourcesListChanged

import strongroom
from strongroom import AsyncContext
from strongroom.errors import InvalidInput, Unavailable
from strongroom.mcp import watching
from strongroom.mcp.principals import Principal
from strongroom.mcp.resources import RESOURCES
from strongroom.mcp.server import create_server
from strongroom.mcp.uris import Address, message_uri, parsed, run_uri, session_uri
from strongroom.mcp.watching import MOST_ADDRESSES
from tests.mcp.conftest import Connect, assistant, call, known, mcp

ODD = "a/b ?#%é&=.."


async def read(client: Any, uri: str) -> Any:
    return json.loads((await client.read_resource(uri)).contents[0].text)


async def test_everything_is_read_by_its_address(ctx: AsyncContext, connect: Connect) -> None:
    memory = await known(ctx, "the office has a red door")
    run = await ctx.runs.create(objective="Build", run_id=ODD)
    session = await ctx.sessions.open(ODD)
    [message] = await session.append([{"role": "user", "content": "hello"}])
    batch = (await ctx.memories.get(memory)).batch_id
    await ctx.files.write("/a b/ü?.md", "one\ntwo\n")
    async with connect("reader") as client:
        assert (await read(client, f"strongroom://memories/{memory}"))["memory"]["memory_id"] == memory
        assert (await read(client, f"strongroom://batches/{batch}"))["batch"]["status"] == "committed"
        assert (await read(client, run_uri(ODD)))["run"]["run_id"] == run.id
        assert (await read(client, run_uri(ODD) + "/ledger"))["events"][0]["sequence_id"] == 1
        assert (await read(client, run_uri(ODD) + "/ledger?after=1"))["events"] == []
        assert "Build" in (await read(client, run_uri(ODD) + "/brief"))["brief"]["data"]
        assert (await read(client, session_uri(ODD)))["messages"][0]["message"]["data"] == "hello"
        assert (await read(client, message_uri(ODD, message.id)))["message"]["message"]["data"] == "hello"
        assert (await read(client, "strongroom://runs"))["runs"][0]["run_id"] == ODD
        assert (await read(client, "strongroom://sessions"))["sessions"][0]["session_id"] == ODD
        assert (await read(client, "strongroom://pending"))["batches"] == []
        [file] = (await read(client, "strongroom://files"))["files"]
        assert (await read(client, file["uri"]))["text"]["data"] == "one\ntwo\n"


async def test_the_list_leads_through_fixed_addresses_runs_and_sessions(ctx: AsyncContext, connect: Connect) -> None:
    await ctx.runs.create(objective="x", run_id="r1")
    await ctx.sessions.open("s1")
    async with connect("reader") as client:
        found, cursor = [], None
        while True:
            page = await client.list_resources(cursor=cursor)
            found += [str(one.uri) for one in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
    assert found == [
        *(row.template for row in RESOURCES if row.fixed),
        "strongroom://runs/r1",
        "strongroom://sessions/s1",
    ]
    assert templates == [row.template for row in RESOURCES if not row.fixed]


@pytest.mark.parametrize(
    "uri", ["strongroom://memories/none", "strongroom://nothing", "strongroom://runs/a/b/c", "file:///etc/passwd"]
)
async def test_what_is_not_there_is_said_to_be_the_callers_mistake(connect: Connect, uri: str) -> None:
    async with connect("reader") as client:
        with pytest.raises(mcp.MCPError) as refused:
            await client.read_resource(uri)
        assert refused.value.error.code == types.INVALID_PARAMS


async def test_an_address_cannot_leave_the_space(connect: Connect, runner: asyncio.Runner, tmp_path: Path) -> None:
    url = str(tmp_path / "shared.db")
    async with strongroom.aopen(url, space="acme") as theirs, strongroom.aopen(url, space="other") as ours:
        memory = await known(theirs, "the door code is 1234")
        await theirs.runs.create(objective="secret", run_id="theirs")
        async with connect("reader", ctx=ours) as client:
            for uri in (
                f"strongroom://memories/{memory}",
                "strongroom://runs/theirs",
                "strongroom://../acme/runs/theirs",
            ):
                with pytest.raises(mcp.MCPError):
                    await client.read_resource(uri)
            assert (await call(client, "search", query="door code"))["results"] == []
            assert (await call(client, "run_list"))["runs"] == []


def test_an_address_is_read_back_as_it_was_written() -> None:
    assert parsed(message_uri(ODD, "m 1")) == Address("sessions", (ODD, "messages", "m 1"))
    with pytest.raises(InvalidInput):
        parsed("strongroom://runs/%ff")


# ---- changes --------------------------------------------------------------------------------------------------------


async def test_a_stream_tells_of_changes_by_another_process(tmp_path: Path) -> None:
    url = str(tmp_path / "shared.db")
    async with strongroom.aopen(url) as ours, strongroom.aopen(url) as theirs:
        run = await theirs.runs.create(objective="x", run_id="r")
        session = await theirs.sessions.open("s")
        uris = [f"strongroom://{place}" for place in ("runs/r", "sessions/s", "files/notes/a.md", "pending")]
        async with assistant(ours, "reader") as client, client.listen(resource_subscriptions=uris) as stream:
            changes = aiter(stream)
            happenings: list[tuple[Callable[[], Awaitable[object]], str]] = [
                (lambda: run.record("ERROR", {"error_type": "x", "message": "y"}), uris[0]),
                (lambda: session.append([{"role": "user", "content": "hi"}]), uris[1]),
                (lambda: theirs.files.write("/notes/a.md", "x"), uris[2]),
                (lambda: known(theirs, "tea"), uris[3]),
            ]
            for change, uri in happenings:
                await change()
                event = await asyncio.wait_for(anext(changes), 30)
                assert event.uri == uri


@pytest.mark.parametrize("begun", [True, False])
async def test_a_stream_goes_on_after_the_store_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    monkeypatch.setattr(watching, "WAIT_SECONDS", 0.01)
    url, uri, away = str(tmp_path / "shared.db"), "strongroom://sessions/s", asyncio.Event()
    async with strongroom.aopen(url) as ours, strongroom.aopen(url) as theirs:
        session = await theirs.sessions.open("s")
        real: Any = ours.store.read

        async def failing(questions: Any) -> Any:
            monkeypatch.setattr(ours.store, "read", real)
            away.set()
            raise Unavailable("restarting", reason="unreachable")

        if not begun:
            monkeypatch.setattr(ours.store, "read", failing)
        async with assistant(ours, "reader") as client, client.listen(resource_subscriptions=[uri]) as stream:
            if begun:
                monkeypatch.setattr(ours.store, "read", failing)
            await away.wait()
            changes = aiter(stream)
            assert (await asyncio.wait_for(anext(changes), 30)).uri == uri  # something may have changed meanwhile
            await session.append([{"role": "user", "content": "hi"}])
            assert (await asyncio.wait_for(anext(changes), 30)).uri == uri


async def test_a_stream_tells_of_lists_that_another_process_added_to(tmp_path: Path) -> None:
    url = str(tmp_path / "shared.db")
    lists = [f"strongroom://{place}" for place in ("runs", "sessions", "files")]
    async with (
        strongroom.aopen(url) as ours,
        strongroom.aopen(url) as theirs,
        assistant(ours, "reader") as client,
        client.listen(resources_list_changed=True) as all_of_them,
        client.listen(resource_subscriptions=lists) as each,
    ):
        whole, parts = aiter(all_of_them), aiter(each)
        await theirs.runs.create(objective="x", run_id="r")
        assert isinstance(await asyncio.wait_for(anext(whole), 30), ResourcesListChanged)
        assert (await asyncio.wait_for(anext(parts), 30)).uri == lists[0]
        await theirs.sessions.open("s")
        assert isinstance(await asyncio.wait_for(anext(whole), 30), ResourcesListChanged)
        assert (await asyncio.wait_for(anext(parts), 30)).uri == lists[1]
        await theirs.files.write("/notes/a.md", "x")
        assert (await asyncio.wait_for(anext(parts), 30)).uri == lists[2]


@pytest.mark.parametrize(("version", "changes"), [("2026-07-28", True), (None, False)])
def test_only_the_list_that_can_change_is_said_to(ctx: AsyncContext, version: str | None, changes: bool) -> None:
    server = create_server(lambda _: Principal(ctx, "rob", "reader"), version="1")
    told = server.get_capabilities(protocol_version=version).model_dump()
    assert [told[kind]["list_changed"] for kind in ("tools", "prompts", "resources")] == [False, False, changes]
    assert told["resources"]["subscribe"]


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_an_older_client_is_told_of_what_it_subscribed_to(tmp_path: Path) -> None:
    url = str(tmp_path / "shared.db")
    told: asyncio.Queue[str] = asyncio.Queue()

    async def heard(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            await told.put(str(message.params.uri))

    async with strongroom.aopen(url) as ours, strongroom.aopen(url) as theirs:
        session = await theirs.sessions.open("s")
        async with assistant(ours, "reader", mode="legacy", message_handler=heard) as client:
            await client.subscribe_resource("strongroom://sessions/s")
            await session.append([{"role": "user", "content": "hi"}])
            assert await asyncio.wait_for(told.get(), 30) == "strongroom://sessions/s"
            await client.unsubscribe_resource("strongroom://sessions/s")
            await client.subscribe_resource("strongroom://pending")
            await session.append([{"role": "user", "content": "hi"}])
            await known(theirs, "tea")
            assert await asyncio.wait_for(told.get(), 30) == "strongroom://pending"


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_watching_too_much_is_refused(ctx: AsyncContext) -> None:
    many = [f"strongroom://runs/{number}" for number in range(MOST_ADDRESSES + 1)]
    async with assistant(ctx, "reader") as client:
        with pytest.raises(mcp.MCPError, match="at most"):
            async with client.listen(resource_subscriptions=many):
                pass
    async with assistant(ctx, "reader", mode="legacy") as client:
        with pytest.raises(mcp.MCPError, match="at most"):
            for uri in ["strongroom://pending?" + str(number) for number in range(MOST_ADDRESSES + 1)]:
                await client.subscribe_resource(uri)
