"""Dispatch: functions that handle the messages of threads, in this process and in others.

* `routes`: which function handles what, and what it may answer
* `delivery`: one worker's turn at one thread; the rules that make an effect happen once
* `running`, `pool`: a function in the event loop, in a thread, or in another process
* `leases`: the commits of a worker
* `mail`: posting, which threads have something to handle, dead letters
* `dispatcher`, `worker`: all of it together, as an object and as a process
"""

from strongroom.dispatch.dispatcher import AsyncDispatcher, Dispatcher
from strongroom.dispatch.routes import Call, Respond, Send, respond, send
from strongroom.dispatch.worker import work
from strongroom.services.threads.deliveries import DeadLetter, DeliveryFailed, Retry

__all__ = [
    "AsyncDispatcher",
    "Call",
    "DeadLetter",
    "DeliveryFailed",
    "Dispatcher",
    "Respond",
    "Retry",
    "Send",
    "respond",
    "send",
    "work",
]
