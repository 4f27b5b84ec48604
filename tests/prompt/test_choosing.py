"""Which pieces of a prompt are chosen, and what finding that out costs."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

import strongroom
from strongroom.services.prompt.composing import CONVERSATION, EARLIER, MEMORIES, Piece, choose, section


class Characters:
    """Counts a token a character, and all characters that it was ever given."""

    name, approximate = "characters", False

    def __init__(self) -> None:
        self.seen = 0

    def count(self, text: str) -> int:
        self.seen += len(text)
        return len(text)


def cost_of(taken: Sequence[Piece], around: int) -> int:
    said = {id for piece in taken if piece.part == CONVERSATION for id in piece.ids}
    lines = [one for one in taken if one.part != CONVERSATION and not (one.part == EARLIER and one.id in said)]
    texts = [[one for one in lines if one.part == part] for part in (MEMORIES, EARLIER)]
    spoken = sum(one.tokens for one in taken if one.part == CONVERSATION)
    return spoken + (around if lines else 0) + sum(len(section(some[0].part, some)) for some in texts if some)


@st.composite
def orders(draw: st.DrawFn) -> list[Piece]:
    pieces = [Piece(CONVERSATION, "", 5, positions=(0,), ids=("m0",))]
    for place in range(1, draw(st.integers(1, 12))):
        kind = draw(st.sampled_from([CONVERSATION, EARLIER, MEMORIES]))
        size, id = draw(st.integers(1, 60)), f"m{draw(st.integers(1, 5))}"
        if kind == CONVERSATION:
            pieces.append(Piece(kind, "", size, positions=(place,), ids=(id,)))
        else:
            pieces.append(Piece(kind, id, size, (place, "x" * size)))
    return pieces


@given(orders(), st.integers(5, 500), st.integers(0, 20))
def test_the_longest_beginning_of_the_order_that_fits_is_taken(order: list[Piece], room: int, around: int) -> None:
    longest = max(count for count in range(len(order) + 1) if cost_of(order[:count], around) <= room)
    chosen = choose(order, room, (), Characters(), around, "")
    assert (chosen.taken, chosen.left) == (tuple(order[:longest]), tuple(order[longest:]))


def test_what_is_counted_for_a_prompt_does_not_grow_with_the_square_of_what_a_run_holds() -> None:
    def characters(rules: int, max_tokens: int) -> int:
        tokenizer = Characters()
        with strongroom.open("memory://") as ctx:
            session = ctx.sessions.open("s", tokenizer=tokenizer)
            session.append({"role": "user", "content": "Hello"})
            run = ctx.runs.create(
                objective="Keep the rules",
                constraints=[f"rule number {place:06d} holds" for place in range(rules)],
                config={"ws_max_tokens": 1_000_000},
            )
            tokenizer.seen = 0
            ctx.prompt(session=session, run=run, max_tokens=max_tokens)
            return tokenizer.seen

    assert characters(800, 1_000_000) < 12 * characters(100, 1_000_000)
    assert characters(800, 500) < 12 * characters(100, 500)
