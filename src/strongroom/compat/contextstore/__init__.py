"""ContextStore's names over Strongroom: `from strongroom.compat.contextstore import SQLiteMemory`."""

from __future__ import annotations

from strongroom.compat.contextstore.context_builder import ContextBuilder
from strongroom.compat.contextstore.embedding import EmbedFn, infer_embedding_dim, validate_vectors
from strongroom.compat.contextstore.interfaces import MemoryBackend
from strongroom.compat.contextstore.memory_backends import InMemoryMemory, SQLiteMemory
from strongroom.compat.contextstore.retrieval import (
    InMemoryEmbeddingStore,
    RetrievalBackend,
    RetrievedItem,
    retrieve_relevant,
)
from strongroom.compat.contextstore.session_store import SessionStore, SessionStoreConfig
from strongroom.compat.contextstore.tokenizer import FallbackWordCountTokenizer, ModelTokenizer, tokenizer_from_name
from strongroom.compat.contextstore.tokenizer_interfaces import (
    BuildResult,
    ContextBuilderInterface,
    MessageFilter,
    MetricsCallback,
    SummarizerCallback,
    TokenCountResult,
    Tokenizer,
    TruncationResult,
    TruncationStrategy,
    deterministic_sort_key,
)
from strongroom.compat.contextstore.truncation import (
    RecentOnlyStrategy,
    SummarizeOldestStrategy,
    TruncateOldestStrategy,
    get_strategy,
)
from strongroom.compat.interactions import Interaction

# The version of ContextStore whose names these are.
__version__ = "0.4.0"

__all__ = [
    "BuildResult",
    "ContextBuilder",
    "ContextBuilderInterface",
    "EmbedFn",
    "FallbackWordCountTokenizer",
    "InMemoryEmbeddingStore",
    "InMemoryMemory",
    "Interaction",
    "MemoryBackend",
    "MessageFilter",
    "MetricsCallback",
    "ModelTokenizer",
    "RecentOnlyStrategy",
    "RetrievalBackend",
    "RetrievedItem",
    "SQLiteMemory",
    "SessionStore",
    "SessionStoreConfig",
    "SummarizeOldestStrategy",
    "SummarizerCallback",
    "TokenCountResult",
    "Tokenizer",
    "TruncateOldestStrategy",
    "TruncationResult",
    "TruncationStrategy",
    "deterministic_sort_key",
    "get_strategy",
    "infer_embedding_dim",
    "retrieve_relevant",
    "tokenizer_from_name",
    "validate_vectors",
]
