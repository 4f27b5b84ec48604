"""A support agent that survives kill -9. `docs/guide.md` walks through it.

python examples/support_agent.py                # the whole story, in support.db
python examples/support_agent.py my.db          # in another file, as often as you like
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import strongroom
from strongroom import Context, Run, Session

CUSTOMER = "customer-ana"
INSTRUCTIONS = "You answer customers of a shop. Use the tools. Never promise what they do not confirm."
SLOW = "SUPPORT_AGENT_SLOW"  # set: the payment service takes for ever to answer


# ---- the model: a plain function stands in for it -------------------------------------------------------------------


def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what to do next: call a tool, or say something. A real one would be an HTTP request."""
    known = [message["content"] for message in messages if "# Remembered" in (message["content"] or "")]
    last = messages[-1]
    if last["role"] == "tool":
        found = json.loads(last["content"])
        return {
            "say": f"I have refunded {found['refunded']} EUR." if "refunded" in found else f"It is {found['state']}."
        }
    if "voucher?" in last["content"]:
        return {"say": "No, you get your money." if "never vouchers" in "".join(known) else "Perhaps a voucher."}
    tool = "refund" if "refund" in last["content"] else "look_up_order"
    return {"tool": tool, "arguments": {"order": "4711"}}


# ---- the tools: `key` names one call for good, so that a repeat of it is no second call -----------------------------


def look_up_order(key: str, order: str) -> dict[str, Any]:
    return {"order": order, "state": "lost in transit"}


def refund(key: str, order: str) -> dict[str, Any]:
    """Ask the payment service, which keeps a list of what it has paid, and answers one request at a time."""
    with Path("payments.txt").open("a+") as paid:
        fcntl.flock(paid, fcntl.LOCK_EX)
        paid.seek(0)
        if key not in paid.read().splitlines():
            paid.write(f"{key}\n")
    if os.environ.get(SLOW):
        print("paid", flush=True)
        time.sleep(600)
    return {"order": order, "refunded": 30}


TOOLS: dict[str, Callable[..., dict[str, Any]]] = {"look_up_order": look_up_order, "refund": refund}


# ---- the agent ------------------------------------------------------------------------------------------------------


def prompt(ctx: Context, run: Run, session: Session, question: str) -> list[dict[str, Any]]:
    """Put all that is known into one prompt: the task, memories that the question finds, the conversation."""
    made = ctx.prompt(
        system=INSTRUCTIONS,
        run=run,
        session=session,
        query=question,
        max_tokens=4000,
        format="openai",
    )
    return list(made.messages)


def answer(ctx: Context, ticket: str, number: int, question: str) -> str:
    """Answer one question. Killed at any point and called again, it goes on where it was."""
    run, session, name = ctx.runs.get(ticket), ctx.sessions.open(ticket), f"{ticket}:{number}"
    with ctx.turn(commit_id=f"{name}:question") as turn:
        turn.append(session, {"role": "user", "content": question})
        turn.update(run, status="BUSY", state={"question": number, "step": 0})
    while run.state["question"] == number and run.working_set.status == "BUSY":
        key = f"{name}:{run.state['step']}"
        if "action" not in run.state:
            decide(ctx, run, session, question)
        elif "say" in run.state["action"]:
            with ctx.turn(commit_id=f"{name}:answer") as turn:
                turn.append(session, {"id": name, "role": "assistant", "content": run.state["action"]["say"]})
                turn.update(run, status="WAITING_INPUT", state={"question": number})
        else:
            act(ctx, run, session, run.state["action"], key)
    return str(session.get(name)["content"])


def decide(ctx: Context, run: Run, session: Session, question: str) -> None:
    """Ask the model what to do, and keep that before anything is done about it."""
    started = time.perf_counter()
    action = model(prompt(ctx, run, session, question))
    took = round((time.perf_counter() - started) * 1000)
    try:
        with ctx.turn() as turn:
            turn.record(run, "MODEL_ACTION", {"action": action, "model": "stand-in", "latency_ms": took})
            turn.update(run, state_patch={"action": action})
    except strongroom.Conflict:
        run.refresh()  # another worker was faster: what it decided counts


def act(ctx: Context, run: Run, session: Session, action: dict[str, Any], key: str) -> None:
    """Call a tool. The ledger knows of it before and after; the tool knows it by its key."""
    name, arguments = action["tool"], action["arguments"]
    run.record("TOOL_CALL", {"tool_name": name, "arguments": arguments}, commit_id=f"{key}:call")
    result = TOOLS[name](key, **arguments)
    call = {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    with ctx.turn(commit_id=f"{key}:result") as turn:
        turn.record(run, "TOOL_RESULT", {"tool_name": name, "ok": True, "result": result})
        turn.append(session, {"role": "assistant", "content": "", "tool_calls": [call]})
        turn.append(session, {"role": "tool", "tool_call_id": key, "content": json.dumps(result)})
        turn.update(run, state_patch={"action": None, "step": run.state["step"] + 1})


# ---- the story ------------------------------------------------------------------------------------------------------


def crash(file: str, ticket: str, number: int, question: str) -> None:
    """Let another process answer, and kill it when the money is paid but nobody has been told."""
    command = [sys.executable, __file__, file, ticket, str(number), question]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, SLOW: "1"})
    assert worker.stdout is not None
    worker.stdout.readline()
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()


def story(file: str) -> None:
    ticket = f"ticket-{uuid4().hex[:8]}"
    with strongroom.open(file) as ctx:
        run = ctx.runs.create(
            run_id=ticket, objective="Solve the customer's problem", constraints=["be honest"], user_id=CUSTOMER
        )
        ctx.sessions.open(ticket, title="Order 4711", user_id=CUSTOMER)
        print("1 answered:", answer(ctx, ticket, 1, "Where is my order 4711?"))

    question = "Then please refund it. I want money, never vouchers."
    crash(file, ticket, 2, question)
    print("2 killed with -9, after the money was paid and before anybody knew")

    with strongroom.open(file) as ctx:
        print("3 resumed:", answer(ctx, ticket, 2, question))
        run = ctx.runs.get(ticket)
        paid = Path("payments.txt").read_text().count(ticket)
        asked = sum(message["content"] == question for message in ctx.sessions.open(ticket).load())
        print(f"4 payments made: {paid}, questions stored: {asked}, ledger verified: {run.verify().ok}")

        batch = ctx.memories.propose(
            [
                {
                    "op": "add",
                    "type": "preference",
                    "scope": "user",
                    "user_id": CUSTOMER,
                    "content": "Wants refunds in money, never vouchers",
                    "rationale": "said so",
                    "confidence": 0.9,
                    "source_refs": [ticket],
                }
            ],
            proposer="support-agent",
            run_id=ticket,
        )
        question = "Will I get a voucher?"
        early = [*prompt(ctx, run, ctx.sessions.open(ticket), question), {"role": "user", "content": question}]
        print("5 before the review:", model(early)["say"])
        for waiting in ctx.memories.pending():
            for proposal in waiting.proposals:
                print("6 to review:", proposal.request.content)
        run.milestone("refunded", memory_batch_id=batch.id, reviewer="maria")
        print("7 after the review:", answer(ctx, ticket, 3, question))

        ctx.erase(user_id=CUSTOMER, by="maria", reason="the customer asked for it")
        left = ctx.memories.search("vouchers", user_id=CUSTOMER)
        print(f"8 erased: {len(left)} memories found, ledger still verified: {ctx.runs.get(ticket).verify().ok}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        with strongroom.open(sys.argv[1]) as opened:
            answer(opened, sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        story(sys.argv[1] if len(sys.argv) > 1 else "support.db")
