"""The episode files of a run folder, and the episodes of the run: each is brought to the other side.

`create_episode` writes a file and knows no run, so a run takes the files of its folder in before a pack is made of it.
Whoever brings a run back from a pack writes its episodes to files again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strongroom.blocking.runs import Run
from strongroom.bridge import run as drive
from strongroom.codec import encode
from strongroom.compat.aos_context import _legacy
from strongroom.compat.aos_context._exports import write_json
from strongroom.errors import Conflict
from strongroom.services.runs import episodes
from strongroom.services.runs.history import episode_digest
from strongroom.services.runs.state import Ref, record
from strongroom.services.runs.working_set import instant
from strongroom.store import EXISTS, Append, Commit, Entry, Expect, Tail, new_id
from strongroom.values import Episode, microseconds

PAGE = 100
REASON = "made outside of Strongroom"
_ID = re.compile(r"ep_[0-9a-f]+")


def episodes_beside(working_set: Path) -> Path:
    """Return the folder of episodes that belongs to `<run>/state/<working set>`."""
    return working_set.absolute().parents[1] / "episodes"


def write_episode(folder: Path, episode: dict[str, Any]) -> Path:
    """Write an episode's file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{episode['episode_id']}.v2.1.json"
    write_json(path, episode)
    return path


def export_episodes(run: Run, folder: Path) -> None:
    """Write the files of the episodes that have none yet."""
    for episode in _all(run):
        if not (folder / f"{episode.episode_id}.v2.1.json").exists():
            write_episode(folder, episode.to_dict())


def take_in(run: Run, folder: Path) -> None:
    """Add the episodes of a folder that the run does not have. What is no episode is left out."""
    while True:
        known = {episode.episode_id for episode in _all(run)}
        found, _ = _legacy.episodes(folder)
        try:
            for episode in found:
                if episode["episode_id"] not in known and _ID.fullmatch(episode["episode_id"]):
                    _add(run, episode)
        except Conflict:
            continue  # another process adds some too
        return


def _all(run: Run) -> Iterator[Episode]:
    after = 0
    while True:
        page = run.episodes(after=after, limit=PAGE)
        yield from page
        if page.next is None:
            return
        after = int(page.next)


def _add(run: Run, episode: dict[str, Any]) -> None:
    ref = run._async._ref
    past = drive(ref.scope.get(Tail(ref.episodes, 1)))
    last = episodes.read(past.records[0]) if past.records else None
    body = {name: episode[name] for name in ("episode_id", "summary", "memory_commits", "next_entry_point")}
    # Which events it covers is not said, so the next one still covers all since the last that says it.
    covered = last.last_event if last else 0
    body |= {side: {**episode[side], "run_id": ref.run_id} for side in ("ws_before", "ws_after")}
    body |= {"reason": REASON, "first_event": covered, "last_event": covered}
    entry = Entry(episodes.TYPE, encode(body), at=microseconds(instant(episode["created_at"], "created_at")))
    told = {"reason": REASON, "episode_id": episode["episode_id"]}
    digest = {"episode_sha256": episode_digest(entry.at, entry.body)}
    milestone = record(ref, "MILESTONE", told, actor="aos_context", detail=digest)
    expects = (Expect(ref.key, EXISTS), Expect(ref.episodes, past.length))
    writes = (Append(ref.episodes, (entry,)), Append(ref.ledger, (milestone,)))
    drive(_commit(ref, Commit(new_id(), expects, writes)))


async def _commit(ref: Ref, commit: Commit) -> None:
    await ref.scope.store.commit(commit)
