"""The thread registry by its own names."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from uuid import UUID, uuid4

import pytest

from strongroom.compat.xml_pipeline.memory.context_buffer import ContextBuffer
from strongroom.compat.xml_pipeline.memory.shared_backend import BackendConfig, get_shared_backend
from strongroom.compat.xml_pipeline.message_bus.thread_registry import (
    ThreadRegistry,
    get_registry,
    reset_registry,
)

earlier = import_module("strongroom.compat.agentserver.message_bus.thread_registry")  # under its earlier name


@pytest.fixture(params=["alone", "shared"])
def registry(request: pytest.FixtureRequest) -> Iterator[ThreadRegistry]:
    if request.param == "alone":
        yield ThreadRegistry()
        return
    backend = get_shared_backend(BackendConfig("manager"))
    yield ThreadRegistry(backend)
    backend.close()


def test_the_root_is_the_same_each_time(registry: ThreadRegistry) -> None:
    assert (registry.root_uuid, registry.root_chain) == (None, "system")
    root = registry.initialize_root("organism")
    assert registry.initialize_root("organism") == root == registry.root_uuid
    assert registry.lookup(root) == registry.root_chain == "system.organism"
    assert registry.get_or_create("system.organism") == root


def test_the_first_name_of_the_root_stays(registry: ThreadRegistry) -> None:
    root = registry.initialize_root("first")
    assert registry.initialize_root("second") == root
    assert registry.root_chain == "system.first"


def test_a_conversation_that_began_elsewhere_begins_at_the_root(registry: ThreadRegistry) -> None:
    registry.initialize_root("organism")
    thread_id = registry.register_thread(str(uuid4()), "console", "router")
    assert registry.lookup(thread_id) == "system.organism.console.router"
    target, caller = registry.prune_for_response(thread_id)
    assert caller is not None
    assert (target, registry.lookup(caller)) == ("console", "system.organism.console")


def test_a_chain_below_the_root_has_one_id(registry: ThreadRegistry) -> None:
    found = registry.get_or_create("console.router")
    assert registry.get_or_create("console.router") == found
    assert registry.lookup(found) == "console.router"
    assert str(UUID(found)) == found


def test_an_unknown_id_stands_for_nothing(registry: ThreadRegistry) -> None:
    assert registry.lookup(str(uuid4())) is None
    assert registry.prune_for_response("nothing") == (None, None)
    registry.cleanup("nothing")


def test_a_response_goes_to_the_caller_on_the_callers_id(registry: ThreadRegistry) -> None:
    first = registry.start_chain("console", "router")
    further = registry.extend_chain(first, "greeter")
    assert registry.lookup(further) == "console.router.greeter"
    assert registry.prune_for_response(further) == ("router", first)
    target, home = registry.prune_for_response(first)
    assert target == "console"
    assert home is not None
    assert registry.prune_for_response(home) == (None, None)


def test_a_name_with_dots_gets_its_response_home(registry: ThreadRegistry) -> None:
    first = registry.start_chain("console", "calculator.add")
    further = registry.extend_chain(first, "log.file")
    assert registry.prune_for_response(further) == ("calculator.add", first)
    assert registry.prune_for_response(first)[0] == "console"


def test_conversations_on_the_same_route_share_no_id(registry: ThreadRegistry) -> None:
    given = [str(uuid4()) for _ in range(3)]
    fronts = [registry.register_thread(one, "console", "front") for one in given]
    assert fronts == given
    backs = [registry.extend_chain(one, "back") for one in fronts]
    started = [registry.start_chain("console", "front") for _ in range(3)]
    assert len({*fronts, *backs, *started}) == 9
    assert [registry.lookup(one) for one in fronts] == ["console.front"] * 3
    assert [registry.prune_for_response(back) for back in backs] == [("front", front) for front in fronts]


def test_unregistered_ids_do_not_lead_to_a_shared_chain(registry: ThreadRegistry) -> None:
    first, second = (registry.extend_chain(str(uuid4()), "back") for _ in range(2))
    assert first != second


def test_each_of_three_users_sees_only_their_own_history(registry: ThreadRegistry) -> None:
    buffer = ContextBuffer()
    threads = []
    for user in range(3):
        front = registry.register_thread(str(uuid4()), "console", "front")
        back = registry.extend_chain(front, "back")
        buffer.append(back, f"secret of user {user}", "front", "back")
        threads.append(back)
    histories = [[slot.payload for slot in buffer.get_thread_slots(thread)] for thread in threads]
    assert histories == [[f"secret of user {user}"] for user in range(3)]


def test_every_conversation_gets_its_reply(registry: ThreadRegistry) -> None:
    buffer = ContextBuffer()
    asked = [registry.register_thread(str(uuid4()), "console", "svc") for _ in range(3)]
    for number, thread in enumerate(asked):
        target, home = registry.prune_for_response(thread)
        assert target is not None
        assert home is not None
        buffer.append(home, f"re:{number}", "svc", target)
    homes = [registry.prune_for_response(thread)[1] for thread in asked]
    assert [[slot.payload for slot in buffer.get_thread_slots(home or "")] for home in homes] == [
        [f"re:{number}"] for number in range(3)
    ]


def test_the_same_call_on_the_same_id_is_the_same_chain(registry: ThreadRegistry) -> None:
    first = registry.start_chain("console", "router")
    assert registry.extend_chain(first, "greeter") == registry.extend_chain(first, "greeter")


@pytest.mark.parametrize("thread_id", ["my-thread", "0190A8C2-7B1E-7000-8000-0123456789AB", "0" * 32])
def test_an_id_made_elsewhere_is_kept_as_it_came(registry: ThreadRegistry, thread_id: str) -> None:
    assert registry.register_thread(thread_id, "console", "router") == thread_id
    assert registry.register_thread(thread_id, "console", "other") == thread_id
    assert registry.lookup(thread_id) == "console.router"


def test_cleaning_up_forgets_what_was_called_too(registry: ThreadRegistry) -> None:
    first = registry.start_chain("console", "router")
    further = registry.extend_chain(first, "greeter")
    registry.cleanup(first)
    assert (registry.lookup(first), registry.lookup(further)) == (None, None)


def test_the_dump_shows_every_chain(registry: ThreadRegistry) -> None:
    found = registry.start_chain("console", "calculator.add")
    dump = registry.debug_dump()
    assert dump[found] == "console.calculator.add"
    assert "console" in dump.values()


def test_a_process_has_one_registry() -> None:
    assert get_registry() is get_registry() is earlier.get_registry()


def test_clearing_forgets_every_chain_and_the_root(registry: ThreadRegistry) -> None:
    registry.initialize_root("organism")
    further = registry.extend_chain(registry.start_chain("console", "router"), "greeter")
    registry.clear()
    assert (registry.debug_dump(), registry.lookup(further)) == ({}, None)
    assert (registry.root_uuid, registry.root_chain) == (None, "system")
    registry.initialize_root("another")
    assert registry.root_chain == "system.another"


def test_a_process_has_one_registry_until_it_is_reset() -> None:
    first = get_registry()
    assert get_registry() is first
    reset_registry()
    assert get_registry() is not first
