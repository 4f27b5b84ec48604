"""A name that there is not is answered with what was meant, and with nothing else than an AttributeError."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

import strongroom
from strongroom.blocking.files import Files
from strongroom.blocking.memories import Memories
from strongroom.blocking.registry import Registry
from strongroom.blocking.runs import Runs
from strongroom.blocking.sessions import Sessions
from strongroom.blocking.threads import Threads
from strongroom.errors import InvalidInput
from strongroom.meant import _SAID, ARGUMENTS, ATTRIBUTES, Meant
from strongroom.services.memories.lens import Filters
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.memories.values import Hit, Written

BLOCKING: list[type] = [
    *(strongroom.Context, strongroom.Run, strongroom.Session, strongroom.Thread, strongroom.Turn),
    *(Runs, Sessions, Memories, Threads, Files, Registry),
]
ASYNC: list[type] = [
    *(strongroom.AsyncContext, strongroom.AsyncRun, strongroom.AsyncSession, strongroom.AsyncThread),
    strongroom.AsyncTurn,
]
VALUES: list[type] = [strongroom.Batch, strongroom.Prompt, strongroom.Window, strongroom.Brief, Written, Hit]


def told(thing: object, name: str) -> str:
    with pytest.raises(AttributeError) as refused:
        getattr(thing, name)
    return str(refused.value)


TYPED = [
    ("run.status", "run.working_set.status"),
    ("run.history", "run.events()"),
    ("run.get_state", "run.state"),
    ("run.update_state", "run.update(state_patch={...})"),
    ("run.run_id", "run.id"),
    ("run.delete", "ctx.runs.erase(run.id, reason=...)"),
    ("session.messages", "session.load()"),
    ("session.get_items", "session.load()"),
    ("session.add_message", "session.append(message)"),
    ("session.clear_session", "session.erase(all=True)"),
    ("session.user_id", "session.info()"),
    ("ctx.runs.delete", "ctx.runs.erase(run_id, reason=...)"),
    ("ctx.runs.get_or_create", "ctx.runs.open(run_id, objective=...)"),
    ("ctx.sessions.create_session", "ctx.sessions.open(session_id)"),
    ("ctx.memories.approve", "ctx.memories.commit(batch, reviewer=...)"),
    ("ctx.memories.get_all", "ctx.memories.list(user_id=...)"),
    ("ctx.memories.delete_all", "ctx.memories.erase(user_id=...)"),
    ("ctx.memories.similarity_search", "ctx.memories.search(text, user_id=...)"),
    ("ctx.threads.publish", "ctx.threads.append(thread_id, payload, from_id=...)"),
    ("ctx.files.rm", "ctx.files.delete(path)"),
    ("ctx.transaction", "with ctx.turn() as turn"),
    ("ctx.memory", "ctx.memories"),
    ("turn.commit", "the end of its block commits"),
    ("thread.messages", "thread.slice()"),
    ("batch.approve", "ctx.memories.commit(batch, reviewer=...)"),
    ("hit.metadata", "hit.memory.metadata"),
    ("brief.tokens", "brief.total_tokens"),
    ("brief.content", "brief.text"),
]


def things(ctx: Any) -> dict[str, Any]:
    """One of each, by the name that the table gives it."""
    run, session = ctx.runs.create(objective="o"), ctx.sessions.open("support-7")
    session.append({"role": "user", "content": "tea"})
    ctx.threads.append("t", 1, from_id="a")
    written = ctx.memories.add("likes tea", user_id="ana")
    ctx.memories.add("lives in Rome", user_id="ana", proposer="agent-7")
    return {
        "ctx": ctx,
        "run": run,
        "session": session,
        "thread": ctx.threads.get("t"),
        "turn": ctx.turn(),
        "written": written,
        "batch": ctx.memories.pending()[0],
        "hit": ctx.memories.search("tea", user_id="ana")[0],
        "prompt": ctx.prompt(session=session, max_tokens=500),
        "window": session.window(max_tokens=500),
        "brief": run.brief(),
        "strongroom": strongroom,
    }


@pytest.mark.parametrize(("typed", "instead"), TYPED, ids=lambda one: str(one))
def test_what_others_call_it_is_answered_with_what_it_is_called_here(typed: str, instead: str) -> None:
    with strongroom.open("memory://") as ctx:
        first, *path, wrong = typed.split(".")
        thing = things(ctx)[first]
        for name in path:
            thing = getattr(thing, name)
        words = told(thing, wrong)
    assert words.startswith(f"{type(thing).__name__} has no attribute '{wrong}'; use ")
    assert instead in words and "await" not in words and "async" not in words


async def test_async_code_reads_of_awaiting() -> None:
    async with strongroom.aopen("memory://") as ctx:
        run: Any = await ctx.runs.create(objective="o")
        assert told(run, "history").endswith("use `await run.events()`, or `run.replay()`")
        assert told(ctx, "transaction").endswith("use `async with ctx.turn() as turn`")
        assert told(ctx.memories, "get_all").startswith("AsyncMemories has no attribute 'get_all'; use `await ctx.")
        for part in (ctx, ctx.runs, ctx.sessions, ctx.memories, ctx.threads, ctx.files, ctx.registry, ctx.turn()):
            assert "; " in told(part, "there_is_no_such_thing")


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with strongroom.open("memory://") as ctx:
        assert told(ctx, "sesions") == "Context has no attribute 'sesions'; did you mean sessions?"
        run = ctx.runs.create(objective="o")
        assert told(run, "episode") == "Run has no attribute 'episode'; did you mean episodes?"


def test_a_name_like_no_other_is_answered_with_what_there_is() -> None:
    with strongroom.open("memory://") as ctx:
        assert told(ctx.sessions, "xyzzy") == (
            "Sessions has no attribute 'xyzzy'; it has delete, erase, get, list, open, search, using"
        )
        assert told(ctx.memories, "xyzzy").endswith(" more, which `help` of it lists")


def test_what_is_told_exists() -> None:
    """Every name after a dot in the table, looked up on the real thing."""
    with strongroom.open("memory://") as ctx:
        known = things(ctx)
        for kind, said in ATTRIBUTES.items():
            for word, words in said.items():
                for first, rest in re.findall(r"\b([a-z]+)((?:\.[a-z_]+)+)", " ".join(re.findall(r"`([^`]+)`", words))):
                    thing = known[first]
                    for name in rest.strip(".").split("."):
                        if name == "dispatch":
                            continue  # a module of its own
                        assert hasattr(thing, name), f"{kind}.{word}: {first}{rest}"
                        thing = getattr(thing, name)


def test_what_is_told_is_told_of_names_that_are_not_there() -> None:
    kinds = {kind.__name__.removeprefix("Async"): kind for kind in (*BLOCKING, *VALUES)}
    assert ATTRIBUTES.keys() <= kinds.keys()
    with strongroom.open("memory://") as ctx:
        have = {name: {*dir(kind)} for name, kind in kinds.items()} | {"Context": {*dir(ctx)}}
    assert {(kind, word) for kind, said in ATTRIBUTES.items() for word in said if word in have[kind]} == set()


def test_no_word_is_said_twice_of_one_thing() -> None:
    """Of two answers nobody would ever read the first."""
    for kind, said in _SAID.items():
        words = [word for key in said for word in key.split()]
        assert [word for word in words if words.count(word) > 1] == [], kind


@pytest.mark.parametrize("kind", [*BLOCKING, *ASYNC, *VALUES], ids=lambda kind: kind.__name__)
def test_every_handle_and_its_twin_answers(kind: type) -> None:
    assert issubclass(kind, Meant)


# ---- nothing else changes -------------------------------------------------------------------------------------------


def test_whoever_asks_whether_there_is_one_hears_no() -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        assert not hasattr(run, "status") and getattr(run, "status", None) is None
        assert "status" not in dir(run)


def test_what_begins_with_an_underscore_is_left_to_python() -> None:
    with strongroom.open("memory://") as ctx:
        assert told(ctx, "_stauts") == "'Context' object has no attribute '_stauts'"
        assert told(ctx, "__array__") == "'Context' object has no attribute '__array__'"


def test_a_handle_made_without_its_parts_can_still_be_asked() -> None:
    """What copies and unpickles makes an object first and fills it then."""
    empty = strongroom.Run.__new__(strongroom.Run)
    assert told(empty, "_async") == "'Run' object has no attribute '_async'"
    assert "run.working_set" in told(empty, "status")


def test_handles_and_values_are_copied_and_specified_as_before() -> None:
    with strongroom.open("memory://") as ctx:
        run = ctx.runs.create(objective="o")
        assert copy.copy(run).id == run.id
        ctx.memories.add("lives in Rome", user_id="ana", proposer="agent-7")
        [batch] = ctx.memories.pending()
        assert pickle.loads(pickle.dumps(batch)) == copy.deepcopy(batch) == batch
        assert not hasattr(create_autospec(run, instance=True), "status")
        assert inspect.getattr_static(run, "update")


def test_a_property_that_fails_tells_why_it_failed() -> None:
    class Broken(Meant):
        @property
        def status(self) -> int:
            raise AttributeError("of mine")

    assert told(Broken(), "status") == "of mine"


def test_a_trace_guesses_nothing_beside_what_is_told() -> None:
    program = "import strongroom; strongroom.open('memory://').runs.create(objective='o').stats"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "AttributeError: Run has no attribute 'stats'; did you mean state?"


# ---- arguments ------------------------------------------------------------------------------------------------------


def test_an_argument_that_others_call_otherwise_is_named() -> None:
    wrong: Any = {"api_key": "srk_x"}
    with pytest.raises(TypeError, match=r"^connect\(\): got an unexpected .* 'api_key'; did you mean key\?; it takes "):
        strongroom.connect("http://127.0.0.1:1", **wrong)
    with pytest.raises(TypeError, match=r"^aconnect\(\): got an unexpected .*'token'; did you mean key\?; "):
        strongroom.aconnect("http://127.0.0.1:1", token="srk_x")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "given", "meant"),
    [
        ("search", "top_k", "k"),
        ("list", "top_k", "limit"),
        ("search", "filters", "where"),
        ("list", "filters", "where"),
        ("search", "agent_id", "tags"),
        ("search", "user", "user_id"),
        ("search", "min_confidnce", "min_confidence"),
    ],
)
def test_a_filter_of_others_is_answered_with_ours(call: str, given: str, meant: str) -> None:
    said = rf"^there is no filter '{given}'; did you mean {meant}\?; there are scope, user_id, "
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput, match=said):
        getattr(ctx.memories, call)(*["tea"] * (call == "search"), **{given: "x"})


@pytest.mark.parametrize("call", ["search", "list", "at"])
def test_whoever_says_what_is_no_filter_reads_of_all_that_may_be_said(call: str) -> None:
    given: dict[str, list[Any]] = {"search": ["tea"], "list": [], "at": [datetime.now(UTC)]}
    with strongroom.open("memory://") as ctx, pytest.raises(InvalidInput) as refused:
        getattr(ctx.memories, call)(*given[call], zzz=True)
    taken = inspect.signature(getattr(AsyncMemories, call)).parameters
    said = {name for name, one in taken.items() if one.kind is one.KEYWORD_ONLY or name == "k"}
    assert {*said, *Filters.__annotations__} == set(
        re.findall(r"\w+", str(refused.value).partition("there are ")[2])
    ) - {*("and", "besides", "them")}


def test_fields_given_as_a_mapping_are_told_to_be_passed_by_name() -> None:
    with strongroom.open("memory://") as ctx:
        run: Any = ctx.runs.create(objective="o")
        with pytest.raises(
            TypeError, match=r"^Run\.update\(\): .*\(fields are passed by name: update\(status=\.\.\.\)\); "
        ):
            run.update({"status": "BUSY"})
        with pytest.raises(
            TypeError, match=r"^Run\.update\(\): .*\(fields are passed by name: update\(name=\.\.\.\)\); "
        ):
            run.update(0)
        assert run.refresh().seq == 0


@pytest.mark.parametrize("address", ["memory://", "agent.db"])
def test_a_message_without_its_sender_is_answered_with_a_class_that_users_know(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with strongroom.open(address) as ctx:
        threads: Any = ctx.threads
        with pytest.raises(TypeError, match=r"^Threads\.append\(\).* missing .*'from_id'"):
            threads.append("t", {"x": 1})


@pytest.mark.parametrize("one", [False, True])
def test_a_conversation_given_as_a_memory_is_told_of_learning(one: bool) -> None:
    message = {"role": "user", "content": "I like tea"}
    given: Any = message if one else [message]
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match=r"content must be text, .*`memories\.learn\(session, model=\.\.\.\)`"):
            ctx.memories.add(given, user_id="ana")
        with pytest.raises(InvalidInput) as other:
            ctx.memories.add(["likes tea"], user_id="ana")  # type: ignore[arg-type]
        assert "learn" not in str(other.value)


def test_an_option_of_a_turn_is_named() -> None:
    wrong: Any = {"idempotency_key": "turn-7"}
    with strongroom.open("memory://") as ctx:
        with pytest.raises(TypeError, match=r"^Context\.turn\(\): .*; did you mean commit_id\?; it takes commit_id=$"):
            ctx.turn(**wrong)
        with pytest.raises(TypeError, match=r"^Context\.turn_with\(\): .*; did you mean commit_id\?; "):
            ctx.turn_with(lambda turn: None, **wrong)


async def test_async_calls_name_it_too() -> None:
    async with strongroom.aopen("memory://") as ctx:
        with pytest.raises(TypeError, match=r"^AsyncContext\.turn\(\): .*'session'; it takes commit_id=$"):
            ctx.turn(session="support-7")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"^AsyncRuns\.create\(\): .*'goal'; did you mean objective\?; "):
            await ctx.runs.create(goal="o")  # type: ignore[call-arg]
        run = await ctx.runs.create(objective="o")
        with pytest.raises(TypeError, match=r"^AsyncRun\.events\(\): .*'page_size'; did you mean limit\?; "):
            await run.events(page_size=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "meant"),
    [("readonly", "read_only"), ("tenant", "space"), ("timeout", "timeout_seconds"), ("passphrase", "key")],
)
@pytest.mark.parametrize("opening", [strongroom.open, strongroom.aopen], ids=["open", "aopen"])
def test_an_option_of_opening_is_named(opening: Any, given: str, meant: str) -> None:
    said = rf"^{opening.__name__}\(\): got an unexpected keyword argument '{given}'; did you mean {meant}\?; it takes "
    with pytest.raises(TypeError, match=said):
        opening("memory://", **{given: "x"})


def test_more_than_an_address_is_refused_with_the_names_of_the_rest() -> None:
    with pytest.raises(TypeError, match=r"^open\(\): too many positional arguments; it takes address, space=, "):
        strongroom.open("memory://", "acme")  # type: ignore[call-arg]


def test_opening_still_shows_its_options() -> None:
    assert "read_only" in inspect.signature(strongroom.open).parameters
    assert strongroom.open.__name__ == "open" and "for blocking code" in (strongroom.open.__doc__ or "")


def test_a_type_error_of_what_is_opened_stays_what_it_is() -> None:
    def key() -> bytes:
        raise TypeError("of mine")

    with pytest.raises(TypeError, match=r"^of mine$"):
        strongroom.open("memory.db", key=key)


def test_what_an_argument_is_meant_to_be_is_taken_somewhere() -> None:
    calls: list[Any] = [strongroom.open, strongroom.connect, strongroom.fit]
    for kind in BLOCKING:
        calls += [
            getattr(kind, name) for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
        ]
    taken = {name for call in calls for name in inspect.signature(call).parameters}
    assert {ours for meant in ARGUMENTS.values() for ours in meant} <= taken


@pytest.mark.parametrize(
    ("handle", "name", "meant"),
    [
        ("run", "status", "use `run.update(...)`"),
        ("run", "state", "use `run.update(...)`"),
        ("session", "title", "use `session.rename(title)`"),
        ("session", "metadata", "`session.set_metadata(value)`"),
        ("thread", "payload", "use `ctx.threads.append(thread.id, payload, from_id=...)`"),
    ],
)
def test_an_attribute_of_a_handle_cannot_be_set_because_that_would_store_nothing(
    handle: str, name: str, meant: str
) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.threads.append("t", {"a": 1}, from_id="a")
        found = {
            "run": ctx.runs.create(objective="o"),
            "session": ctx.sessions.open("s"),
            "thread": ctx.threads.get("t"),
        }
        with pytest.raises(AttributeError, match="would change nothing that is stored") as refused:
            setattr(found[handle], name, "x")
        assert meant in str(refused.value)


async def test_a_handle_of_async_code_says_the_same_with_await() -> None:
    async with strongroom.aopen("memory://") as ctx:
        run = await ctx.runs.create(objective="o")
        with pytest.raises(AttributeError, match=r"use `await run\.update"):
            run.status = "DONE"  # type: ignore[attr-defined]
