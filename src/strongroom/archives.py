"""Where threads go before they leave: `FolderArchive("archive/")` as `ctx.threads.limited(archive=...)`.

An archive is any callable that takes a thread's id and its pack and returns once the pack is safe.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from strongroom.files import opened, writing
from strongroom.services.threads.packs import pack_thread, unpack_thread
from strongroom.services.threads.payloads import PayloadTypes
from strongroom.services.threads.values import Slot

__all__ = ["FolderArchive", "pack_thread", "read_archive", "unpack_thread"]


class FolderArchive:
    """Write each pack to a file of its own. The file is complete and on disk, or not there.

    >>> from pathlib import Path
    >>> from strongroom.archives import FolderArchive, read_archive
    >>> ctx = strongroom.open("memory://")
    >>> threads = ctx.threads.limited(archive=FolderArchive("ended"))
    >>> _ = threads.append("orders", {"order": 7}, from_id="support")
    >>> threads.make_room()
    'orders'
    >>> [path] = Path("ended").iterdir()
    >>> read_archive(path)[1][0].payload
    {'order': 7}
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def __call__(self, thread_id: str, pack: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # The name is for people; the hash tells two threads apart whose names look the same once quoted and cut.
        digest = sha256(thread_id.encode() + b"\0" + pack).hexdigest()[:16]
        target = self.folder / f"{quote(thread_id, safe='')[:80]}-{digest}.zip"
        with writing(target) as file:
            file.write(pack)


def read_archive(path: str | os.PathLike[str], *, types: PayloadTypes | None = None) -> tuple[str, list[Slot]]:
    """Return the thread id and the slots of an archived thread."""
    with opened(path) as file:
        return unpack_thread(file.read(), types=types)
