"""Counting tokens, and fitting messages into a budget of them. Pure: nothing here reads or writes."""

from __future__ import annotations

from strongroom.tokens.counting import Custom, Encoding, Tokenizer, is_built_in, tokenizer
from strongroom.tokens.estimate import Estimate
from strongroom.tokens.fitting import fit
from strongroom.tokens.messages import count_message, count_tools
from strongroom.tokens.windows import LeftOut, Window, WindowReceipt

__all__ = [
    "Custom",
    "Encoding",
    "Estimate",
    "LeftOut",
    "Tokenizer",
    "Window",
    "WindowReceipt",
    "count_message",
    "count_tools",
    "fit",
    "is_built_in",
    "tokenizer",
]
