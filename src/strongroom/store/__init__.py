"""The port: two verbs over plain data. Everything else in Strongroom is a layer on top of this package.

Theory of operation
-------------------
A store holds two shapes of thing, each under a `Key` of (space, kind, id):

* a **document**: one JSON value with a version that counts its writes from 1;
* a **stream**: a gapless, append-only list of records, indexed from 0. Its version is its length.

`read` answers any number of questions from one snapshot in one round trip; over HTTP a thousand at most, as far as the
answers fit into one, and what is more in another, of its own snapshot (`protocol.paging`). `commit` applies any number
of writes if every expectation holds, all or nothing, and answers only when the store's `durability` is met.

Rules
-----
1. A commit lives in one space. A space never sees another: there is no way to ask without naming one.
2. A commit's id makes a repeat safe: the second call returns the first receipt, marked as `repeated`, and changes
   nothing. The same id with another digest is refused. Ids that a caller chose (`keep`) are kept as long as the store
   was told to, others an hour at least. A refused commit leaves no trace, so its id may be tried again.
3. Expectations are judged against the state before the commit; writes are applied in order.
4. Appends without an expectation commute: they never conflict, whoever else is writing.
5. A key keeps its shape for life. Versions and lengths never go back, not even across `Delete`: what comes after a
   deletion continues the count, so nobody can mistake the new thing for the old one.
6. What goes in is valid by construction: `Json` is made only by `strongroom.codec.encode`, keys check themselves.
7. A tag whose name begins with `=` is a claim: of the documents of a kind, one at most carries it with a given value.
   A commit after which two would is refused with `Conflict`, so a claim can be handed over within one commit.
8. Errors are `strongroom.errors`; a driver's own exception never leaves a backend.
"""

from __future__ import annotations

from strongroom.store.bounds import Bounded, Budget, Part, ended, within
from strongroom.store.checks import (
    MAX_RECORD_BYTES,
    check_expectation,
    check_length,
    check_sizes,
    claimed,
    repeat_of,
    used_otherwise,
    wrong_shape,
)
from strongroom.store.claims import CLAIM, Claim, claims_of, settled_by
from strongroom.store.commits import (
    EXISTS,
    MAX_ANSWER,
    MAX_DIGEST,
    Append,
    Commit,
    Delete,
    Entry,
    Erase,
    Expect,
    Put,
    Receipt,
    Truncate,
    Write,
    new_id,
)
from strongroom.store.export import EXPORT_BYTES, Exportable, ExportItem, ExportPage
from strongroom.store.names import MAX_NAME, Key, require_name, require_text
from strongroom.store.questions import (
    Answer,
    AnyQuestion,
    Document,
    Get,
    Page,
    Question,
    Range,
    ReceiptOf,
    Record,
    Scan,
    Slice,
    Tail,
    cursor,
)
from strongroom.store.retention import OUR_SECONDS, REPEATS, Repeats, in_words, kept_seconds
from strongroom.store.search import MOST_WORDS, Find, Found, Match, Searchable, matches_within
from strongroom.store.verbs import AsyncStore, Durability, Store, Watchable, ask, ask_all

__all__ = [
    "CLAIM",
    "EXISTS",
    "EXPORT_BYTES",
    "MAX_ANSWER",
    "MAX_DIGEST",
    "MAX_NAME",
    "MAX_RECORD_BYTES",
    "MOST_WORDS",
    "OUR_SECONDS",
    "REPEATS",
    "Answer",
    "AnyQuestion",
    "Append",
    "AsyncStore",
    "Bounded",
    "Budget",
    "Claim",
    "Commit",
    "Delete",
    "Document",
    "Durability",
    "Entry",
    "Erase",
    "Expect",
    "ExportItem",
    "ExportPage",
    "Exportable",
    "Find",
    "Found",
    "Get",
    "Key",
    "Match",
    "Page",
    "Part",
    "Put",
    "Question",
    "Range",
    "Receipt",
    "ReceiptOf",
    "Record",
    "Repeats",
    "Scan",
    "Searchable",
    "Slice",
    "Store",
    "Tail",
    "Truncate",
    "Watchable",
    "Write",
    "ask",
    "ask_all",
    "check_expectation",
    "check_length",
    "check_sizes",
    "claimed",
    "claims_of",
    "cursor",
    "ended",
    "in_words",
    "kept_seconds",
    "matches_within",
    "new_id",
    "repeat_of",
    "require_name",
    "require_text",
    "settled_by",
    "used_otherwise",
    "within",
    "wrong_shape",
]
