"""The order of memories that were found. Pure.

Memories of one owner that name the same first source (a session, a document, a meeting) stand in a row, in the order
in which they became known, and help each other as the messages of a session do: what was said before and after is
often what a question is about. The rows of the best candidates are read, up to a fixed number of rows and of memories
in each, so that a search costs the same however much is known. Memories without a source stand alone, and of a source
with more memories than that all but the first do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

import strongroom.retrieval as retrieval
from strongroom.queries import Asked
from strongroom.retrieval import AROUND, Position, Text
from strongroom.services.memories import keys, screening
from strongroom.services.memories.days import day_of
from strongroom.services.memories.values import Hit, Memory
from strongroom.stemming import words

MOST_ROWS = 16
LONGEST_ROW = 64

_PUNCTUATION = ".,;:!?()[]{}\"'"

# The tag of an owner, and the tag of a source.
SourceRow = tuple[str, str]
Candidates = Mapping[str, Memory]
Nearest = Mapping[str, tuple[Memory, float]]


def row_of(memory: Memory) -> SourceRow | None:
    if not memory.source_refs:
        return None
    return keys.owner(memory.user_id, memory.project_id), keys.source_tag(memory.source_refs[0])


def about(asked: Asked, query: str, found: Candidates) -> str:
    """Return what to compare meanings with: the query, without those it names if they speak in what words found."""
    texts = [_text(memory, asked) for memory in found.values()]
    return retrieval.without_names(asked, texts) if any(text.speaker for text in texts) else query


def rows(
    asked: Asked,
    total: int,
    counts: Mapping[str, int],
    found: Candidates,
    near: Nearest,
    of_that_day: Sequence[Memory] = (),
) -> list[SourceRow]:
    """Return the rows that are worth reading: those of the best candidates by words, by meaning, and by their day."""
    cited = {id: memory for id, memory in found.items() if memory.source_refs}
    texts: dict[Position, Text] = {(id, 0): _text(memory, asked) for id, memory in sorted(cited.items())}
    by_words = [found[id] for id, _ in retrieval.promising(asked, texts, total, counts, AROUND)]
    by_meaning = [near[id][0] for id in sorted(near, key=lambda id: (-near[id][1], id))[:AROUND]]
    best = chain.from_iterable(zip_longest(by_words, by_meaning, of_that_day))
    rows = dict.fromkeys(row_of(memory) for memory in best if memory is not None)
    return [row for row in rows if row is not None][:MOST_ROWS]


def ranked(
    asked: Asked,
    total: int,
    counts: Mapping[str, int],
    found: Candidates,
    near: Nearest,
    beside: Sequence[Sequence[Memory]] = (),
) -> list[Hit]:
    """Put candidates, and what stands beside them, in order.

    Equal scores are ordered by id, so the order never depends on an index.
    """
    candidates = {**found, **{id: memory for id, (memory, _) in near.items()}}
    # No id holds a line break, so no row has the name of a memory that stands alone.
    memories = {(f"\n{row[0].id}", n): memory for row in beside if row for n, memory in enumerate(row)}
    placed = {memory.id for memory in memories.values()}
    memories |= {(id, 0): memory for id, memory in candidates.items() if id not in placed}
    texts = {place: _text(memory, asked) for place, memory in memories.items()}
    meaning = {place: near[memory.id][1] for place, memory in memories.items() if memory.id in near}
    opinions = retrieval.rank(asked, texts, total, counts, meaning)
    # Said in the query's own spelling: a stem such as "deploi" would puzzle a reader.
    tokens = ((token.strip(_PUNCTUATION), words(token)) for token in asked.query.split())
    spelled = {stem: token for token, stems in tokens for stem in stems}
    hits = []
    for place, opinion in opinions.items():
        memory = memories[place]
        if opinion.found or memory.id in candidates:
            said = set(texts[place].words)
            shared = list(dict.fromkeys(token for stem, token in spelled.items() if stem in said))
            hits.append(Hit(memory, opinion.score, opinion.why(shared, "memory")))
    return sorted(hits, key=lambda hit: (-hit.score, hit.memory.id))


def _text(memory: Memory, asked: Asked) -> Text:
    content = screening.plain(memory.content)
    speaker, said = retrieval.spoken(content)
    # A name before the text stays one of its words: here it is the content, and not a note about it.
    return Text(said, words(content), speaker, day=day_of(memory) if asked.day is not None else None)
