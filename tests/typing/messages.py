"""Messages as a type checker sees them: what is usual passes, typical mistakes are red.

Under `--strict` an ignored error that does not occur is an error itself, so this file checks itself.
"""

from __future__ import annotations

from strongroom.blocking import Context
from strongroom.services.sessions.values import NewMessage


def passes(ctx: Context, role: str, text: str) -> None:
    session = ctx.sessions.open("s")
    session.append({"role": role, "content": text})
    session.append(
        [{"role": "system", "content": "rules", "pinned": True}, {"role": "user", "content": text, "id": "m"}]
    )
    session.append({"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "f"}}]})
    session.append({"role": "tool", "tool_call_id": "c1", "content": "42"})
    session.append({"role": "user", "content": [{"type": "text", "text": text}]})
    session.append({"type": "function_call_output", "call_id": "c1", "output": "42"})
    turns: list[NewMessage] = [{"role": "user", "content": line} for line in text.splitlines()]
    session.append(turns)
    session.replace(ctx.sessions.open("other").load())
    session.replace(session.get("m"))


def is_red(ctx: Context, text: str) -> None:
    session = ctx.sessions.open("s")
    session.append(text)  # type: ignore[arg-type]
    session.append({"rol": "user", "content": text})  # type: ignore[arg-type]
    session.append({"role": "user", "contents": text})  # type: ignore[arg-type]
    session.append({"content": text})  # type: ignore[arg-type]
    session.append({"role": 3, "content": text})  # type: ignore[arg-type]
    session.append([{"role": "user", "contnet": text}])  # type: ignore[list-item]
    session.append([text])  # type: ignore[list-item]
    session.replace([{"role": "user", "content": text, "priority": "high"}])  # type: ignore[list-item]
