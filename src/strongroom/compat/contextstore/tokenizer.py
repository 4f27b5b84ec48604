"""Tokenizers by ContextStore's names, over `strongroom.tokens`."""

from __future__ import annotations

import logging
import re
from typing import Any

from strongroom.compat.contextstore.tokenizer_interfaces import TokenCountResult, Tokenizer
from strongroom.errors import InvalidInput
from strongroom.tokens import tokenizer as find_tokenizer

log = logging.getLogger(__name__)

# Writing without spaces between words (Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean): each sign is a word.
_SIGNS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
)
FALLBACK = "fallback_word_count"
USUAL = {
    "gpt-4",
    "gpt-4-turbo",
    "gpt-4o",
    "gpt-3.5-turbo",
    "text-embedding-ada-002",
    "text-embedding-3-small",
    "text-embedding-3-large",
}
_WORD = re.compile(rf"[{_SIGNS}]|[^\s{_SIGNS}]+")


class FallbackWordCountTokenizer(Tokenizer):
    """Counts words and multiplies. Needs nothing, and is always an estimate."""

    TOKENS_PER_WORD = 1.3

    def __init__(self, tokens_per_word: float = TOKENS_PER_WORD) -> None:
        self._tokens_per_word = tokens_per_word

    @property
    def name(self) -> str:
        return FALLBACK

    def count_tokens(self, text: str) -> TokenCountResult:
        words = sum(1 for _ in _WORD.finditer(text or ""))
        return TokenCountResult(int(words * self._tokens_per_word), approximate=True)

    def tokenize(self, text: str) -> list[int] | None:
        return None


class ModelTokenizer(Tokenizer):
    """Counts with a model's own tokenizer: one of Strongroom's, or any object that can encode a text."""

    def __init__(self, tokenizer: Any, tokenizer_name: str) -> None:
        self.tokenizer = tokenizer
        self._name = tokenizer_name
        self._count = getattr(tokenizer, "count", None)
        # What looks like a control token in a user's text is text like any other.
        self._encode = getattr(tokenizer, "encode_ordinary", None) or getattr(tokenizer, "encode", None)

    @property
    def name(self) -> str:
        return self._name

    def count_tokens(self, text: str) -> TokenCountResult:
        approximate = bool(getattr(self.tokenizer, "approximate", False))
        if not text:  # whatever a tokenizer puts around a text
            return TokenCountResult(0, approximate)
        count = self._count(text) if self._count is not None else len(self.tokenize(text) or ())
        return TokenCountResult(count, approximate)

    def tokenize(self, text: str) -> list[int] | None:
        if self._encode is None:
            return None
        return list(self._encode(text)) if text else []


def tokenizer_from_name(name: str, **opts: Any) -> Tokenizer:
    """Return the tokenizer of a model or an encoding: exact if it can be had here, otherwise the fallback, logged.

    The extra `tokens` knows the current encodings and needs no network; tiktoken, if installed, knows the others.
    Options that only another tokenizer has are left alone.
    """
    fallback = FallbackWordCountTokenizer(opts.get("tokens_per_word", FallbackWordCountTokenizer.TOKENS_PER_WORD))
    if name in ("fallback", FALLBACK):
        return fallback
    try:
        found = find_tokenizer(name)
        if not found.approximate:
            return ModelTokenizer(found, _shown(name, found.name))
        why = "the extra 'tokens' does not have it"
    except InvalidInput as problem:
        why = str(problem)
    try:
        return _by_tiktoken(name)
    except ImportError:
        pass
    except Exception as problem:  # unknown there, or known and not to be downloaded now
        why = f"tiktoken has no {name!r:.80} here ({type(problem).__name__})"
    log.warning("Falling back to word counts for %.80r: %s", name, why)
    return fallback


def _by_tiktoken(name: str) -> Tokenizer:
    import tiktoken  # type: ignore[import-not-found,unused-ignore]  # large, and not everybody has it

    try:
        encoding = tiktoken.get_encoding(name)
    except ValueError:
        encoding = tiktoken.encoding_for_model(name)
    return ModelTokenizer(encoding, _shown(name, encoding.name))


def _shown(name: str, encoding: str) -> str:
    """Return what a tokenizer is called: by its encoding for the usual models, by the model's name for the others."""
    return encoding if name in USUAL else name
