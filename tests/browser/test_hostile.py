"""What agents stored is shown as text: nothing runs, turns the page around or breaks its width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strongroom.blocking import Context
from tests.browser.test_screens import SIDEWAYS, one_store

MARKUP = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
TURNED = "invoice_\u202egpj.exe"
LONG = "A" * 1_000_000

Visit = Callable[..., Any]


@one_store
def test_hostile_text_stays_text_everywhere(visit: Visit, ctx: Context) -> None:
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
    ctx.files.write("/odd.md", MARKUP + TURNED + LONG[:50_000])
    page = visit("overview")
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
        "threads",
        "overview",
    ):
        page.evaluate("where => { location.hash = '#/' + where; }", where)
        page.locator("main :is(h1, h2)").first.wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        assert not page.evaluate(SIDEWAYS), where
        assert "taken" not in page.title()
        assert page.locator("main img, main script").count() == 0
