"""ContextStore's names over Holdfast: `from holdfast.compat.contextstore import SQLiteMemory`."""

from __future__ import annotations

from holdfast.compat.contextstore.context_builder import ContextBuilder
from holdfast.compat.contextstore.embedding import EmbedFn, infer_embedding_dim, validate_vectors
from holdfast.compat.contextstore.interfaces import MemoryBackend
from holdfast.compat.contextstore.memory_backends import InMemoryMemory, SQLiteMemory
from holdfast.compat.contextstore.models import Interaction
from holdfast.compat.contextstore.retrieval import (
    InMemoryEmbeddingStore,
    RetrievalBackend,
    RetrievedItem,
    retrieve_relevant,
)
from holdfast.compat.contextstore.session_store import SessionStore, SessionStoreConfig
from holdfast.compat.contextstore.tokenizer import FallbackWordCountTokenizer, ModelTokenizer, tokenizer_from_name
from holdfast.compat.contextstore.tokenizer_interfaces import (
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
from holdfast.compat.contextstore.truncation import (
    RecentOnlyStrategy,
    SummarizeOldestStrategy,
    TruncateOldestStrategy,
    get_strategy,
)

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
