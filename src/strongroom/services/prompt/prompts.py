"""Reading what a prompt needs, and putting it together.

The conversation and the run are of one snapshot. What is searched for is asked right after it; of the conversation only
what that snapshot shows counts. All that is read is bounded by the budget, however long the history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from strongroom.arguments import checked
from strongroom.bridge import can_search
from strongroom.errors import BudgetExceeded, InvalidInput
from strongroom.queries import require_query
from strongroom.quoting import flat, quoted
from strongroom.scope import Scope
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.prompt.composing import (
    BEGUN,
    CONVERSATION,
    EARLIER,
    ENDED,
    MEMORIES,
    RUN,
    SHARES,
    SYSTEM,
    TOOLS,
    CachedTokenizer,
    Chosen,
    Piece,
    always_tokens,
    check_fits,
    choose,
    context_texts,
    context_tokens,
    count_sent,
    count_system,
    frame_tokens,
    in_order,
    part_tokens,
    spoken_tokens,
    system_tokens,
    with_context,
)
from strongroom.services.prompt.formats import ALTERNATING, FORMATS, Format, begun, ended, shaped
from strongroom.services.prompt.looking import Looked, looked
from strongroom.services.prompt.options import Asked, Known, of_whom
from strongroom.services.prompt.turns import Turn, repaired
from strongroom.services.prompt.values import Prompt, PromptLeftOut, PromptPart, PromptReceipt
from strongroom.services.runs.brief import HEADINGS, OBJECTIVE, STATUS, Line, lines_of, own_line
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.state import Stored, stored_in
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.sessions.state import downward
from strongroom.services.sessions.values import Message
from strongroom.services.sessions.view import at, missing
from strongroom.services.sessions.windows import Gathered, gather
from strongroom.store import Get, Range
from strongroom.tokens import Tokenizer, count_tools
from strongroom.tokens import tokenizer as find_tokenizer
from strongroom.tokens.choosing import PAIR_REACH, units
from strongroom.tokens.relevance import plain_text
from strongroom.tokens.roles import speaker
from strongroom.tokens.windows import Frame, frame

EARLIER_HITS = 10
MEMORY_HITS = 8
LONGEST_QUOTE = 600
SAID_AS_QUERY = 2_000  # characters of what was said, where nobody asks
QUERY_REACH = 32  # messages back from the newest


@checked
class AsyncPrompts:
    """Prompts over the sessions, runs and memories of one space."""

    def __init__(self, scope: Scope, memories: AsyncMemories) -> None:
        self._scope = scope
        self._memories = memories

    async def compose(
        self,
        *,
        session: AsyncSession | None = None,
        run: AsyncRun | None = None,
        max_tokens: int,
        query: str | None = None,
        system: str | None = None,
        tools: Mapping[str, Any] | Sequence[Any] = (),
        model: str | None = None,
        format: Format = "openai",
        reserve_tokens: int = 0,
        shares: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        project_id: str | None = None,
        state: bool = False,
    ) -> Prompt:
        """See `AsyncContext.prompt`."""
        if format not in FORMATS:
            raise InvalidInput(f"no format {format!r:.40}; there are {', '.join(FORMATS)}")
        if session is not None:
            self._require_here(session._scope)
        if run is not None:
            self._require_here(run._ref.scope)
        if query is not None:
            require_query(query)
        counter = self._tokenizer(session, model)
        who, split = (user_id, project_id), _shares(shares)
        each = [tools] if isinstance(tools, Mapping) else list(tools)
        asked = Asked(format, max_tokens, reserve_tokens, system, each, query, counter, split, *who, state)
        framing = frame(
            max_tokens, "truncate_oldest", counter, system=system, tools=each, reserve_tokens=reserve_tokens
        )
        known = await self._read(asked, framing, session, run)
        return _composed(asked, known)

    def _require_here(self, scope: Scope) -> None:
        if scope.store is not self._scope.store or scope.space != self._scope.space:
            raise InvalidInput("the session and the run of a prompt must be of the prompt's own context")

    def _tokenizer(self, session: AsyncSession | None, model: str | None) -> Tokenizer:
        if model is not None:
            return find_tokenizer(model)
        return self._scope.tokenizer if session is None else session.tokenizer

    async def _read(self, asked: Asked, framing: Frame, session: AsyncSession | None, run: AsyncRun | None) -> Known:
        gathered: Gathered | None = None
        stored: Stored | None = None
        here = () if run is None else (Get(run._ref.key), Range(run._ref.ledger, limit=0))
        if session is not None:
            gathered = await gather(
                self._scope,
                session.id,
                session._newest,
                lambda _: asked.tokenizer,
                lambda _: framing,
                asked.max_tokens,
                None,
                here,
            )
            beside = gathered.beside
        else:
            beside = await self._scope.get_all(here) if here else []
        if run is not None:
            document, events = beside
            stored = stored_in(run._ref, document, events.length)
        user_id = of_whom(asked, gathered, stored)
        query = asked.query
        if query is None:
            query = (gathered and await _said_last(gathered)) or _purpose(stored)
        if not can_search(self._scope.store) or not query:
            return Known(gathered, stored, query, user_id, unsearched=(MEMORIES, EARLIER) if query else ())
        memories = await looked(
            MEMORIES, self._memories.search(query, MEMORY_HITS, user_id=user_id, project_id=asked.project_id)
        )
        earlier = Looked()
        if session is not None and gathered is not None:
            view = gathered.reading.view
            earlier = await looked(EARLIER, session.search(query, k=EARLIER_HITS, mode="lexical"))
            earlier = replace(earlier, hits=tuple(hit for hit in earlier.hits if view.shows(hit.message.index)))
        lacks = [*dict.fromkeys(filter(None, (memories.degraded, earlier.degraded)))]  # the index of both is the same
        return Known(
            gathered,
            stored,
            query,
            user_id,
            memories.hits,
            earlier.hits,
            memories.unsearched + earlier.unsearched,
            "; ".join(lacks) or None,
            {MEMORIES: memories.damaged, EARLIER: earlier.damaged},
        )


# ---- deciding -------------------------------------------------------------------------------------------------------


def _composed(asked: Asked, known: Known) -> Prompt:
    counter = CachedTokenizer(asked.tokenizer)
    asked = replace(asked, tokenizer=counter)
    kept = _kept(asked, known.gathered)
    frame = frame_tokens(asked.format, counter)
    beside = count_tools(asked.tools, counter) + system_tokens(_system(asked), asked.format, counter) + frame
    room = asked.max_tokens - asked.reserve_tokens - beside
    needed = sum(piece.tokens for piece in kept)
    fixed, lines = _run_pieces(known.run, counter, asked.state)
    spoken, orphans = _spoken_pieces(asked, known.gathered)
    around = context_tokens(asked.format, counter)
    always = needed + always_tokens(fixed, spoken[:1], counter, around)
    advice = f"raise max_tokens to at least {asked.max_tokens - room + always}"
    if frame:
        advice = f"{asked.format!r} keeps {frame} for the turns in which the user begins and ends; {advice}"
    check_fits(asked.max_tokens - room, asked.max_tokens, "system prompt, tools, reserve and format need", advice)
    check_fits(needed, room, "system and pinned messages need", advice)
    parts = {
        CONVERSATION: spoken,
        RUN: lines,
        MEMORIES: _memory_pieces(known, counter),
        EARLIER: _earlier_pieces(known, counter),
    }
    order = in_order(parts, asked.shares, kept)
    chosen = choose(order, room - needed, fixed, counter, around, advice)
    while True:
        prompt = _assembled(asked, known, kept, chosen, orphans)
        if prompt.receipt.tokens <= asked.max_tokens - asked.reserve_tokens:
            return prompt
        # A tokenizer that sees more in the whole than in its pieces: rare, and never over the budget all the same.
        if len(chosen.taken) <= len(fixed) + bool(spoken):
            raise BudgetExceeded(
                f"this prompt needs {prompt.receipt.tokens} tokens; raise max_tokens",
                limit=asked.max_tokens,
                needed=prompt.receipt.tokens,
            )
        chosen = Chosen(chosen.taken[:-1], (chosen.taken[-1], *chosen.left))


def _assembled(asked: Asked, known: Known, kept: Sequence[Piece], chosen: Chosen, orphans: Sequence[int]) -> Prompt:
    messages = {} if known.gathered is None else known.gathered.reading.messages
    positions = sorted({place for piece in (*kept, *chosen.of(CONVERSATION)) for place in piece.positions})
    made = repaired(messages[place] for place in positions)
    unsaid = {positions[nth]: reason for nth, reason in made.unsaid.items()} | dict.fromkeys(orphans, "no_call")
    sent = [messages[place].id for place in positions if place not in unsaid]

    def said_anyway(piece: Piece) -> bool:
        return piece.part == EARLIER and piece.id in sent

    texts = context_texts(chosen, said_anyway)
    turns, before = with_context(made.turns, [*texts.values()])
    turns = ended(begun(turns, asked.format), asked.format)
    system = _system(asked)
    shapes, apart = shaped(turns, system, asked.format)
    counter = asked.tokenizer
    tools = count_tools(asked.tools, counter)
    apart_tokens = count_system(apart, counter)
    counts = [count_sent(message, counter) for message in shapes]
    whole = known.gathered is None or (known.gathered.whole and not _missing(chosen, CONVERSATION) and not orphans)
    spent = {TOOLS: tools} | part_tokens(made.turns, texts, system, asked.format, counter)
    stable = _stable(turns, before, system, asked.format, whole)
    receipt = PromptReceipt(
        format=asked.format,
        max_tokens=asked.max_tokens,
        reserve_tokens=asked.reserve_tokens,
        tokens=tools + apart_tokens + sum(counts),
        tokenizer=counter.name,
        approximate=counter.approximate,
        parts=_parts(spent, chosen, said_anyway, sent),
        left_out=_left_out(known, chosen, len(sent), unsaid),
        completed=made.completed,
        stable_prefix=stable,
        stable_prefix_tokens=tools + apart_tokens + sum(counts[:stable]),
        query=known.query,
        revision=None if known.gathered is None else known.gathered.reading.view.revision,
        user_id=known.user_id,
        degraded=known.degraded,
    )
    return Prompt(shapes, apart, asked.tools, receipt)


def _stable(turns: Sequence[Turn], before: int, system: Sequence[str], format: Format, whole: bool) -> int:
    """Return how many messages stand before what changes from turn to turn: none of the conversation once it is cut."""
    lead = turns[:before] if whole else ()
    shapes, _ = shaped(lead, system, format)
    joined = format in ALTERNATING and bool(lead) and before < len(turns) and lead[-1].role == turns[before].role
    return max(len(shapes) - joined, 0)


def _parts(
    spent: Mapping[str, int],
    chosen: Chosen,
    said_anyway: Callable[[Piece], bool],
    conversation: Sequence[str],
) -> tuple[PromptPart, ...]:
    ids = {CONVERSATION: tuple(conversation)}
    for part in (RUN, MEMORIES, EARLIER):
        ids[part] = tuple(piece.id for piece in chosen.of(part) if not said_anyway(piece))
    parts = [
        PromptPart(part, spent.get(part, 0), ids.get(part, ()))
        for part in (SYSTEM, TOOLS, BEGUN, CONVERSATION, RUN, MEMORIES, EARLIER, ENDED)
    ]
    return tuple(part for part in parts if part.tokens or part.ids)


def _left_out(known: Known, chosen: Chosen, sent: int, unsaid: Mapping[int, str]) -> tuple[PromptLeftOut, ...]:
    found: list[PromptLeftOut] = []
    if known.gathered is not None:
        rest = known.gathered.history().messages - sent - len(unsaid)
        if rest > 0:
            found.append(PromptLeftOut(CONVERSATION, "budget", rest))
        for reason in sorted(set(unsaid.values())):
            places = sorted(place for place, why in unsaid.items() if why == reason)
            ids = tuple(known.gathered.reading.messages[place].id for place in places)
            found.append(PromptLeftOut(CONVERSATION, reason, len(ids), ids))
    for part in (RUN, MEMORIES, EARLIER):
        ids = tuple(piece.id for piece in chosen.left if piece.part == part)
        if ids:
            found.append(PromptLeftOut(part, "budget", len(ids), ids))
    found += [PromptLeftOut(part, "damaged", len(ids), ids) for part, ids in known.damaged.items() if ids]
    found += [PromptLeftOut(part, "no_index", 0) for part in known.unsearched]
    return tuple(found)


def _system(asked: Asked) -> list[str]:
    return [asked.system] if asked.system else []


def _missing(chosen: Chosen, part: str) -> bool:
    return any(piece.part == part for piece in chosen.left)


# ---- the pieces -----------------------------------------------------------------------------------------------------


def _kept(asked: Asked, gathered: Gathered | None) -> list[Piece]:
    """Return the messages that are always in, as one piece with their answers and calls."""
    positions = [] if gathered is None else sorted(gathered.kept.union(gathered.reasons))
    return [_unit(asked, gathered, positions)] if gathered is not None and positions else []


def _spoken_pieces(asked: Asked, gathered: Gathered | None) -> tuple[list[Piece], list[int]]:
    """Return the conversation from its newest turn back as far as it is known, and the answers in it without a call.

    Where a call may lie before what was read, nothing older than its answer is offered: with a larger budget the two
    come first.
    """
    if gathered is None or not gathered.recent:
        return [], []
    groups = units(gathered.recent, gathered.kept)
    grouped = {one.position for group in groups for one in group}
    lone = [one.position for one in gathered.recent if one.position not in grouped | gathered.kept]
    sure = 0 if gathered.whole else gathered.recent[0].position + PAIR_REACH + 1
    edge = max((place for place in lone if place < sure), default=-1)
    groups.sort(key=lambda group: -group[-1].position)
    offered = [[one.position for one in group] for group in groups if group[-1].position > edge]
    pieces = [_unit(asked, gathered, positions) for positions in offered]
    if not gathered.whole:
        # What the next one costs at least: more than was left to read it for, or what was read of it.
        more = gathered.room + 1 - sum(piece.tokens for piece in pieces)
        least = more if edge < 0 or not pieces else gathered.reading.tokens[edge]
        pieces.append(Piece(CONVERSATION, "", max(least, 0)))
    return pieces, [place for place in lone if place > edge]


def _unit(asked: Asked, gathered: Gathered, positions: Sequence[int]) -> Piece:
    messages = [gathered.reading.messages[place] for place in positions]
    # Never less than what is stored of them: what was read was bounded by that.
    tokens = max(spoken_tokens(messages, asked.format, asked.tokenizer), sum(one.tokens for one in messages))
    ids = tuple(one.id for one in messages)
    return Piece(CONVERSATION, ids[-1], tokens, positions=tuple(positions), ids=ids)


def _run_pieces(run: Stored | None, tokenizer: Tokenizer, own: bool) -> tuple[list[Piece], list[Piece]]:
    """Return the lines of a run's brief that are always in, its `own` state among them, and the others, the most
    important first."""
    if run is None:
        return [], []
    lines = lines_of(run.working_set)
    fixed, others = [], []
    for place, line in enumerate(lines):
        if line.section == STATUS and line.id == "next_action" and not run.working_set["next_action"]:
            continue  # a brief has a place for it; here an empty one would tell a model nothing
        heading, text = _run_text(line)
        name = f"{HEADINGS[line.section]}/{line.id}"
        piece = Piece(RUN, name, tokenizer.count(text), (place, text), heading)
        if line.goes is None:
            fixed.append(piece)
        else:
            others.append((line.goes, piece))
    if own and (state := run.working_set.get("state")) is not None:
        text = f"State: {own_line(state)}"
        fixed.append(Piece(RUN, "State/state", tokenizer.count(text), (len(lines), text)))
    return fixed, [piece for _, piece in sorted(others, key=lambda one: one[0], reverse=True)]


def _run_text(line: Line) -> tuple[str, str]:
    """Return the heading that a line of a brief stands under here, if any, and the line."""
    text, name = line.text.rstrip(), HEADINGS[line.section]
    if line.id in _TELLING.get(line.section, ()):
        return "", f"{name}: {text}"
    if line.section == STATUS:
        return "", text[0].upper() + text[1:]  # these say themselves what they are
    return f"{name}:", text


_TELLING = {OBJECTIVE: ("objective",), STATUS: ("status",)}  # the lines that are all there is of their heading


def _memory_pieces(known: Known, tokenizer: Tokenizer) -> list[Piece]:
    pieces = []
    for place, hit in enumerate(known.memories):
        text = quoted("- ", _cut(hit.memory.content))
        pieces.append(Piece(MEMORIES, hit.memory.id, tokenizer.count(text), (place, text)))
    return pieces


def _earlier_pieces(known: Known, tokenizer: Tokenizer) -> list[Piece]:
    """Return what searches found in the conversation, the best first; printed in the order it was said."""
    pieces = []
    for hit in known.hits:
        message: Message = hit.message
        said = plain_text(message)
        if said.strip() and speaker(message) in ("user", "assistant"):
            who = flat(message.name or "") or speaker(message)
            text = f"- {message.time:%Y-%m-%d %H:%M} {who}: {_cut(said)}"
            pieces.append(Piece(EARLIER, message.id, tokenizer.count(text), (message.index, text)))
    return pieces


def _cut(text: str) -> str:
    said = flat(text)
    return said if len(said) <= LONGEST_QUOTE else f"{said[:LONGEST_QUOTE]}..."


async def _said_last(gathered: Gathered) -> str:
    """Return the newest that the user said, if it is not long ago. It is the same whatever the budget."""
    view, known = gathered.reading.view, gathered.reading.messages
    places = [*islice(downward(view.stretches), QUERY_REACH)]
    unread = [place for place in places if place not in known]
    for place in places:
        if unread and place == unread[0]:
            found = await at(view, unread)
            if len(found) < len(unread):
                raise missing(view.id)
            known = known | {index: view.message(record) for index, record in found.items()}
        message = known[place]
        if speaker(message) == "user" and (said := plain_text(message).strip()):
            return said[:SAID_AS_QUERY]
    return ""


def _purpose(run: Stored | None) -> str:
    """Return what a run is after."""
    return "" if run is None else f"{run.working_set['objective']} {run.working_set['next_action']}"[:SAID_AS_QUERY]


def _shares(given: Mapping[str, Any] | None) -> dict[str, float]:
    shares = SHARES | dict(given or {})
    right = (type(share) in (int, float) and 0 < share <= 1 for share in shares.values())
    if shares.keys() != SHARES.keys() or not all(right):
        raise InvalidInput(f"shares are numbers above 0 and up to 1 for {', '.join(SHARES)}, not {given!r:.80}")
    return shares
