"""Whatever is passed to a service, it does what it says or refuses in its own words, and everything stays readable."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom.backends.memory import MemoryStore
from strongroom.blocking import Context
from strongroom.dispatch import Dispatcher
from strongroom.errors import InvalidInput, StrongroomError
from strongroom.services.memories.policy import Policy
from strongroom.store import ExportPage
from tests.services.memory_samples import mcr


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    """Return something so deep that naive code recurses until it falls."""
    value: Any = "x"
    for _ in range(levels):
        value = wrap(value)
    return value


DEEP = (nested(100_000, lambda value: [value]), nested(100_000, lambda value: {"a": value}))
JUNK: list[Any] = [
    None, -1, 10**30, 1.5, float("nan"), float("inf"), True, "", "x" * 300, "\ud800", "a\nb", "\0", b"x", [], [None],
    ("a",), {}, {"a": object()}, {0: None}, {1, 2}, object(), *DEEP,
]  # fmt: skip
FACT = mcr("tides turn", source_refs=["doc:1"])
FILES = {"path": "/notes/a.md", "to": "/notes/b.md"}  # where elsewhere a path is one of the disk
# They wait, or hand out another object of the same class.
LEFT_OUT = {"close", "follow", "using", "wait"}


def fact(**fields: Any) -> Any:
    return {**FACT, **fields}


class World:
    """A little of everything, and a look at all of it."""

    def __init__(self, ctx: Context | None = None) -> None:
        self.ctx = ctx or strongroom.open("memory://")
        self.run = self.ctx.runs.create(objective="o")
        self.run.update(next_action="n")
        self.run.milestone(reason="r")
        self.session = self.ctx.sessions.open("s1")
        [self.message] = self.session.append({"role": "user", "content": "hi"})
        self.ctx.threads.append("t1", {"a": 1}, from_id="a", to_id="b")
        self.ctx.files.write("/notes/a.md", "tides")
        for number, id in enumerate(("b1", "b2")):
            self.ctx.memories.propose(FACT | {"content": f"tide {number}"}, proposer="p", batch_id=id)
        self.ctx.memories.commit("b1", reviewer="r")

    def part(self, name: str) -> Any:
        if name == "thread":
            return self.ctx.threads.get("t1")
        if name == "context":
            return self.ctx
        if name == "dispatcher":
            return Dispatcher(self.ctx)
        return getattr(self, name) if name in ("run", "session") else getattr(self.ctx, name)

    def usual(self, parameter: str) -> Any:
        """Return an argument that a method could be called with."""
        usual = {
            "run_id": self.run.id, "session_id": "s1", "thread_id": "t1", "batch_id": "b2",
            "message_id": self.message.id, "messages": {"role": "user", "content": "x"}, "requests": [FACT],
            "metadata": {}, "payload": {}, "payloads": [], "type": "ERROR", "source_ref": "doc:1", "path": "pack",
            "source": "file", "seq": 0, "version": 1, "max_tokens": 100, "decide": lambda _: None,
        }  # fmt: skip
        return usual.get(parameter, "x")

    def held(self) -> ExportPage:
        """Return everything that is stored."""
        assert isinstance(self.ctx.store, MemoryStore)
        return self.ctx.store.unload(None, 10_000)

    def look(self) -> None:
        ctx = self.ctx
        for run in ctx.runs.list():
            run.events()
            run.episodes()
            run.brief()
            assert run.verify().ok
        for info in ctx.sessions.list():
            session = ctx.sessions.get(info.id)
            session.load()
            session.window(max_tokens=100)
        for thread in ctx.threads.list():
            ctx.threads.get(thread.thread_id).slice()
        for file in ctx.files.list():
            ctx.files.read(file.path)
            ctx.files.history(file.path)
        ctx.files.search("tides")
        ctx.memories.pending()
        ctx.memories.sweep()
        ctx.memories.search("tides")
        for status in ("active", "revoked"):
            ctx.memories.list(status=status)
        for id in ("b1", "b2"):
            ctx.memories.batch(id)


def methods() -> Iterator[Any]:
    world = World()
    for part in ("runs", "run", "sessions", "session", "threads", "thread", "memories", "files"):
        for name in dir(world.part(part)):
            method = getattr(world.part(part), name)
            if not name.startswith("_") and name not in LEFT_OUT and callable(method):
                yield pytest.param(part, name, id=f"{part}.{name}")


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("hello")


@pytest.mark.parametrize(("part", "name"), list(methods()))
def test_a_wrong_argument_is_refused_in_our_own_words_and_spoils_nothing(part: str, name: str) -> None:
    for parameter in _parameters(getattr(World().part(part), name)):
        world = World()
        before = world.held()
        for junk in JUNK:
            method = getattr(world.part(part), name)
            with suppress(StrongroomError):
                _call(method, world, parameter.name, junk)
            if world.held() != before:  # else there is nothing new to look at, and the next can have it as well
                world.look()
                world = World()
                before = world.held()
        world.look()


def _parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter for parameter in inspect.signature(method).parameters.values() if parameter.kind in named]


def _call(method: Callable[..., Any], world: World, wrong: str, junk: Any) -> None:
    given = {each.name: world.usual(each.name) for each in _parameters(method) if each.default is each.empty}
    if "Files." in method.__qualname__:
        given |= {name: value for name, value in FILES.items() if name in given}
    answer = method(**{**given, wrong: junk})
    if inspect.isgenerator(answer):
        next(answer, None)


INSIDE: dict[str, Callable[[World, Any], object]] = {
    "a field": lambda world, deep: world.run.update(next_action=deep),
    "a list": lambda world, deep: world.run.update(blockers=deep),
    "an item": lambda world, deep: world.run.update(append={"sliding_context": [deep]}),
    "what is taken out": lambda world, deep: world.run.update(remove={"blockers": [deep]}),
    "a decision": lambda world, deep: world.run.update_with(lambda _: {"blockers": deep}),
    "a criterion": lambda world, deep: world.ctx.runs.create(objective="o", acceptance_criteria=[deep]),
    "a configuration": lambda world, deep: world.ctx.runs.create(objective="o", config={"ws_max_tokens": deep}),
    "an event": lambda world, deep: world.run.record("TOOL_CALL", {"tool_name": "t", "arguments": deep}),
    "a message": lambda world, deep: world.session.append({"role": "user", "content": deep}),
    "metadata": lambda world, deep: world.session.append({"role": "user", "content": "c", "metadata": {"a": deep}}),
    "a payload": lambda world, deep: world.ctx.threads.append("t1", {"a": deep}, from_id="a", to_id="b"),
    "a memory": lambda world, deep: world.ctx.memories.propose([fact(content=deep)], proposer="p"),
    "a source": lambda world, deep: world.ctx.memories.propose([fact(source_refs=[deep])], proposer="p"),
}


@pytest.mark.parametrize("where", INSIDE)
@pytest.mark.parametrize("deep", DEEP, ids=["list", "object"])
def test_what_is_nested_too_deep_is_refused_wherever_it_is(where: str, deep: Any) -> None:
    world = World()
    with pytest.raises(StrongroomError):
        INSIDE[where](world, deep)
    world.look()


@pytest.mark.parametrize("item", [None, {}, {"memory_id": "m", "confidence": 1}, {"memory_id": "m", "content": "x"}])
def test_a_brief_of_what_is_no_memory_is_refused(item: Any) -> None:
    with pytest.raises(InvalidInput, match=r"a memory, a hit of a search or a v2\.1 item was expected"):
        World().run.brief(memories=[item])


@pytest.mark.parametrize("field", Policy.__struct_fields__)
def test_a_policy_that_makes_no_sense_cannot_be_made(field: str) -> None:
    for junk in JUNK:
        with suppress(StrongroomError):
            policy = Policy(**{field: junk})
            world = World()
            memories = world.ctx.memories.using(policy=policy)
            batch = memories.propose([FACT], proposer="x")
            assert batch.status == "pending"
            memories.commit(batch.id, reviewer="r")
            world.look()


def test_a_proposer_is_not_trusted_for_being_part_of_a_name() -> None:
    with pytest.raises(InvalidInput, match="auto_commit must be a set, each text"):
        Policy(auto_commit="agent")  # type: ignore[arg-type]


CUT = "\ud800"  # half of a character, as a cut-off escape sequence leaves it
HALVES: dict[str, Callable[[Context], object]] = {
    "config of a new run": lambda ctx: ctx.runs.create(objective="o", config={CUT: 1}),
    "config of a run": lambda ctx: ctx.runs.open("r2", objective="o", config={CUT: 1}),
    "actor": lambda ctx: ctx.runs.get("r").record("TOOL_CALL", {"tool_name": "x"}, actor=CUT),
    "parent": lambda ctx: ctx.runs.get("r").record("TOOL_CALL", {"tool_name": "x"}, parent=CUT),
    "reader of a brief": lambda ctx: ctx.runs.get("r").brief(max_tokens=500, user_id=CUT),
    "learner's user": lambda ctx: ctx.memories.learn("s", model=lambda _: {}, user_id=CUT),
    "learner's project": lambda ctx: ctx.memories.learn("s", model=lambda _: {}, project_id=CUT),
    "user to tidy up for": lambda ctx: ctx.memories.consolidate(model=lambda _: {}, user_id=CUT),
    "project to tidy up": lambda ctx: ctx.memories.consolidate(model=lambda _: {}, project_id=CUT),
    "field of a request": lambda ctx: ctx.memories.propose({CUT: 1}, proposer="p"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", HALVES)
def test_half_a_character_is_refused_in_our_words(name: str) -> None:
    with strongroom.open("memory://") as ctx:
        ctx.runs.create(objective="o", run_id="r", user_id="u")
        ctx.sessions.open("s").append({"role": "user", "content": "hi"})
        with pytest.raises(InvalidInput) as refused:
            HALVES[name](ctx)
        assert str(refused.value).encode()


class Text(str):
    """A text of somebody's own kind, which cannot even be compared."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise KeyError("eq")


def test_a_text_of_a_kind_of_its_own_is_what_it_says() -> None:
    with strongroom.open("memory://") as ctx:
        added = ctx.memories.add(Text("likes tea"), user_id=Text("u1"), rationale=Text("said so"))
        assert ctx.memories.get(Text(added.id)).user_id == "u1"
        changed = ctx.memories.update(Text(added.id), Text("likes mint tea"))
        ctx.memories.delete(Text(changed.id), reason=Text("wrong"))
        ctx.memories.propose(fact(content=Text("kept")), proposer="p", about=Text("add"))
        run = ctx.runs.create(objective=Text("o"))
        assert run.record("TOOL_CALL", {"tool_name": "x"}, actor=Text("me")).actor == "me"
