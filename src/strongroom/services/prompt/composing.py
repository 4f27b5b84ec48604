"""What goes into a prompt: one budget, fair shares, a receipt (pure).

Rules
-----
1. What is sent never costs more than the budget. System prompt, tools, pinned messages, the run's objective and status,
   its own state where it is asked for, and the newest turn are always in; if they alone do not fit, that is an error,
   not a cut.
2. All else is taken piece by piece in one order, as far as it fits. The order does not depend on the budget, so a
   larger budget never loses a piece. To pass over a piece that does not fit and fill its place with later ones would
   lose them again where it fits; so what stays free is less than the next piece costs.
3. The order is fair: a piece is due when the share of its part pays for it and for those before it, so the parts grow
   side by side in proportion to their shares, and a part that has no more leaves its share to the others. Were it due
   as soon as those before it are paid for, one long quote would keep a whole conversation out of a small budget.
4. What changes from turn to turn (state, memories, what was said earlier) stands just before the newest question of the
   user's, and all that stands before it stays the same as the conversation goes on. It is the user's word and not the
   system's: what was remembered gives no orders.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from strongroom.errors import BudgetExceeded
from strongroom.services.prompt.formats import ALTERNATING, BEGINNING, ENDING, JOINT, Format, begun, ended, shaped
from strongroom.services.prompt.turns import Text, ToolCall, Turn, repaired
from strongroom.tokens import Tokenizer, count_message

CONVERSATION, RUN, MEMORIES, EARLIER = "conversation", "run", "memories", "earlier"
SYSTEM, TOOLS, BEGUN, ENDED = "system", "tools", "beginning", "ending"
SHARES: dict[str, float] = {CONVERSATION: 0.6, RUN: 0.15, MEMORIES: 0.15, EARLIER: 0.1}
TITLES = {RUN: "# State of the work", MEMORIES: "# Remembered", EARLIER: "# Said earlier in this conversation"}
RENAMED = "-999"  # what it may take to tell a call's id from another one, in the call and in its answer


class CachedTokenizer:
    """A tokenizer for one prompt: while it is put together the same texts are counted several times."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.name, self.approximate = tokenizer.name, tokenizer.approximate
        self._count = cache(tokenizer.count)

    def count(self, text: str) -> int:
        return self._count(text)


class Piece(Struct, frozen=True):
    """Something that is in or out as a whole: a line of a text, or messages that belong together.

    Lines of one `heading` stand under it together. What was not read of a conversation is a piece without messages: it
    costs at least its `tokens`, and never fits.
    """

    part: str
    id: str
    tokens: int
    line: tuple[int, str] = (0, "")
    heading: str = ""
    positions: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()

    @property
    def unread(self) -> bool:
        return self.part == CONVERSATION and not self.positions


class Chosen(Struct, frozen=True):
    """The pieces that are in, and those that are not."""

    taken: tuple[Piece, ...]
    left: tuple[Piece, ...]

    def of(self, part: str) -> list[Piece]:
        return [piece for piece in self.taken if piece.part == part]


def in_order(
    parts: Mapping[str, Sequence[Piece]], shares: Mapping[str, float], kept: Sequence[Piece] = ()
) -> list[Piece]:
    """Return all pieces in the order of rule 3; of two that are due at once, the one of the larger share comes first.

    The newest turn, which is always in, comes before all others. What was said earlier and is kept, or is due as part
    of the conversation before that, need not be quoted.
    """
    due: list[tuple[float, float, int, Piece]] = []
    for part, pieces in parts.items():
        used = 0
        for place, piece in enumerate(pieces):
            used += piece.tokens
            always = part == CONVERSATION and place == 0
            due.append((-1.0 if always else used / shares[part], -shares[part], place, piece))
    due.sort(key=lambda one: one[:3])
    order: list[Piece] = []
    spoken = {id for piece in kept for id in piece.ids}
    for *_, piece in due:
        if piece.part == CONVERSATION:
            spoken.update(piece.ids)
        if piece.part != EARLIER or piece.id not in spoken:
            order.append(piece)
    return order


def choose(
    order: Sequence[Piece], room: int, fixed: Sequence[Piece], tokenizer: Tokenizer, around: int, advice: str
) -> Chosen:
    """Take as many pieces in their order as fit. `fixed` lines are in whatever comes.

    `around` is what it costs to put lines before the newest question at all. `advice` is for whoever gave too little
    for what is always in. A part is counted as one text, so each count costs as much as all that is in: how many fit is
    found by bisection. What was quoted costs nothing any more once it is in word for word, so more of the order may fit
    where less of it does not; from one such place to the next, though, more never costs less.
    """
    unread = next((place for place, piece in enumerate(order) if piece.unread and place > 0), len(order))

    def needed(count: int) -> int:
        """Return what everything costs with so many pieces."""
        taken = order[:count]
        spoken = [piece for piece in taken if piece.part == CONVERSATION]
        said = {id for piece in spoken for id in piece.ids}
        lines: dict[str, list[Piece]] = {}
        for piece in (*fixed, *taken):
            if piece.part != CONVERSATION and not (piece.part == EARLIER and piece.id in said):
                lines.setdefault(piece.part, []).append(piece)
        texts = sum(tokenizer.count(section(part, pieces)) for part, pieces in lines.items())
        return sum(piece.tokens for piece in spoken) + (around if lines else 0) + texts

    check_fits(needed(0), room, "the run's objective, status and state need", advice)
    if order and order[0].part == CONVERSATION:
        check_fits(needed(1), room, "the newest message needs", advice)
    end = unread
    for begin in reversed([0, *_freeing(order[:unread])]):
        if needed(begin) <= room:
            fitting = begin + bisect_right(range(begin, end + 1), room, key=needed) - 1
            return Chosen((*fixed, *order[:fitting]), tuple(order[fitting:]))
        end = begin - 1
    raise AssertionError("what is always in was checked before")


def _freeing(order: Sequence[Piece]) -> list[int]:
    """Return with how many pieces a message is in word for word that was quoted by one before."""
    quoted = set[str]()
    found = list[int]()
    for place, piece in enumerate(order):
        if piece.part == EARLIER:
            quoted.add(piece.id)
        elif not quoted.isdisjoint(piece.ids):
            found.append(place + 1)
    return found


def always_tokens(fixed: Sequence[Piece], newest: Sequence[Piece], tokenizer: Tokenizer, around: int) -> int:
    """Return what the lines and the newest turn cost that are in whatever comes."""
    lines = tokenizer.count(section(fixed[0].part, fixed)) + around if fixed else 0
    return lines + sum(piece.tokens for piece in newest)


def check_fits(needed: int, room: int, what: str, advice: str) -> None:
    """Refuse a budget that what must be in exceeds."""
    if needed > room:
        raise BudgetExceeded(
            f"{what} {needed} tokens and {max(room, 0)} are left; {advice}",
            limit=max(room, 0),
            needed=needed,
        )


def section(part: str, pieces: Sequence[Piece]) -> str:
    """Return the text of a part: its title, and its lines in their places, each heading once."""
    lines = [TITLES[part]]
    heading = ""
    for piece in sorted(pieces, key=lambda one: one.line):
        if piece.heading not in ("", heading):
            lines.append(piece.heading)
        heading = piece.heading
        lines.append(piece.line[1])
    return "\n".join(lines)


def context_texts(chosen: Chosen, skip: Callable[[Piece], bool]) -> dict[str, Text]:
    """Return what is put before the newest question, part by part."""
    texts = {}
    for part in (RUN, MEMORIES, EARLIER):
        pieces = [piece for piece in chosen.of(part) if not skip(piece)]
        if pieces:
            texts[part] = Text(section(part, pieces))
    return texts


def with_context(turns: Sequence[Turn], texts: Sequence[Text]) -> tuple[list[Turn], int]:
    """Put texts before the newest question of the user's; return the turns, and how many stand before them."""
    asked = [place for place, turn in enumerate(turns) if turn.role == "user" and _says(turn)]
    place = asked[-1] if asked else 0
    return [*turns[:place], *([Turn("user", tuple(texts))] if texts else []), *turns[place:]], place


def part_tokens(
    turns: Sequence[Turn], texts: Mapping[str, Text], system: Sequence[str], format: Format, tokenizer: Tokenizer
) -> dict[str, int]:
    """Return what each part costs: what it adds to those before it, so that together they are the whole.

    What is left are the turns that say that the beginning was left out (`BEGUN`) and that nothing came since (`ENDED`).
    """

    def cost(said: Sequence[Turn]) -> int:
        messages, apart = shaped(said, system, format)
        return count_system(apart, tokenizer) + sum(count_sent(message, tokenizer) for message in messages)

    steps = {SYSTEM: cost(()), CONVERSATION: cost(turns)}
    for count, part in enumerate(texts, 1):
        steps[part] = cost(with_context(turns, [*texts.values()][:count])[0])
    whole = begun(with_context(turns, [*texts.values()])[0], format)
    steps[BEGUN], steps[ENDED] = cost(whole), cost(ended(whole, format))
    before = (0, *steps.values())
    return {part: total - less for (part, total), less in zip(steps.items(), before, strict=False)}


def spoken_tokens(messages: Sequence[Mapping[str, Any]], format: Format, tokenizer: Tokenizer) -> int:
    """Return what messages that belong together cost in a format, wherever they stand."""
    made = repaired(messages)
    calls = sum(isinstance(block, ToolCall) for turn in made.turns for block in turn.blocks)
    sent, system = shaped(made.turns, (), format)
    total = sum(count_sent(message, tokenizer) for message in sent) + count_system(system, tokenizer)
    return total + 2 * calls * tokenizer.count(RENAMED)


def context_tokens(format: Format, tokenizer: Tokenizer) -> int:
    """Return what a turn of the user's costs at most besides its texts.

    Texts may be joined there, and each is counted by itself: a tokenizer can see one more where two of them meet.
    """
    [message], _ = shaped([Turn("user", (Text("x"),))], (), format)
    joints = len(TITLES) - 1
    return count_sent(message, tokenizer) - tokenizer.count("x") + joints * (tokenizer.count(JOINT) + 1)


def system_tokens(system: Sequence[str], format: Format, tokenizer: Tokenizer) -> int:
    """Return what the system prompt costs in a format."""
    messages, apart = shaped((), system, format)
    return sum(count_sent(message, tokenizer) for message in messages) + count_system(apart, tokenizer)


def frame_tokens(format: Format, tokenizer: Tokenizer) -> int:
    """Return what has to be kept free for turns that say that the beginning was left out, and that nothing came since.

    The same for every conversation, so that what is in does not depend on who spoke last.
    """
    if format not in ALTERNATING:
        return 0
    return sum(count_message({"role": "user", "content": text}, tokenizer) for text in (BEGINNING, ENDING))


def count_sent(message: Mapping[str, Any], tokenizer: Tokenizer) -> int:
    """Return what a message costs as it is sent."""
    if "parts" in message:  # the one format that calls its content so
        message = {"role": message["role"], "content": message["parts"]}
    return count_message(message, tokenizer)


def count_system(system: Any, tokenizer: Tokenizer) -> int:
    """Return what a system prompt that stands apart costs."""
    parts = system["parts"] if isinstance(system, dict) else system or ()
    return sum(count_message({"role": "system", "content": part["text"]}, tokenizer) for part in parts)


def _says(turn: Turn) -> bool:
    return any(isinstance(block, Text) for block in turn.blocks)
