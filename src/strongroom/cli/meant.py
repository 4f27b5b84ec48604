"""What was meant by a word that is no command: what others call the same thing, or else the nearest spelling.

Nothing here runs anything. A guess that were run could erase what nobody wanted erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

# What others say, and what is said here. The first that there is where it was typed is meant.
_SAID = {
    "list": "ls all index",
    "show": "get view cat read print open describe inspect info messages",
    "delete erase revoke": "rm remove del destroy drop purge forget wipe clear gdpr delete erase",
    "add create write propose": "new make insert put save store remember add create write set",
    "create": "init begin",
    "commit review": "approve accept confirm publish merge apply",
    "reject": "decline deny refuse discard dismiss",
    "pending review": "queue waiting proposals proposed staged inbox",
    "search": "find query recall grep lookup retrieve",
    "events history show": "log logs ledger trace audit versions changes history",
    "tail": "follow watch stream",
    "rename": "mv move",
    "copy fork": "cp clone branch duplicate migrate sync copy",
    "restore": "resume unpack load undo revert",
    "backup export": "pack dump download snapshot",
    "diff": "compare",
    "check verify": "validate fsck integrity test verify check",
    "update write propose": "edit patch modify change update",
    "consolidate": "dedupe deduplicate",
    "compact sweep": "expire gc clean cleanup prune vacuum shrink",
    "revoke": "disable invalidate",
    "rekey": "rotate",
    "learn": "extract",
    "doctor": "status health diagnose stats",
    "serve": "server start up ui console dashboard web http api",
    "worker": "work consume",
    "keys": "auth login token tokens user users",
    "runs": "task tasks agent agents job jobs checkpoints",
    "sessions": "chat chats conversation conversations",
    "memories": "mem facts knowledge",
    "threads": "mail mailbox queues",
    "files": "notes documents docs",
}
MEANT = {said: here.split() for here, words in _SAID.items() for said in words.split()}

# What others say for an option that every command has here.
_HELP = {"help", "man", "usage", "commands"}

# What only programs do, by the group in which somebody looks for it.
BY_PROGRAMS = {
    "": {"create": 'strongroom.open("agent.db") makes a store'},
    "runs": {
        "create": "ctx.runs.create(objective=...)",
        "update": "ctx.runs.get(run_id).update(...)",
        "record": "ctx.runs.get(run_id).record(type, payload)",
        "rollback": "ctx.runs.get(run_id).rollback(seq=...)",
        "milestone": "ctx.runs.get(run_id).milestone(reason)",
        "brief": "ctx.runs.get(run_id).brief(max_tokens=...)",
    },
    "sessions": {
        "create": "ctx.sessions.open(session_id)",
        "append": "ctx.sessions.open(session_id).append(message)",
    },
    "threads": {"create": "ctx.threads.append(thread_id, payload, from_id=...)", "append": "ctx.threads.append(...)"},
}


def meant(word: str, group: str, known: Sequence[str], below: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return what to say after "no command 'word'": what was meant, or else all there is.

    `known` are the commands of the group (an empty name is the outermost), `below` those of the groups in it.
    """
    said = word.lower()
    if said in _HELP:
        return f"did you mean '{f'{group} --help'.lstrip()}'?"
    for here in dict.fromkeys([said, *MEANT.get(said, ())]):
        if here in known:
            return f"did you mean {here!r}?"
        if here in BY_PROGRAMS.get(group, {}):
            return f"that is done by programs: {BY_PROGRAMS[group][here]}"
        if found := [f"{name} {here}" for name, commands in (below or {}).items() if here in commands]:
            return f"did you mean {_any_of(found)}?"
    if near := get_close_matches(said, known, n=1, cutoff=0.6):
        return f"did you mean {near[0]!r}?"
    return f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"


def _any_of(commands: Sequence[str]) -> str:
    *others, last = map(repr, commands)
    return f"{', '.join(others)} or {last}" if others else last
