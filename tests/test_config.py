"""Settings: where they come from, which one wins, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strongroom.config import Backend, ProcessPool, Settings, load
from strongroom.errors import BudgetExceeded, InvalidInput

FILE = """
backend:
  type: sqlite
  url: agent.db
  max_slots_per_thread: 2
process_pool:
  max_workers: 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, name: str = "strongroom.yaml") -> str:
    Path(name).write_text(text)
    return name


def test_without_anything_the_data_is_in_a_file_here() -> None:
    assert load(environ={}).url == "strongroom.db"


def test_the_file_in_this_folder_is_read() -> None:
    write(FILE)
    settings = load(environ={})
    assert settings.backend == Backend(type="sqlite", url="agent.db", max_slots_per_thread=2)
    assert settings.process_pool == ProcessPool(max_workers=3)


def test_the_environment_can_name_the_file() -> None:
    assert load(environ={"STRONGROOM_CONFIG": write(FILE, "other.yaml")}).url == "agent.db"


def test_the_environment_wins_over_the_file_and_arguments_win_over_both() -> None:
    write(FILE)
    environ = {
        "STRONGROOM_URL": "env.db",
        "STRONGROOM_PROCESS_POOL_MAX_WORKERS": "5",
        "STRONGROOM_BACKEND_MAX_THREADS": "7",
    }
    settings = load(environ=environ, backend={"url": "argument.db"})
    assert (settings.url, settings.process_pool.max_workers) == ("argument.db", 5)
    assert (settings.backend.max_threads, settings.backend.max_slots_per_thread) == (7, 2)


def test_how_long_ids_are_remembered_follows_the_same_order() -> None:
    write("backend: {url: agent.db, repeats: 60d}")
    assert load(environ={}).options == {"repeats": "60d"}
    assert load(environ={"STRONGROOM_REPEATS": "90d"}).options == {"repeats": "90d"}
    assert load(environ={"STRONGROOM_REPEATS": "90d"}, backend={"repeats": "1d"}).options == {"repeats": "1d"}
    with load(environ={}).open() as ctx:
        assert ctx.store.kept_seconds == 60 * 86400  # type: ignore[attr-defined]


async def test_how_long_ids_are_remembered_is_not_for_those_who_only_read() -> None:
    write("backend: {url: agent.db, repeats: 60d}")
    load(environ={}).open().close()
    with load(environ={}).open(read_only=True) as ctx:
        assert ctx.threads.list() == ()
    async with load(environ={}).aopen(read_only=True) as actx:
        assert await actx.threads.list() == ()


def test_an_empty_file_changes_nothing() -> None:
    write("")
    assert load(environ={}) == Settings()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("backnd: {}", "'backend'"),
        ("backend: {max_thread: 1}", "'max_threads'"),
        ("backend: {ttl: 1}", "'ttl_seconds'"),
        ("process_pool: {workers: 1}", "'max_workers'"),
    ],
)
def test_a_wrong_key_is_named_with_the_nearest_right_one(text: str, hint: str) -> None:
    write(text)
    with pytest.raises(InvalidInput, match=f"did you mean {hint}"):
        load(environ={})


def test_a_wrong_name_in_the_environment_is_named_too() -> None:
    with pytest.raises(InvalidInput, match=r"STRONGROOM_BACKEND_MAX_THREAD: .*'max_threads'"):
        load(environ={"STRONGROOM_BACKEND_MAX_THREAD": "1"})


def test_a_wrong_argument_is_named_too() -> None:
    with pytest.raises(InvalidInput, match="'prefix'"):
        load(environ={}, backend={"prefx": "x"})


@pytest.mark.parametrize(
    "text",
    [
        "backend: {max_threads: many}",
        "backend: {max_threads: 0}",
        "backend: {ttl_seconds: -1}",
        "backend: {type: oracle}",
        "backend: {type: redis}",
        "backend: {type: redis, url: agent.db}",
        "backend: {url: agent.db, prefix: x}",
        "backend: [1]",
        "backend: {repeats: 30}",
        "backend: {repeats: a while}",
        "process_pool: {max_workers: 0}",
        "just text",
        "{unclosed",
        "!!python/object/apply:os.system ['touch owned']",
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_opened(text: str, folder: Path) -> None:
    write(text)
    with pytest.raises(InvalidInput):
        load(environ={})
    assert [path.name for path in folder.iterdir()] == ["strongroom.yaml"]


def test_a_file_that_is_named_must_exist() -> None:
    with pytest.raises(InvalidInput, match=r"missing\.yaml"):
        load("missing.yaml", environ={})


@pytest.mark.parametrize("url", ["redis://host/0", "redis://host/0?x=1"])
def test_a_prefix_becomes_part_of_the_address(url: str) -> None:
    settings = load(environ={}, backend={"url": url, "prefix": "xp:"})
    assert settings.url == f"{url}{'&' if '?' in url else '?'}prefix=xp%3A"


def test_opening_applies_the_limits() -> None:
    write(FILE)
    with load(environ={}).open() as ctx:
        ctx.threads.append_many("t", [1, 2], from_id="a")
        with pytest.raises(BudgetExceeded):
            ctx.threads.append("t", 3, from_id="a")


async def test_opening_for_async_code_applies_the_limits() -> None:
    async with load(environ={}, backend={"type": "memory", "max_threads": 1}).aopen() as ctx:
        await ctx.threads.append("t", 1, from_id="a")
        with pytest.raises(BudgetExceeded):
            await ctx.threads.append("u", 2, from_id="a")


def test_a_dispatcher_gets_its_pool_from_the_settings() -> None:
    write(FILE)
    options: dict[str, Any] = load(environ={}).dispatch
    assert options == {"address": "agent.db", "max_workers": 3, "max_tasks_per_child": None}
