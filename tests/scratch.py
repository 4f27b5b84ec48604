"""Where tests put their files: in memory, where there is room for them.

Most of what a test of a small store does is waiting for a disk. What a test is about does not depend on one: a kill
leaves what the system was given, and power cuts are simulated above the file system. TMPDIR decides, if it is set.
"""

from __future__ import annotations

import os
import shutil
import tempfile

MEMORY = "/dev/shm"
ROOM = 4 << 30  # bytes; containers often give 64 MB


def in_memory(folder: str = MEMORY) -> bool:
    """Tell whether a folder is one where tests can keep files and run programs, with room for all of them."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC and shutil.disk_usage(folder).free > ROOM


def choose() -> None:
    """Have `tempfile`, and whatever this process starts, use memory."""
    if "TMPDIR" not in os.environ and in_memory():
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None  # it may have looked before
