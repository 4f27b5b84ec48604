"""What agents stored is shown as text: nothing runs, turns the page around or breaks its width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strongroom.blocking import Context
from strongroom.dispatch import Dispatcher, Retry
from tests.browser.test_screens import LOOKS, SIDEWAYS, one_store

MARKUP = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
TURNED = "invoice_\u202egpj.exe"
LONG = "A" * 1_000_000

Visit = Callable[..., Any]


def dead_letter(ctx: Context) -> None:
    """A message that a handler gave up on, with everything about it odd."""
    dispatcher = Dispatcher(ctx)

    @dispatcher.handler("odd<b>", retry=Retry(attempts=1, first_seconds=0))
    def fail(payload: Any, call: Any) -> None:
        raise ValueError(MARKUP + TURNED + LONG[:20_000])

    dispatcher.send("odd<img src=x>", {MARKUP: LONG[:20_000]}, from_id=MARKUP[:60], to_id="odd<b>")
    dispatcher.drain()


@one_store
@pytest.mark.parametrize("look", ["light", "phone"])
def test_hostile_text_stays_text_everywhere(visit: Visit, ctx: Context, look: str) -> None:
    run = ctx.runs.create(objective=MARKUP, run_id="odd")
    run.update(expected_seq=0, next_action=TURNED, blockers=[LONG[:1_500], MARKUP])
    run.record("TOOL_CALL", {"tool_name": MARKUP, "arguments": {TURNED: MARKUP}})
    run.record("TOOL_RESULT", {"tool_name": MARKUP, "ok": False, "result": LONG[:60_000]}, actor=MARKUP)
    run.record("ERROR", {"error_type": MARKUP, "message": TURNED}, actor=MARKUP)
    run.attach(b"<script>1</script>", type=MARKUP, path=TURNED)
    ctx.sessions.open("odd", title=MARKUP).append([
        {"role": "user", "content": MARKUP},
        {"role": "assistant", "content": LONG},
        {"role": "user", "content": TURNED},
    ])  # fmt: skip
    fact = {"op": "add", "type": "fact", "scope": "global", "content": MARKUP + TURNED, "rationale": MARKUP,
            "confidence": 0.5, "source_refs": [MARKUP]}  # fmt: skip
    ctx.memories.propose([fact], proposer=MARKUP)  # type: ignore[list-item]
    known = ctx.memories.add(TURNED + MARKUP, scope="global", proposer=MARKUP, memory_id="odd-memory")
    ctx.memories.commit(known, reviewer=TURNED[:8] + "<b>", edit={0: MARKUP + LONG[:6_000]})
    dead_letter(ctx)
    ctx.files.write("/odd.md", MARKUP + TURNED + LONG[:50_000])
    page = visit("overview", **LOOKS[look])
    for where in (
        "files",
        "files/%2Fodd.md",
        "review",
        "runs",
        "runs/odd",
        "runs/odd?tab=artifacts",
        "runs/odd?tab=usage",
        "sessions",
        "sessions/odd",
        "memory",
        "memory/odd-memory",
        "threads",
        "operations",
        "overview",
    ):
        page.evaluate("where => { location.hash = '#/' + where; }", where)
        page.locator("main :is(h1, h2)").first.wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        assert not page.evaluate(SIDEWAYS), where
        assert "taken" not in page.title()
        assert page.locator("main img, main script").count() == 0


@one_store
def test_a_reviewer_sees_what_nobody_would_see(visit: Visit, ctx: Context) -> None:
    fact = {"op": "add", "type": "fact", "scope": "global", "rationale": "r", "confidence": 0.5, "source_refs": [],
            "content": "\u0645\u06cc\u200c\u062e \u2764\ufe0f\u3164\U000e0041\U000e0042 tea"}  # fmt: skip
    batch = ctx.memories.propose([fact], proposer="agent-7")  # type: ignore[list-item]
    page = visit(f"review/{batch.id}:0")
    page.get_by_text("Hidden characters", exact=True).wait_for()
    shown = page.locator(".change .hidden-char").all_inner_texts()
    assert [text.strip() for text in shown] == ["U+3164", "U+E0041", "U+E0042"]
