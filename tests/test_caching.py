"""What is remembered about texts is bounded in bytes, not only in number."""

from __future__ import annotations

from strongroom.caching import LONGEST, cached_if_short


def test_short_texts_are_remembered_and_long_ones_are_not() -> None:
    made: list[int] = []

    @cached_if_short(maxsize=4)
    def size(text: str) -> int:
        made.append(len(text))
        return len(text)

    for length in (1, LONGEST, LONGEST + 1):
        assert [size("x" * length) for _ in range(2)] == [length, length]
    assert made == [1, LONGEST, LONGEST + 1, LONGEST + 1]
