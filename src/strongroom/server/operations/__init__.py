"""What clients may have done: every operation that can be written through `strongroom.connect`, in one table.

A client sends an operation's name, its target and its arguments; the server makes it with the very same service method,
so whatever a service guards is guarded here too. A name that is not in the table does not exist over HTTP.

Who did it is not a caller's to say: the arguments that name somebody are set from the key. An admin, who could write
anything anyway, speaks for whom it says.
"""

from __future__ import annotations

from strongroom.server.keys import Right
from strongroom.server.operations import files, memories, runs, sessions, threads, turns
from strongroom.server.operations.invocation import Invocation, Row, named, of, said
from strongroom.services.files.files import AsyncFiles
from strongroom.services.memories.memories import AsyncMemories
from strongroom.services.runs.run import AsyncRun
from strongroom.services.runs.runs import AsyncRuns
from strongroom.services.sessions.session import AsyncSession
from strongroom.services.threads.registry import AsyncRegistry
from strongroom.services.threads.threads import AsyncThreads

__all__ = ["OPERATIONS", "Invocation", "Row", "make", "said"]

# What takes a right of its own, if it is named: memories committed with a milestone, and a policy of the caller's own.
_BATCH: dict[str, Right] = {"memory_batch_id": "review"}
_POLICY: dict[str, Right] = {"policy": "admin"}

OPERATIONS: dict[str, Row] = {
    # operation              right     who did it             how it is made
    "runs.create":       Row("write",  ("actor",),            of("runs", AsyncRuns.create)),
    "runs.open":         Row("write",  ("actor",),            of("runs", AsyncRuns.open)),
    "runs.restore":      Row("write",  ("actor",),            runs.restore, takes_file=True),
    "runs.erase":        Row("admin",  ("actor",),            of("runs", AsyncRuns.erase, "run_id")),
    "run.update":        Row("write",  ("actor",),            runs.update),
    "run.update_with":   Row("write",  ("actor",),            runs.update_with),
    "run.rollback":      Row("write",  ("actor",),            runs.run(AsyncRun.rollback)),
    "run.record":        Row("write",  ("actor",),            runs.record),
    "run.fork":          Row("write",  ("actor",),            runs.run(AsyncRun.fork)),
    "run.attach":        Row("write",  ("actor",),            runs.attach, takes_file=True),
    "run.export":        Row("write",  ("actor",),            runs.export),
    "run.milestone":     Row("write",  ("actor", "reviewer"), runs.run(AsyncRun.milestone), _BATCH),
    "run.summarized":    Row("write",  ("actor", "reviewer"), runs.milestone, _BATCH),

    "sessions.open":         Row("write",  (),                sessions.open),
    "sessions.delete":       Row("write",  (),                sessions.delete),
    "session.append":        Row("write",  (),                sessions.messages(AsyncSession.append)),
    "session.replace":       Row("write",  (),                sessions.messages(AsyncSession.replace)),
    "session.replace_from":  Row("write",  (),                sessions.messages(AsyncSession.replace_from)),
    "session.pop":           Row("write",  (),                sessions.session(AsyncSession.pop)),
    "session.truncate_from": Row("write",  (),                sessions.session(AsyncSession.truncate_from)),
    "session.erase":         Row("admin",  (),                sessions.session(AsyncSession.erase)),
    "session.restore":       Row("write",  (),                sessions.session(AsyncSession.restore)),
    "session.rename":        Row("write",  (),                sessions.session(AsyncSession.rename)),
    "session.set_metadata":  Row("write",  (),                sessions.session(AsyncSession.set_metadata)),
    "session.pin":           Row("write",  (),                sessions.session(AsyncSession.pin)),
    "session.unpin":         Row("write",  (),                sessions.session(AsyncSession.unpin)),
    "session.count_with":    Row("write",  (),                sessions.session(AsyncSession.count_with)),
    "session.fork":          Row("write",  (),                sessions.session(AsyncSession.fork)),
    "session.recount":       Row("write",  (),                sessions.recount),
    "session.summarize":     Row("write",  (),                sessions.summarize),
    "session.embed":         Row("write",  (),                sessions.embed),

    "memories.propose":  Row("write",  ("proposer",),         memories.propose, _POLICY),
    "memories.commit":   Row("review", ("reviewer",),         memories.commit, _POLICY),
    "memories.reject":   Row("review", ("reviewer",),         memories.reject, _POLICY),
    "memories.revoke":   Row("review", ("by",),               of("memories", AsyncMemories.revoke)),
    "memories.erase":    Row("admin",  ("by",),               of("memories", AsyncMemories.erase)),
    "memories.sweep":    Row("review", (),                    of("memories", AsyncMemories.sweep)),
    "memories.learn":    Row("write",  ("proposer",),         memories.learn, _POLICY),
    "memories.consolidate": Row("write", ("proposer",),       memories.consolidate, _POLICY),
    "memories.agree":    Row("write",  (),                    memories.agree),
    "memories.embed":    Row("write",  (),                    memories.embed),
    "memories.reembed":  Row("admin",  (),                    memories.reembed),

    "threads.append":      Row("write",  (),                  threads.append("threads.append")),
    "threads.append_many": Row("write",  (),                  threads.append("threads.append_many")),
    "threads.delete":      Row("write",  (),                  of("threads", AsyncThreads.delete, "thread_id")),
    "threads.erase":       Row("admin",  (),                  threads.erase),
    "threads.sweep":       Row("write",  (),                  threads.sweep),
    "threads.expire":      Row("write",  (),                  threads.expire),
    "threads.make_room":   Row("write",  (),                  threads.make_room),

    "registry.root":          Row("write",  (),               of("registry", AsyncRegistry.root)),
    "registry.start":         Row("write",  (),               of("registry", AsyncRegistry.start)),
    "registry.get_or_create": Row("write",  (),               of("registry", AsyncRegistry.get_or_create, "root")),
    "registry.extend":        Row("write",  (),               of("registry", AsyncRegistry.extend, "id")),
    "registry.cleanup":       Row("write",  (),               of("registry", AsyncRegistry.cleanup, "id")),

    "files.write":   Row("write",  (),                        files.limited(AsyncFiles.write)),
    "files.restore": Row("write",  (),                        files.limited(AsyncFiles.restore)),
    "files.delete":  Row("write",  (),                        files.limited(AsyncFiles.delete)),
    "files.rename":  Row("write",  (),                        files.limited(AsyncFiles.rename)),
    "files.erase":   Row("admin",  (),                        of("files", AsyncFiles.erase, "path")),

    "context.erase":       Row("admin",  ("by",),             memories.erase_person),
    "context.restore":     Row("admin",  ("actor",),          runs.restore_all, takes_file=True),

    "dispatch.begin":      Row("write",  (),                  threads.begin),
    "dispatch.replay":     Row("write",  (),                  threads.replay),
    "dispatch.take":       Row("write",  (),                  threads.worker(threads.take)),
    "dispatch.renew":      Row("write",  (),                  threads.worker(threads.renew)),
    "dispatch.note":       Row("write",  (),                  threads.worker(threads.note)),
    "dispatch.release":    Row("write",  (),                  threads.worker(threads.release)),
    "dispatch.hand_back":  Row("write",  (),                  threads.worker(threads.hand_back)),
    "dispatch.put_off":    Row("write",  (),                  threads.worker(threads.put_off)),
    "dispatch.conclude":   Row("write",  (),                  threads.worker(threads.conclude)),
}  # fmt: skip
OPERATIONS |= turns.rows(OPERATIONS)


async def make(row: Row, op: Invocation) -> None:
    """Make an operation under the caller's own name."""
    await row.make(named(row, op))
