"""Erasing files, as properties: whatever was moved where, it can be erased, and only that goes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom import Conflict, InvalidInput, NotFound

PATHS = st.sampled_from([f"/{folder}/{name}" for folder in "st" for name in "ab"] + ["/c"])
PLACES = PATHS | st.sampled_from(["/s", "/t"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS),
        st.tuples(st.just("rename"), PLACES, PLACES),
        st.tuples(st.just("swap"), PLACES, PLACES),
        st.tuples(st.just("delete"), PLACES),
        st.tuples(st.just("restore"), PATHS),
        st.tuples(st.just("erase"), PATHS),
    ),
    max_size=24,
).map(lambda steps: [("write", "/s/a"), ("write", "/s/b"), ("write", "/t/a"), *steps])


def take(files: Any, number: int, step: tuple[str, ...]) -> None:
    """Take one step, if it can be taken."""
    verb, *where = step
    with suppress(Conflict, InvalidInput, NotFound):
        if verb == "write":
            files.write(where[0], f"secret {number}")
        elif verb == "delete":
            files.delete(where[0], recursive=True)
        elif verb == "swap":
            for path, to in ((where[0], "/u"), (where[1], where[0]), ("/u", where[1])):
                files.rename(path, to)
        elif verb == "restore":
            files.restore(where[0], 1)
        else:
            getattr(files, verb)(*where)


def paths_of(files: Any) -> list[str]:
    """Return every path at which something ever was."""
    tried = [f"/{one}" for one in "abcstu"]
    tried += [f"/{top}/{one}" for top in "abcstu" for one in "abcstu"]
    tried += [f"/{top}/{middle}/{one}" for top in "abcstu" for middle in "abcstu" for one in "abcstu"]
    return [path for path in tried if files.history(path, limit=1)]


def texts(files: Any) -> dict[str, str]:
    return {one.path: files.read(one.path).text for one in files.list(limit=1_000)}


def erase_all(files: Any) -> None:
    """Erase every path; where that is refused, the one that the refusal names comes first."""
    waiting = paths_of(files)
    while waiting:
        refused = []
        for path in waiting:
            try:
                files.erase(path)
            except InvalidInput:
                refused.append(path)
        assert len(refused) < len(waiting), f"nobody can erase {refused}"
        waiting = refused


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_whatever_was_moved_where_every_path_can_be_erased_and_nothing_it_said_is_left(
    steps: list[tuple[str, ...]],
) -> None:
    with strongroom.open("memory://") as ctx:
        for number, step in enumerate(steps):
            take(ctx.files, number, step)
        erase_all(ctx.files)
        for path in paths_of(ctx.files):
            for one in ctx.files.history(path, limit=1_000):
                with suppress(NotFound):
                    raise AssertionError(ctx.files.at(path, one.version))
        assert texts(ctx.files) == {} and list(ctx.files.search("secret")) == []


@given(STEPS, PATHS)
@settings(max_examples=300, deadline=None)
def test_erasing_a_path_takes_no_other_file_away_and_names_those_that_moved_on(
    steps: list[tuple[str, ...]], path: str
) -> None:
    with strongroom.open("memory://") as ctx:
        for number, step in enumerate(steps):
            take(ctx.files, number, step)
        before = texts(ctx.files)
        said = {
            ctx.files.at(path, one.version).text
            for one in ctx.files.history(path)
            if one.bytes and one.change != "erased"
        }
        with suppress(InvalidInput, NotFound):
            told = ctx.files.erase(path)
            assert texts(ctx.files) == {other: text for other, text in before.items() if other != path}
            assert {other for other, text in texts(ctx.files).items() if text in said} <= {*told.elsewhere}


@given(STEPS)
@settings(max_examples=25, deadline=None)
def test_no_byte_of_files_that_were_erased_is_left_in_the_store(steps: list[tuple[str, ...]]) -> None:
    with TemporaryDirectory() as folder:
        with strongroom.open(Path(folder, "a.db")) as ctx:
            for number, step in enumerate(steps):
                take(ctx.files, number, step)
            erase_all(ctx.files)
        assert not [one for one in Path(folder).iterdir() if b"secret" in one.read_bytes()]
