"""Files: the blocking twin of AsyncFiles."""

from __future__ import annotations

from strongroom.arguments import got_by
from strongroom.bridge import blocking
from strongroom.meant import Meant
from strongroom.services.files.files import AsyncFiles


@got_by("`ctx.files`", lambda given: isinstance(given, AsyncFiles))
class Files(Meant):
    """The files of one space. `limited()` gives a view under a budget.

    >>> ctx = strongroom.open("memory://")
    >>> ctx.files.write("/notes/ana.md", "likes tea").version
    1
    >>> ctx.files.read("/notes/ana.md").text
    'likes tea'
    """

    def __init__(self, files: AsyncFiles) -> None:
        self._async = files

    def __repr__(self) -> str:
        return repr(self._async)

    def limited(
        self, *, max_files: int | None = None, max_bytes: int | None = None, max_file_bytes: int | None = None
    ) -> Files:
        """Return the same files under a budget: how much a top folder may hold, and one file."""
        return Files(self._async.limited(max_files=max_files, max_bytes=max_bytes, max_file_bytes=max_file_bytes))

    write = blocking(AsyncFiles.write)
    restore = blocking(AsyncFiles.restore)
    delete = blocking(AsyncFiles.delete)
    rename = blocking(AsyncFiles.rename)
    erase = blocking(AsyncFiles.erase)
    read = blocking(AsyncFiles.read)
    at = blocking(AsyncFiles.at)
    list = blocking(AsyncFiles.list)
    history = blocking(AsyncFiles.history)
    search = blocking(AsyncFiles.search)
