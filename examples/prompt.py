"""A conversation that outgrows its budget, a tool call that a crash interrupted, and one prompt for each provider.

python examples/prompt.py
"""

from __future__ import annotations

import json

import strongroom

CALL = {"id": "call_1", "type": "function", "function": {"name": "find_flights", "arguments": '{"to": "LIS"}'}}


def main() -> None:
    with strongroom.open("memory://") as ctx:
        session = ctx.sessions.open("trip", user_id="ana")
        run = ctx.runs.create(objective="Book a trip to Lisbon", constraints=["at most 900 euros"], user_id="ana")
        session.append({"role": "user", "content": "I am allergic to nuts, please remember that."})
        for day in range(200):
            session.append(
                [
                    {"role": "user", "content": f"What about day {day}?"},
                    {"role": "assistant", "content": f"Day {day} is fine, the weather is mild."},
                ]
            )
        session.append({"role": "user", "content": "Find a flight. And what am I allergic to?"})
        session.append({"role": "assistant", "content": None, "tool_calls": [CALL]})  # and here the process died

        for format in ("openai", "responses", "anthropic", "gemini"):
            prompt = ctx.prompt(
                session=session,
                run=run,
                query="allergic",
                system="You plan trips.",
                max_tokens=300,
                format=format,  # type: ignore[arg-type]
            )
            receipt = prompt.receipt
            print(f"{format}: {len(prompt.messages)} messages, {receipt.tokens} of {receipt.max_tokens} tokens")
            print(f"  {receipt.completed} call completed; parts:", {part.name: part.tokens for part in receipt.parts})
            print("  left out:", {f"{out.part}, {out.reason}": out.count for out in receipt.left_out})
            assert "allergic to nuts" in json.dumps(prompt.messages), "what was said long ago is quoted"


if __name__ == "__main__":
    main()
