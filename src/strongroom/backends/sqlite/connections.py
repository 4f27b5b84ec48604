"""What a store does for its committer, and how connections end."""

from __future__ import annotations

from typing import Protocol

import apsw


class Connections(Protocol):
    """What the store does for its committer."""

    @property
    def anchor(self) -> apsw.Connection: ...
    @property
    def sealed(self) -> bool:
        """Whether each page of the file is encrypted as a whole."""

    def connect_to_write(self) -> apsw.Connection: ...
    def reconnect(self) -> None:
        """Close everything that still knows a log that was removed, and open the file again."""


def drop(con: apsw.Connection, files_are_lost: bool) -> None:
    """Close a connection whatever happens; if its files are lost, without writing its log over those that are there."""
    try:
        if files_are_lost:
            con.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        con.close(True)
    except apsw.Error:
        pass
