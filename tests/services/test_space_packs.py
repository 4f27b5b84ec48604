"""Everything in a pack: from any store to any store, all at once, or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom.blocking import Context
from strongroom.codec import encode, parse
from strongroom.dispatch import Dispatcher, send
from strongroom.errors import Conflict, InvalidInput
from strongroom.store import Store
from tests.services.memory_samples import mcr
from tests.services.pack_files import contents, mended, write


def fill(ctx: Context) -> None:
    """Put a little of everything into a space."""
    run = ctx.runs.create(objective="o", run_id="r1", state={"ticket": "T-1"})
    run.attach(b"content", type="t", path="a.txt")
    run.record("MODEL_ACTION", {"action": "a", "model": "m", "tokens_in": 5})
    run.milestone("m")
    ctx.runs.create(objective="o", run_id="r2").attach(b"content", type="t", path="b.txt")
    session = ctx.sessions.open("s1", title="One", metadata={"k": [1]}, tags={"team": "a"})
    session.append([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi", "id": "m1"}])
    session.append({"role": "assistant", "content": "hello", "pinned": True}, sidecars=[{"raw": 1}])
    session.append([{"role": "user", "content": "cut away", "id": "m2"}, {"role": "user", "content": "too"}])
    session.truncate_from("m2")
    session.append({"role": "user", "content": "again", "id": "m2"})
    session.pin("m1")
    ctx.sessions.open("s2")
    ctx.threads.append("t1", {"a": 1}, from_id="x", to_id="y")
    ctx.threads.append("t1", "text", from_id="y")
    ctx.memories.propose([mcr("tides turn")], proposer="p", batch_id="b1")
    ctx.memories.commit("b1", reviewer="r")


def seen(ctx: Context) -> dict[str, Any]:
    """Return everything that can be seen of it."""
    found: dict[str, Any] = {}
    for run in ctx.runs.list():
        assert run.verify().ok
        told = [event.to_dict() for event in run.events() if event.type != "RESTORED"]
        content = [b"".join(run.artifact(pointer.id)) for pointer in run.working_set.artifact_refs]
        found[f"run {run.id}"] = (run.working_set, run.state, told, list(run.episodes()), content, run.usage())
    for info in ctx.sessions.list():
        session = ctx.sessions.get(info.id)
        said = [(one, one.id, one.at, one.tokens, one.sidecar) for one in session.load()]
        facts = (info.title, info.created_at, info.tokenizer, info.metadata, info.tags, info.pinned)
        found[f"session {info.id}"] = (facts, said, session.window(max_tokens=60).messages)
    for thread in ctx.threads.list():
        slots = [one for one in ctx.threads.get(thread.thread_id).slice() if one.record.body is not None]
        if slots:  # what was erased leaves no place in a pack
            found[f"thread {thread.thread_id}"] = [
                (place, one.payload, one.from_id, one.to_id, one.at) for place, one in enumerate(slots)
            ]
    found["memories"] = [(one.id, one.content) for one in ctx.memories.list()]
    return found


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Context]:
    with strongroom.open("memory://") as ctx:
        fill(ctx)
        yield ctx


def _popped(ctx: Context, pack: Path) -> None:
    session = ctx.sessions.open("S")
    session.append([{"role": "user", "content": said} for said in ("1", "2", "3")])
    session.pop()
    session.pop()
    ctx.export(pack)


def test_a_session_comes_back_with_its_undo(address: str, tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        _popped(ctx, tmp_path / "p.zip")
    with strongroom.open(address) as ctx:
        ctx.restore(tmp_path / "p.zip")
        session = ctx.sessions.get("S")
        session.restore()
        assert [one.content for one in session.load()] == ["1", "2"]


def test_a_session_whose_name_was_there_before_comes_back_as_it_was_seen_and_without_its_undo(
    address: str, tmp_path: Path
) -> None:
    with strongroom.open(address) as ctx:
        _popped(ctx, tmp_path / "p.zip")
        ctx.sessions.delete("S")
        ctx.restore(tmp_path / "p.zip")
        session = ctx.sessions.get("S")
        assert [one.content for one in session.load()] == ["1"]
        with pytest.raises(strongroom.NotFound, match="no cut to undo"):
            session.restore()


def test_a_space_goes_from_any_store_to_another_and_back(address: str, tmp_path: Path) -> None:
    with strongroom.open(address) as first:
        fill(first)
        receipt = first.export(tmp_path / "one.zip")
        before = seen(first)
    assert (receipt.runs, receipt.sessions, receipt.threads, receipt.memories) == (
        ["r1", "r2"],
        ["s1", "s2"],
        ["t1"],
        1,
    )
    with strongroom.open("memory://") as between:
        made = between.restore(tmp_path / "one.zip")
        assert (made.runs, made.sessions, made.threads, made.memories) == (("r1", "r2"), ("s1", "s2"), ("t1",), 1)
        assert seen(between) == before
        between.export(tmp_path / "two.zip")
    with strongroom.open(address, space="another") as back:
        back.restore(tmp_path / "two.zip")
        assert seen(back) == before


async def test_a_pack_is_written_and_read_blocking_and_async(ctx: Any, tmp_path: Path) -> None:
    await (await ctx.sessions.open("s")).append({"role": "user", "content": "hi"})
    await ctx.runs.create(objective="o", run_id="r")
    await ctx.export(tmp_path / "pack.zip", runs=False)
    await ctx.sessions.delete("s")
    assert (await ctx.restore(tmp_path / "pack.zip")).sessions == ("s",)
    assert [one["content"] for one in await (await ctx.sessions.get("s")).load()] == ["hi"]


def test_what_was_hidden_comes_back_hidden_and_can_be_restored(here: Context, tmp_path: Path) -> None:
    here.export(tmp_path / "pack.zip", runs=False)
    with strongroom.open("memory://") as ctx:
        ctx.restore(tmp_path / "pack.zip")
        session = ctx.sessions.get("s1")
        assert session.get("m2")["content"] == "again"
        session.truncate_from("m2")
        session.restore()
        with pytest.raises(Conflict):  # the id was given to another message since, there as here
            session.restore()


def test_only_what_was_asked_for_is_in_the_pack(here: Context, tmp_path: Path) -> None:
    made = here.export(tmp_path / "pack.zip", runs=["r2"], threads=True)
    assert (made.runs, made.sessions, made.threads, made.memories) == (["r2"], [], ["t1"], 0)
    with pytest.raises(strongroom.NotFound):
        here.export(tmp_path / "none.zip", sessions=["nobody"])
    assert not (tmp_path / "none.zip").exists()


def test_who_names_one_run_gives_away_nothing_of_anybody_else(here: Context, tmp_path: Path) -> None:
    made = here.export(tmp_path / "pack.zip", runs=["r2"])
    assert (made.runs, made.sessions, made.threads, made.memories) == (["r2"], [], [], 0)


def test_a_thread_that_was_erased_keeps_nothing_else_from_coming_back(here: Context, tmp_path: Path) -> None:
    here.threads.append("t0", "gone", from_id="x")
    here.threads.erase("t0", start=0)
    here.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as ctx:
        ctx.restore(tmp_path / "pack.zip")
        assert seen(ctx) == seen(here)


def test_a_thread_that_was_erased_is_not_among_those_of_a_pack(here: Context, tmp_path: Path) -> None:
    here.threads.append("t2", "stays", from_id="x")
    here.threads.erase("t1", start=0)
    assert here.export(tmp_path / "pack.zip").threads == ["t2"]


def test_a_thread_that_nobody_wrote_to_cannot_be_asked_for(here: Context, tmp_path: Path) -> None:
    with pytest.raises(strongroom.NotFound, match="nobody"):
        here.export(tmp_path / "none.zip", threads=["t1", "nobody"])


def test_a_space_without_anything_goes_into_a_pack_and_back(address: str, tmp_path: Path) -> None:
    with strongroom.open(address) as ctx:
        ctx.export(tmp_path / "pack.zip")
        made = ctx.restore(tmp_path / "pack.zip", commit_id="one")
        assert (made.runs, made.sessions, made.threads, made.memories) == ((), (), (), 0)
        assert ctx.restore(tmp_path / "pack.zip", commit_id="one") == made


@pytest.mark.parametrize("there", ["run", "session", "thread", "memory"])
def test_what_is_there_already_is_a_conflict_and_nothing_comes(here: Context, tmp_path: Path, there: str) -> None:
    here.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as ctx:
        if there == "run":
            ctx.runs.create(objective="mine", run_id="r2")
        elif there == "session":
            ctx.sessions.open("s2")
        elif there == "memory":
            [mine] = here.memories.list()
            ctx.memories.add("something else", memory_id=mine.id)
        else:
            ctx.threads.append("t1", 1, from_id="a")
        before = _stored(ctx.store)
        with pytest.raises(Conflict):
            ctx.restore(tmp_path / "pack.zip")
        assert _stored(ctx.store) == before


def test_a_repeat_of_a_restore_changes_nothing(here: Context, tmp_path: Path) -> None:
    here.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as ctx:
        first = ctx.restore(tmp_path / "pack.zip", commit_id="c")
        before = _stored(ctx.store)
        assert ctx.restore(tmp_path / "pack.zip", commit_id="c") == first
        assert _stored(ctx.store) == before


def test_a_signature_can_be_demanded(here: Context, tmp_path: Path) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = os.urandom(32)
    public = ed25519.Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
    here.export(tmp_path / "signed.zip", signing_key=key)
    here.export(tmp_path / "plain.zip")
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match="not signed"):
            ctx.restore(tmp_path / "plain.zip", public_key=public)
        with pytest.raises(InvalidInput, match="another key"):
            ctx.restore(tmp_path / "signed.zip", public_key=os.urandom(32))
        assert ctx.restore(tmp_path / "signed.zip", public_key=public).sessions == ("s1", "s2")


def test_a_message_that_was_delivered_is_not_delivered_again(here: Context, tmp_path: Path) -> None:
    here.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as ctx:
        ctx.restore(tmp_path / "pack.zip")
        assert not [key for key, *_ in _stored(ctx.store) if key.kind == "mail"]


def _handled(ctx: Context) -> list[Any]:
    """Handle what is due for `y`, and return it."""
    dispatcher, handled = Dispatcher(ctx), list[Any]()
    dispatcher.handler("y")(lambda payload, call: handled.append(payload))
    dispatcher.drain()
    return handled


def test_a_new_message_brings_none_from_before_the_restore_along(here: Context, tmp_path: Path) -> None:
    assert _handled(here) == [{"a": 1}]
    here.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as ctx:
        ctx.restore(tmp_path / "pack.zip")
        assert _handled(ctx) == []
        ctx.threads.append("t1", "new", from_id="x", to_id="y")
        assert _handled(ctx) == ["new"]


def test_a_message_that_waited_when_the_pack_was_made_is_not_delivered_either(here: Context, tmp_path: Path) -> None:
    here.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as ctx:
        ctx.restore(tmp_path / "pack.zip")
        ctx.threads.append("t1", "new", from_id="x", to_id="y")
        assert _handled(ctx) == ["new"]


def test_nor_where_a_thread_of_that_name_had_ended(here: Context, tmp_path: Path) -> None:
    here.export(tmp_path / "pack.zip", runs=False, sessions=False, memories=False)
    with strongroom.open("memory://") as ctx:
        ctx.threads.append_many("t1", ["old"] * 3, from_id="x", to_id="y")
        ctx.threads.delete("t1")
        ctx.restore(tmp_path / "pack.zip")
        ctx.threads.append("t1", "new", from_id="x", to_id="y")
        assert _handled(ctx) == ["new"]


# ---- hostile packs --------------------------------------------------------------------------------------------------

Entries = dict[str, bytes]


def _edited(name: str, **fields: Any) -> Any:
    def edit(entries: Entries) -> Entries:
        first, _, rest = entries[name].partition(b"\n")
        return mended({**entries, name: encode({**parse(first), **fields}) + b"\n" + rest})

    return edit


def _without(entries: Entries, name: str) -> Entries:
    return mended({other: data for other, data in entries.items() if other != name})


def _cut(**fields: Any) -> Any:
    def edit(entries: Entries) -> Entries:
        *lines, cut = entries["sessions/000000.jsonl"].splitlines()
        told = b"\n".join([*lines, encode({**parse(cut), **fields})])
        return mended({**entries, "sessions/000000.jsonl": told + b"\n"})

    return edit


def _slot(body: Any, **fields: Any) -> Any:
    def edit(entries: Entries) -> Entries:
        head, _, rest = entries["threads/000000.jsonl"].split(b"\n", 2)
        slot = encode({"type": "str", "body": body, "at": 0, "from_id": "x", "to_id": "y", **fields}, depth=-8)
        return mended({**entries, "threads/000000.jsonl": b"\n".join([head, slot, rest])})

    return edit


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: dict[str, Any] = {
    "a flipped byte": lambda entries: {**entries, "sessions/000000.jsonl": b"x" + entries["sessions/000000.jsonl"][1:]},
    "an entry too many": lambda entries: mended({**entries, "keys/000000.json": b"{}"}),
    "a way out": lambda entries: mended({**entries, "sessions/../../x": b"{}"}),
    "a run that is none": lambda entries: mended({**entries, "runs/000000.zip": b"PK"}),
    "a session that is none": lambda entries: mended({**entries, "sessions/000000.jsonl": b"[]\n"}),
    "a session that ends early": _edited("sessions/000000.jsonl", messages=7),
    "a session without a name": _edited("sessions/000000.jsonl", session=""),
    "ranges that overlap": _edited("sessions/000000.jsonl", visible=[[0, 3], [1, None]]),
    "ranges that end": _edited("sessions/000000.jsonl", visible=[[0, 3]]),
    "ranges below zero": _edited("sessions/000000.jsonl", visible=[[-1, None]]),
    "an open range beyond the end": _edited("sessions/000000.jsonl", visible=[[0, 1], [1 << 40, None]]),
    "a range beyond the end": _edited("sessions/000000.jsonl", visible=[[0, 100], [200, None]]),
    "an open range just beyond the end": _edited("sessions/000000.jsonl", visible=[[0, 3], [7, None]]),
    "pins elsewhere": _edited("sessions/000000.jsonl", pins=[99]),
    "a cut that is not there": _edited("sessions/000000.jsonl", cut=5),
    "a cut that is none": _cut(type="restored", body=None),
    "a cut that comes after itself": _cut(body={"ranges": [[3, 5]], "previous": 0, "kept_from": 0}),
    "a cut beyond the end": _cut(body={"ranges": [[3, 99]], "previous": None, "kept_from": 0}),
    "a cut before the beginning": _cut(body={"ranges": [[-2, 1]], "previous": None, "kept_from": 0}),
    "a field too many": _edited("sessions/000000.jsonl", recount=[0, 5]),
    "a claim in a tag": _edited("sessions/000000.jsonl", tags={"=name": "x", "": ""}),
    "a thread without a name": _edited("threads/000000.jsonl", thread=7),
    "a thread without slots": lambda entries: mended({**entries, "threads/000000.jsonl": b'{"thread":"t"}\n'}),
    "a slot that is none": lambda entries: mended(
        {**entries, "threads/000000.jsonl": b'{"thread":"t"}\n{"type":"a","body":7,"at":0,"from_id":"a"}\n'}
    ),
    "a slot too many parts": _slot(["a", {}, "b"]),
    "a slot that is nested too deep": _slot([_nested(103)]),
    "a slot of no type": _slot(["a"], type="a\nb"),
    "a slot of nobody": _slot(["a"], from_id=""),
    "a slot for a name too long": _slot(["a"], to_id="y" * 3_000),
    "a slot at no time": _slot(["a"], at=2**62),
    "metadata that are none": _slot(["a", 2]),
    "a call chain that is none": _slot(["a", {"chain": 5}]),
    "a call chain of numbers": _slot(["a", {"chain": [1, 2]}]),
    "a call chain of nobody": _slot(["a", {"chain": ["", "y"]}]),
    "a call chain with a name too long": _slot(["a", {"chain": ["x" * 3_000, "y"]}]),
    "a call chain with a name of two lines": _slot(["a", {"chain": ["x\n", "y"]}]),
    "a memory of nobody": _edited("memories.jsonl", scope="user", user_id=None),
    "a memory that is too long": _edited("memories.jsonl", content="x" * 8_001),
    "a promise of memories": lambda entries: _without(entries, "memories.jsonl"),
    "a promise of a run": lambda entries: _without(entries, "runs/000001.zip"),
    "a promise of a session": lambda entries: _without(entries, "sessions/000001.jsonl"),
    "a promise of a thread": lambda entries: _without(entries, "threads/000000.jsonl"),
    "a session that was not promised": _edited("sessions/000000.jsonl", session="s3"),
    "a memory twice": lambda entries: mended({**entries, "memories.jsonl": entries["memories.jsonl"] * 2}),
    "a memory that is none": lambda entries: mended({**entries, "memories.jsonl": b'{"id":"m"}\n'}),
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_pack_writes_nothing(here: Context, tmp_path: Path, attack: str) -> None:
    here.export(tmp_path / "pack.zip")
    write(tmp_path / "hostile.zip", HOSTILE[attack](contents(tmp_path / "pack.zip")))
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput):
            ctx.restore(tmp_path / "hostile.zip")
        assert _stored(ctx.store) == []


def test_a_call_chain_comes_back_with_its_message(tmp_path: Path) -> None:
    with strongroom.open("memory://") as first, strongroom.open("memory://") as second:
        desk = Dispatcher(first)
        desk.handler("a")(lambda payload, call: send("b", payload))
        desk.send("t", "x", from_id="user", to_id="a")
        desk.drain()
        [inner] = [one.thread_id for one in first.threads.list() if one.thread_id != "t"]
        first.export(tmp_path / "pack.zip")
        second.restore(tmp_path / "pack.zip")
        assert second.threads.get(inner)[0].chain == ("user", "a", "b")


def test_a_pack_cannot_hide_the_system_message_from_a_window(here: Context, tmp_path: Path) -> None:
    here.sessions.get("s1").append([{"role": "user", "content": "and so on " * 4} for _ in range(9)])
    here.export(tmp_path / "pack.zip")
    entries = _edited("sessions/000000.jsonl", kept_from=99)(contents(tmp_path / "pack.zip"))
    write(tmp_path / "hostile.zip", entries)
    with strongroom.open("memory://") as ctx:
        ctx.restore(tmp_path / "hostile.zip")
        assert ctx.sessions.get("s1").window(max_tokens=60).messages[0]["role"] == "system"


def _words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize("tokenizer", ["default", _words])
def test_what_a_pack_says_of_tokens_is_not_believed(tmp_path: Path, tokenizer: Any) -> None:
    with strongroom.open("memory://") as first, strongroom.open("memory://") as second:
        session = first.sessions.open("s", tokenizer=tokenizer)
        session.append([{"role": "user", "content": "word " * 5_000}, {"role": "user", "content": "short"}])
        first.export(tmp_path / "pack.zip")
        entries = contents(tmp_path / "pack.zip")
        header, *told = entries["sessions/000000.jsonl"].splitlines()
        lies = [encode({**parse(line), "tokens": 0}) for line in told]
        forged = b"\n".join([header, *lies, b""])
        second.restore(write(tmp_path / "forged.zip", mended({**entries, "sessions/000000.jsonl": forged})))
        assert min(one.tokens for one in second.sessions.get("s").load()) > 0
        back = second.sessions.open("s", tokenizer=tokenizer)
        assert back.window(max_tokens=100).messages == [{"role": "user", "content": "short"}]
        assert [one.tokens for one in back.load()] == [one.tokens for one in session.load()]
        assert back.wait() == back.backlog().uncounted == 0
        assert [one.tokens for one in back.load()] == [one.tokens for one in session.load()]


def test_a_pack_that_unpacks_to_more_than_is_allowed_is_refused(here: Context, tmp_path: Path) -> None:
    here.export(tmp_path / "pack.zip")
    with strongroom.open("memory://") as ctx:
        with pytest.raises(InvalidInput, match="1000 are allowed"):
            ctx.restore(tmp_path / "pack.zip", max_bytes=1000)
        assert _stored(ctx.store) == []


def test_a_pack_of_another_kind_is_refused(here: Context, tmp_path: Path) -> None:
    here.runs.get("r1").export(tmp_path / "run.zip")
    here.export(tmp_path / "space.zip")
    with pytest.raises(InvalidInput, match=r"runs\.restore"):
        here.restore(tmp_path / "run.zip")
    with pytest.raises(InvalidInput, match="refused"):
        here.runs.restore(tmp_path / "space.zip", run_id="x")


# ---- random spaces --------------------------------------------------------------------------------------------------

TEXT = st.text(max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from("ab"), st.sampled_from(["user", "system", "tool"]), TEXT),
        st.tuples(st.just("cut"), st.sampled_from("ab"), st.integers(0, 5), st.none()),
        st.tuples(st.just("back"), st.sampled_from("ab"), st.none(), st.none()),
        st.tuples(st.just("send"), st.sampled_from("tu"), TEXT, st.none()),
        st.tuples(st.just("erase"), st.sampled_from("tu"), st.integers(0, 2), st.none()),
        st.tuples(st.just("delete"), st.sampled_from("tu"), st.none(), st.none()),
        st.tuples(st.just("state"), st.sampled_from("rq"), st.dictionaries(TEXT, TEXT, max_size=2), st.none()),
    ),
    max_size=15,
)


def _do(ctx: Context, step: str, name: str, one: Any, other: Any) -> None:
    if step in ("say", "cut", "back"):
        session = ctx.sessions.open(name)
        if step == "say":
            session.append({"role": one, "content": other})
        elif step == "back":
            try:
                session.restore()
            except strongroom.NotFound:
                pass
        elif one < len(session):
            session.truncate_from(session.load()[one].id)
    elif step == "send":
        ctx.threads.append(name, {"text": one}, from_id="a")
    elif step == "erase":
        try:
            ctx.threads.erase(name, start=one)
        except strongroom.NotFound:
            pass
    elif step == "delete":
        ctx.threads.delete(name)
    else:
        ctx.runs.open(name, objective="o").update(state=one)


@settings(max_examples=40)
@given(STEPS)
def test_a_random_space_survives_a_pack(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    path = tmp_path_factory.mktemp("packs") / "pack.zip"
    with strongroom.open("memory://") as first, strongroom.open("memory://") as second:
        for step in steps:
            _do(first, *step)
        first.export(path)
        second.restore(path)
        assert seen(second) == seen(first)
        for step in steps:  # and both go on alike
            _do(first, *step)
            _do(second, *step)
        assert _said(second) == _said(first)


def _said(ctx: Context) -> Any:
    return {info.id: list(ctx.sessions.get(info.id).load()) for info in ctx.sessions.list()}


def _stored(store: Store) -> list[Any]:
    items = store.unload(None, 100_000).items  # type: ignore[attr-defined]
    return [(item.key, item) for item in items]


def test_any_number_of_sessions_come_back_and_a_repeat_tells_them(tmp_path: Path) -> None:
    with strongroom.open("memory://") as ctx:
        for n in range(1100):
            ctx.sessions.open(f"a session with a name of sixty characters or so, number {n:06d}")
        ctx.export(tmp_path / "all.pack")
    with strongroom.open("memory://") as ctx:
        told = ctx.restore(tmp_path / "all.pack", commit_id="one")
        assert len(told.sessions) == 1100
        assert ctx.restore(tmp_path / "all.pack", commit_id="one") == told
