"""Every command there is, and one good way to call it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from strongroom.cli.root import cli
from strongroom.services.sessions.state import Naming

# Command, arguments, what people read, what programs find. MEMORY stands for the id of the one known memory.
CASES: dict[str, tuple[list[str], str, str]] = {
    "anchor": (["anchors.jsonl"], "anchored: ", "anchors"),
    "backup": (["copy.db"], "written: copy.db", "bytes"),
    "check": ([], "all good", "ok"),
    "compact": ([], "bytes before", "after_bytes"),
    "copy": (["agent.db", "other.db"], "both stores agree", "fingerprint"),
    "demo": (["--fast"], "0 lost", "acknowledged"),
    "doctor": ([], "durable: may lose nothing", "facts"),
    "erase": (["--user", "u1", "--yes"], "nothing of user u1 was found", "complete"),
    "files delete": (["/notes/a.md"], "deleted: /notes/a.md", "files"),
    "files erase": (["/notes/a.md", "--yes"], "erased: /notes/a.md", "versions"),
    "files history": (["/notes/a.md"], "written", "versions"),
    "files list": (["/notes"], "/notes/a.md", "files"),
    "files rename": (["/notes", "/books"], "moved: /notes to /books", "files"),
    "explain": (["conflict"], "Somebody else was first", "remedy"),
    "files restore": (["/notes/a.md", "1"], "restored: /notes/a.md", "version"),
    "files search": (["note"], "/notes/a.md", "hits"),
    "files show": (["/notes/a.md"], "a note about", "text"),
    "files write": (["/notes/b.md", "note.txt"], "written: /notes/b.md", "version"),
    "keys create": (["--space", "acme", "--role", "reader"], "cannot be shown again", "key"),
    "keys list": ([], "no keys", ""),
    "keys pair": (["signing.key"], "signing.key: public key", "public_key"),
    "learn": (["--model", "tests.cli.program:quiet", "--everybody"], "learnt from 20 messages", "proposals"),
    "mcp install": (["cursor", "--print", "--file", "mcp.json"], "nothing was written", "diff"),
    "memories add": (["likes tea", "--user", "u1", "--tag", "drink"], "active: mem_", "status"),
    "memories consolidate": (["--model", "tests.cli.program:unmoved", "--everybody"], "asked about 0 groups", "groups"),
    "memories delete": (["MEMORY"], "deprecated: mem_", "status"),
    "memories erase": (["--memory", "MEMORY", "--yes"], "erased: 1 memory,", "memories"),
    "memories list": ([], "allows one request", "memories"),
    "memories propose": (["proposal.json", "--proposer", "agent-8"], "pending: batch_", "proposals"),
    "memories review": (["--proposer", "nobody"], "nothing waits for a review", "accepted"),
    "memories revoke": (["feed", "--reason", "a hoax", "--yes"], "revoked: 0 memories of feed", "memories"),
    "memories show": (["MEMORY"], "allows one request", "content"),
    "memories commit": (["batch_second"], "committed: 1 memory,", "memory_ids"),
    "memories history": (["MEMORY"], "committed", ""),
    "memories pending": ([], "batch_second", "batches"),
    "memories reject": (["batch_second", "--reason", "no"], "rejected: batch_second", "reason"),
    "memories search": (["request"], "allows one request", "hits"),
    "review": (["--proposer", "nobody"], "nothing waits for a review", "accepted"),
    "runs diff": (["scraper", "0"], "+ BUSY", "changes"),
    "runs erase": (["scraper", "--reason", "asked to", "--yes"], "erased: 5 events", "sequence_id"),
    "runs events": (["scraper"], "TOOL_CALL", "events"),
    "runs export": (["scraper", "new.zip"], "written: new.zip", "pack_id"),
    "runs fork": (["scraper", "--as", "branch"], "forked: branch at seq 0", "run_id"),
    "runs list": ([], "scraper", "runs"),
    "runs restore": (["pack.zip", "--as", "again"], "restored: again at seq 1", "run_id"),
    "runs show": (["scraper"], "BUSY", "working_set"),
    "runs tail": (["scraper", "--after", "1", "-n", "1"], "TOOL_CALL", ""),
    "runs verify": (["scraper"], "verified", "ok"),
    "sessions delete": (["support", "--yes"], "deleted: support", "deleted"),
    "sessions erase": (["support", "--message", Naming("support").id(0), "--yes"], "erased: 1 message", "complete"),
    "sessions list": ([], "support", "sessions"),
    "sessions search": (["message", "-k", "2"], "support", "hits"),
    "sessions show": (["support", "-n", "3"], "message 19", "messages"),
    "sessions window": (["support", "--max-tokens", "400"], "of 20 messages", "receipt"),
    "threads sweep": (["--idle-seconds", "86400", "--yes"], "ended: none", "ended"),
    "threads delete": (["errands", "--yes"], "deleted: errands", "deleted"),
    "threads erase": (["errands", "--stop", "2", "--yes"], "erased: 2 slots", "slots"),
    "threads list": ([], "errands", "threads"),
    "threads show": (["errands"], "boss 4", "slots"),
    "threads tail": (["errands", "-n", "1"], "boss 4", ""),
    "version": ([], "strongroom", "sqlite"),
    "worker": (["tests.cli.program:dispatcher", "--drain"], "stopped", ""),
}
# Commands that need more than a store: tested on their own.
ELSEWHERE = {
    "serve",
    "encrypt",
    "decrypt",
    "rekey",
    "keys revoke",
    "import adk",
    "import aos",
    "import contextstore",
    "import langgraph",
    "import mem0",
    "import openai-agents",
}


def leaves(command: click.Command = cli, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command that is not a group."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for part, found in _parts(command):
        yield from leaves(found, f"{name} {part}".strip())


def groups(command: click.Command = cli, name: str = "") -> Iterator[str]:
    """Yield the names of the groups, the outermost one first."""
    if isinstance(command, click.Group):
        yield name
        for part, found in _parts(command):
            yield from groups(found, f"{name} {part}".strip())


def _parts(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for part in group.list_commands(context):
        found = group.get_command(context, part)
        assert found is not None
        yield part, found
