"""Reading the points of Qdrant's local files, which Python's own serialisation wrote.

Loading never executes code, so this is no general reader: it knows the instructions that build plain values, and for an
object it keeps the name of its class and the state that was stored. There is nothing in it that could import or call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from msgspec import Struct

MARK = object()
CONSTANTS: dict[int, Any] = {ord("N"): None, 0x88: True, 0x89: False}
EMPTY: dict[int, Callable[[], Any]] = {ord("}"): dict, ord("]"): list, ord(")"): tuple, 0x8F: set}
# Instruction: how the number is stored that follows it.
NUMBERS = {ord("J"): "<i", ord("K"): "<B", ord("M"): "<H", ord("G"): ">d"}
TEXTS = {0x8C: "<B", ord("X"): "<I", 0x8D: "<Q"}
GETS = {ord("h"): "<B", ord("j"): "<I"}
PUTS = {ord("q"): "<B", ord("r"): "<I"}
TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}


class Damaged(Exception):
    """This is no point."""


class Stored(Struct):
    """An object of some class: its name, and what was stored of it."""

    name: str
    state: Any = None


def read(raw: bytes) -> Any:
    """Return the value that was written. Raise `Damaged` for anything but plain values and objects with a state."""
    try:
        return _Reader(raw).read()
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error):
        raise Damaged from None


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = bytes(raw), 0
        self._stack: list[Any] = []
        self._known: dict[int, Any] = {}

    def read(self) -> Any:
        while True:
            code = self._number("<B")
            if code == ord("."):
                return self._stack.pop()
            if code in CONSTANTS:
                self._stack.append(CONSTANTS[code])
            elif code in EMPTY:
                self._stack.append(EMPTY[code]())
            elif code in NUMBERS:
                self._stack.append(self._number(NUMBERS[code]))
            elif code in TEXTS:
                self._stack.append(self._bytes(self._number(TEXTS[code])).decode("utf-8", "surrogatepass"))
            elif code in GETS:
                self._stack.append(self._known[self._number(GETS[code])])
            elif code in PUTS:
                self._known[self._number(PUTS[code])] = self._stack[-1]
            elif code in TUPLES:
                self._stack[-TUPLES[code] :] = [tuple(self._stack[-TUPLES[code] :])]
            else:
                self._rare(code)

    def _rare(self, code: int) -> None:
        stack = self._stack
        if code == 0x80:  # which version of the format
            self._number("<B")
        elif code == 0x95:  # how long the next part is
            self._number("<Q")
        elif code == 0x94:
            self._known[len(self._known)] = stack[-1]
        elif code == 0x8A:  # a whole number of any length
            stack.append(int.from_bytes(self._bytes(self._number("<B")), "little", signed=True))
        elif code == ord("("):
            stack.append(MARK)
        elif code == ord("t"):
            stack.append(tuple(self._marked()))
        elif code in (ord("u"), ord("s")):
            pairs = self._marked() if code == ord("u") else [stack.pop(-2), stack.pop()]
            stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))
        elif code in (ord("e"), ord("a")):
            more = self._marked() if code == ord("e") else [stack.pop()]
            stack[-1].extend(more)
        elif code == 0x90:
            more = self._marked()
            stack[-1].update(more)
        elif code == 0x93:  # the class of what follows
            module, name = stack.pop(-2), stack.pop()
            stack.append(Stored(f"{module}.{name}"))
        elif code == 0x81:  # an object of it, made without arguments
            if stack.pop() != ():
                raise Damaged
            stack.append(Stored(stack.pop().name))
        elif code == ord("b"):
            state = stack.pop()
            stack[-1].state = state
        else:
            raise Damaged

    def _marked(self) -> list[Any]:
        """Take what was put on the stack since the mark."""
        place = max(place for place, one in enumerate(self._stack) if one is MARK)
        found = self._stack[place + 1 :]
        del self._stack[place:]
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _bytes(self, count: int) -> bytes:
        found = self._raw[self._at : self._at + count]
        if len(found) != count:
            raise Damaged
        self._at += count
        return found
