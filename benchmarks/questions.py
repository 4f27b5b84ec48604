"""The questions, in the order they are asked, each with the seconds it may take: in a full run, and in a quick one.

A question that is not done when its time is up is ended, and what it has told by then stays.
"""

from __future__ import annotations

from msgspec import Struct


class Question(Struct, frozen=True):
    asks: str
    seconds: float
    quick_seconds: float


QUESTIONS = {
    "startup": Question("How long does it take to begin?", 60, 12),
    "commits": Question("What does a durable write cost?", 90, 12),
    "sessions": Question("What does a durable turn of a conversation cost?", 120, 15),
    "turns": Question("What does a turn of five parts cost?", 20, 5),
    "growth": Question("Does a cost grow with history?", 390, 16),
    "neighbours": Question("Does a cost grow with what stands beside it?", 130, 10),
    "clients": Question("What do many gain from committing at once?", 90, 12),
    "runs": Question("What do a run's update and event cost?", 30, 6),
    "http": Question("How many requests does the server answer?", 125, 28),
    "search": Question("How fast is finding?", 210, 14),
    "memories": Question("What does remembering cost?", 60, 12),
    "recall": Question("How often is the evidence among the first hits?", 75, 10),
    "disk": Question("How many bytes does a byte of text take?", 60, 8),
    "servers": Question("What do Postgres and Redis cost?", 90, 20),
    "adapters": Question("What do adapters cost beside the frameworks' own stores?", 200, 30),
    "encryption": Question("What does encryption cost?", 45, 8),
    "threads": Question("How fast are messages handed on?", 40, 10),
    "idle": Question("What does doing nothing cost?", 130, 20),
}
ALONE = {  # take long, are asked by name, and are published with a date of their own
    "largest": Question("Does a cost still not grow at a million sessions and at ten million messages?", 3_600, 60),
    "many": Question("What becomes of a million memories and ten million messages?", 14_400, 120),
}
MOST_SECONDS, MOST_QUICK_SECONDS = 1_170.0, 115.0  # for all of them
