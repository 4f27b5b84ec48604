"""What a writer's key cannot do: rewrite what happened, speak for another, or take another's id first."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import msgspec
import pytest

import strongroom
from strongroom.client.store import HttpStore
from strongroom.codec import encode, pack
from strongroom.dispatch import Dispatcher
from strongroom.errors import InvalidInput, Unavailable
from strongroom.operations import Operation, identify
from strongroom.payloads import EventType, ToolCall
from strongroom.protocol import wire
from strongroom.scope import Scope
from strongroom.server.ids import caller_id, marked_ids, own_id
from strongroom.server.keys import Caller
from strongroom.server.oidc import name_of
from strongroom.services.runs.ledger import KIND as LEDGER
from strongroom.services.runs.state import Ref, find, put, record
from strongroom.services.threads.deliveries import DELIVERY, Delivery, read_delivery
from strongroom.store import Append, Commit, Get, Key, Put, ReceiptOf, Write, new_id
from tests.server.conftest import client
from tests.server.serving import Served, served

PAID: ToolCall = {"tool_name": "pay", "arguments": {"amount": 1_000_000}}


@pytest.fixture
def server() -> Iterator[Served]:
    with served() as started:
        yield started


@pytest.fixture
def writer(server: Served) -> Iterator[strongroom.Context]:
    with strongroom.connect(server.url, key=server.key(role="writer")) as ctx:
        yield ctx


def name_in(key: str) -> str:
    """Return what a key is called, which is no secret."""
    return key.removeprefix("srk_").partition(".")[0]


# ---- history --------------------------------------------------------------------------------------------------------


async def forged(server: Served) -> list[Write]:
    """Return the three writes that give a run another past: two to another ledger, and a document that names it."""
    scope = Scope(server.app.state.store)
    _, state = await find(scope, "r")
    other = Ref(scope, "r", "another-ledger")
    began = record(other, "RUN_START", {"config": {}}, actor="ana")
    told = record(other, "TOOL_CALL", {"tool_name": "pay", "arguments": {"amount": 0}}, actor="ana")
    moved = msgspec.structs.replace(state, streams=other.streams)
    return [Append(other.ledger, (began,)), Append(other.ledger, (told,)), put(other, moved)]


def test_a_writer_cannot_exchange_the_ledger_of_a_run(server: Served, writer: strongroom.Context) -> None:
    run = writer.runs.create(objective="o", run_id="r")
    run.record("TOOL_CALL", PAID)
    for write in server.do(forged(server)):
        with pytest.raises(Unavailable) as refused:
            writer.store.commit(Commit(new_id(), (), (write,)))
        assert refused.value.reason == "permission"
    assert [event.payload for event in run.events(types=["TOOL_CALL"])] == [PAID]
    assert run.verify().ok
    assert server.do(Scope(server.app.state.store).get(Get(Key("default", LEDGER, "another-ledger")))) is None


def test_a_writer_is_recorded_under_its_own_key_whatever_it_calls_itself(server: Served) -> None:
    key = server.key(role="writer")
    with strongroom.connect(server.url, key=key) as ctx:
        run = ctx.runs.create(objective="o", actor="ana")
        run.record("TOOL_CALL", PAID, actor="ana")
        run.record("TOOL_CALL", PAID)
        run.update(next_action="n", actor="ana")
        assert {event.actor for event in run.events()} == {f"{name_in(key)}/ana"}
        assert {event.actor for event in ctx.runs.create(objective="o").events()} == {name_in(key)}
        batch = ctx.memories.propose([dict(op="add", **FACT)], proposer="ana")  # type: ignore[list-item]
        assert batch.proposer == f"{name_in(key)}/ana"


FACT = {
    "type": "fact",
    "scope": "global",
    "confidence": 0.9,
    "source_refs": [],
    "content": "one request a second",
    "rationale": "robots.txt",
}


@pytest.mark.parametrize("type", ["RUN_START", "WS_UPDATE_APPLIED", "MILESTONE", "ERASED"])
def test_what_only_the_service_records_is_refused_at_every_door(server: Served, type: str) -> None:
    key = server.key(role="writer")
    with strongroom.connect(server.url, key=key) as ctx, client(server.url, key) as http:
        run = ctx.runs.create(objective="o", run_id="r")
        with pytest.raises(InvalidInput, match="not by hand"):
            run.record(EventType(type), {})
        content = encode({"type": type, "payload": {"reason": "r"}, "actor": "ana", "parent": None})
        assert isinstance(ctx.store, HttpStore)
        with pytest.raises(InvalidInput, match="not by hand"):
            ctx.store.perform(Operation("run.record", Key("default", "run", "r"), content, f"~{new_id()}"))
        answer = http.post("/runs/r/events", json={"type": type, "payload": {"reason": "r"}})
        assert answer.status_code in (400, 422) and "not by hand" in answer.text
        assert len(run.events()) == 1


def test_a_pack_that_was_never_made_is_not_recorded(server: Served, writer: strongroom.Context) -> None:
    writer.runs.create(objective="o", run_id="r")
    told = {"pack_id": f"pack_{'0' * 16}", "run_id": "r", "head": {"length": 1, "chain": "0" * 64}}
    besides = encode({**told, "manifest_sha256": "0" * 64, "signed": False})
    forged = Operation("run.export", Key("default", "run", "r"), encode({"where": "w"}), f"~{new_id()}", besides)
    store = writer.store
    assert isinstance(store, HttpStore)
    with pytest.raises(InvalidInput, match="not made of the run's ledger"):
        store.perform(forged)


@pytest.mark.parametrize("chain", [["boss", "worker"], [], 5, True, None, "boss"], ids=str)
def test_a_message_of_a_chain_cannot_be_made_up(writer: strongroom.Context, chain: object) -> None:
    store = writer.store
    assert isinstance(store, HttpStore)
    said = encode({"entries": [["str", ["hi", {"chain": chain}], "a", "worker"]]})
    with pytest.raises(InvalidInput, match="only a dispatcher"):
        store.perform(Operation("threads.append", Key("default", "thread", "t"), said, f"~{new_id()}"))


# ---- workers --------------------------------------------------------------------------------------------------------


def worked(writer: strongroom.Context, name: str, **said: object) -> None:
    """Say as a worker what it does to the one message of a thread."""
    store, key = writer.store, Key("default", DELIVERY, "t")
    assert isinstance(store, HttpStore)
    writer.threads.append("t", "x", from_id="user", to_id="h")
    taken = encode({"owner": "w", "lease_seconds": 5.0})
    lease = store.perform(Operation("dispatch.take", key, taken, f"~{new_id()}"))
    assert lease is not None
    told = encode({"owner": "w", "version": lease.versions[0], "index": 0, "lease_seconds": 5.0, **said})
    store.perform(Operation(f"dispatch.{name}", key, told, f"~{new_id()}"))


@pytest.mark.parametrize(
    "answer", [[None, "a\nb\x00", 1], [None, "", 1], ["h", "a" * 3_000, 1]], ids=lambda a: a[1][:5]
)
def test_an_answer_of_a_type_that_none_can_have_is_refused(writer: strongroom.Context, answer: object) -> None:
    with pytest.raises(InvalidInput, match="a payload's type"):
        worked(writer, "conclude", answers=[answer])
    assert len(writer.threads.get("t")) == 1


@pytest.mark.parametrize("to", ["", "a\nb", "a" * 3_000], ids=lambda to: to[:5])
def test_an_answer_to_nobody_is_refused(writer: strongroom.Context, to: str) -> None:
    with pytest.raises(InvalidInput, match="to_id"):
        worked(writer, "conclude", answers=[[to, "int", 1]])
    assert len(writer.threads.list()) == 1


def test_a_dead_letter_is_told_so_much_of_an_error_and_no_more(writer: strongroom.Context) -> None:
    worked(writer, "conclude", dead={"error": "x" * 300_000, "attempts": 1})
    [letter] = Dispatcher(writer).dead_letters()
    assert letter.error == "x" * 2_000


async def delivery(server: Served) -> Delivery:
    scope = Scope(server.app.state.store)
    return read_delivery(await scope.get(Get(scope.key(DELIVERY, "t"))))


async def test_of_the_error_of_a_message_that_is_put_off_so_much_is_kept_and_no_more(
    server: Served, writer: strongroom.Context
) -> None:
    worked(writer, "put_off", error="x" * 300_000)
    assert (await delivery(server)).put_off["h"].error == "x" * 2_000


@pytest.mark.parametrize("seconds", [1e9, 9e12, 9e15])
async def test_a_message_is_put_off_for_a_year_at_most(
    server: Served, writer: strongroom.Context, seconds: float
) -> None:
    worked(writer, "put_off", error="e", delay_seconds=seconds)
    later = (await delivery(server)).put_off["h"].not_before / 1_000_000 - time.time()
    assert 360 < later / 86_400 < 370


# ---- ids ------------------------------------------------------------------------------------------------------------


def test_nobody_takes_another_callers_key_first(server: Served) -> None:
    victim, thief = server.key(role="writer"), server.key(role="writer")
    slot = {"payload": "order", "from_id": "a"}
    with client(server.url, victim) as http, strongroom.connect(server.url, key=thief) as ctx:
        for guess in ("k", f"http:{name_in(victim)}:k", own_id(Caller(name_in(victim), "default", "writer"), "k")):
            ctx.threads.append("t", "order", from_id="a", commit_id=guess)
            with pytest.raises(Unavailable, match="admin"):
                ctx.store.commit(Commit(guess, (), (Put(Key("default", "thing", "t"), encode(1)),)))
        with client(server.url, thief) as other:
            other.post("/threads/t/slots", json=slot, headers={"Idempotency-Key": "k"})
        before = len(ctx.threads.get("t"))
        assert http.post("/threads/t/slots", json=slot, headers={"Idempotency-Key": "k"}).json()["index"] == before


def test_an_id_is_the_same_through_both_doors(server: Served) -> None:
    key = server.key(role="writer")
    with client(server.url, key) as http, strongroom.connect(server.url, key=key) as ctx:
        first = ctx.threads.append("t", "order", from_id="a", commit_id="k")
        answer = http.post("/threads/t/slots", json={"payload": "order", "from_id": "a"}, headers=keyed("k"))
        assert (answer.json()["index"], first.index, len(ctx.threads.get("t"))) == (0, 0, 1)


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def test_no_two_callers_have_an_id_in_common() -> None:
    one, other = Caller("oidc:a", "s", "writer"), Caller("oidc:a:b", "s", "writer")
    assert own_id(one, "b:c") != own_id(other, "c")
    now = f"~{new_id()}"
    assert len({own_id(one, now), own_id(other, now), now}) == 3
    assert own_id(one, now) == own_id(one, now)
    assert own_id(one, "x" * 255) != own_id(other, "x" * 255) and len(own_id(one, "x" * 255)) < 255


def test_an_id_that_a_server_made_up_is_taken_from_nobody_but_its_caller() -> None:
    one, other = Caller("a", "s", "writer"), Caller("b", "s", "writer")
    with marked_ids(one):
        id, _ = identify(Operation("runs.create", Key("s", "run", "r"), encode({})))
    told = f"~{id}"
    assert caller_id(one, told) == told
    assert caller_id(other, told) == own_id(other, told) != told


def test_a_thief_of_an_unknown_outcome_repeats_nothing_and_spoils_nothing(server: Served) -> None:
    slot = {"payload": "order", "from_id": "a"}
    with (
        client(server.url, victim := server.key(role="writer")) as http,
        client(server.url, server.key(role="writer")) as thief,
    ):
        with marked_ids(Caller(name_in(victim), "default", "writer")):
            id = f"~{identify(Operation('threads.append', Key('default', 'thread', 't'), encode({})))[0]}"
        stolen = thief.post("/threads/t/slots", json={**slot, "payload": "other"}, headers=keyed(id))
        made = http.post("/threads/t/slots", json=slot, headers=keyed(id))
        again = http.post("/threads/t/slots", json=slot, headers=keyed(id))
    assert [each.json()["index"] for each in (stolen, made, again)] == [0, 1, 1]


def test_an_id_from_the_future_is_not_believed_to_be_new() -> None:
    caller = Caller("a", "s", "writer")
    assert own_id(caller, f"~{'f' * 32}").startswith("http:")
    assert own_id(caller, f"~{'0' * 32}").startswith("http:")
    assert own_id(caller, made := f"~{new_id()}").startswith(made[:17])


def test_a_receipt_is_not_shown_to_a_writer(writer: strongroom.Context) -> None:
    with pytest.raises(Unavailable) as refused:
        writer.store.read([ReceiptOf("default", "any")])
    assert refused.value.reason == "permission"


@pytest.mark.parametrize("length", [50, 300])
def test_two_people_with_long_names_are_two(length: int) -> None:
    assert name_of("x" * length + "a") != name_of("x" * length + "b")
    assert len(name_of("x" * 1000)) < 100


def test_nobody_can_be_called_what_a_long_name_becomes() -> None:
    assert name_of(name_of("x" * 300).removeprefix("oidc")) != name_of("x" * 300)
    assert name_of("a\nb").isprintable() and name_of("a\nb") != name_of("ab")


# ---- counts and summaries -------------------------------------------------------------------------------------------


def test_counts_are_believed_only_for_a_tokenizer_that_the_server_does_not_have(server: Served) -> None:
    with strongroom.connect(server.url, key=server.key(role="writer")) as ctx:
        store = ctx.store
        assert isinstance(store, HttpStore)
        said = pack({"messages": [{"role": "user", "content": "a few words of a user"}]})
        counts = encode({"tokenizer": "mine", "tokens": [1_000_000]})
        for tokenizer, expected in ((None, False), (mine, True)):
            session = ctx.sessions.open(f"{expected}", tokenizer=tokenizer)
            key = Key("default", "session", session.id)
            store.perform(Operation("session.append", key, said, f"~{new_id()}", counts))
            assert (session.load()[0].tokens == 1_000_000) is expected


def mine(text: str) -> int:
    return len(text)


def test_a_summary_of_messages_that_are_not_there_is_refused(server: Served, writer: strongroom.Context) -> None:
    session = writer.sessions.open("s")
    session.append([{"role": "user", "content": "hi"}])
    store = writer.store
    assert isinstance(store, HttpStore)
    summary = {"text": "all is paid", "covers": 5, "stop": 5, "ranges": [[0, 5]]}
    asked = encode({"summary": summary, "tokens": 1})
    with pytest.raises(InvalidInput):
        store.perform(Operation("session.summarize", Key("default", "session", "s"), asked, f"~{new_id()}"))


def test_the_wire_of_an_operation_is_strict(roles: dict[str, httpx.Client]) -> None:
    for content in (b"{ }", b"not JSON", b"[1]"):
        told = {"name": "runs.create", "id": "new", "content": content, "commit_id": "k", "besides": None}
        answer = roles["writer"].post("/store/perform", content=wire.dump(told), headers={"Content-Type": wire.MEDIA})
        assert answer.status_code == 422
