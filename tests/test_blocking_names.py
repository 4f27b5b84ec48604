"""Whoever writes blocking code never reads of an async name: not in a signature, not in its help, not in an error."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import strongroom
import strongroom.blocking
from strongroom.errors import StrongroomError


def handles() -> Iterator[type]:
    for module in pkgutil.iter_modules(strongroom.blocking.__path__, "strongroom.blocking."):
        found = vars(import_module(module.name)).values()
        yield from (one for one in found if inspect.isclass(one) and one.__module__ == module.name)
    yield strongroom.Context


def methods(handle: type) -> list[str]:
    return [name for name, found in vars(handle).items() if callable(found) and not name.startswith("_")]


@pytest.mark.parametrize("handle", list(handles()), ids=lambda handle: handle.__name__)
def test_a_method_tells_of_blocking_names_only(handle: type) -> None:
    for name in methods(handle):
        method = getattr(handle, name)
        assert "Async" not in f"{inspect.signature(method)} {inspect.getdoc(method)} {method.__qualname__}", name


def test_a_wrong_call_is_answered_with_blocking_names_only() -> None:
    told = []
    with strongroom.open("memory://") as ctx, ctx.turn() as turn:
        run, session = ctx.runs.create(objective="o"), ctx.sessions.open("s")
        ctx.threads.append("t", 1, from_id="a")
        things = [ctx, ctx.runs, run, ctx.sessions, session, ctx.memories, ctx.threads, ctx.threads.get("t"), ctx.files]
        for thing in (*things, turn, ctx.registry):
            for name in sorted({name for kind in type(thing).__mro__ for name in methods(kind)} - {"close"}):
                told += [wrong(thing, name, ()), wrong(thing, name, (object(),) * 9)]
    assert [words for words in told if "Async" in words] == []
    assert len([words for words in told if words]) > 200


def wrong(thing: Any, name: str, given: tuple[object, ...]) -> str:
    """Call a method as nobody may, and return what is said."""
    try:
        getattr(thing, name)(*given, there_is_no_such_thing=1)
    except (TypeError, StrongroomError) as refused:
        return str(refused)
    return ""
