"""The backend `manager`, in the module that has always held it: a SQLite file that processes of a machine share."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from strongroom.compat import stores
from strongroom.compat.xml_pipeline.memory.backend_config import BackendConfig
from strongroom.compat.xml_pipeline.memory.store_backend import StoreBackend
from strongroom.errors import InvalidInput


class ManagerBackend(StoreBackend):
    """A backend in a SQLite file that processes of this machine share: by a configuration, or by the file's path."""

    def __init__(
        self, address: str | os.PathLike[str] | BackendConfig | None = None, authkey: bytes | None = None
    ) -> None:
        if isinstance(address, BackendConfig):
            config = address
        else:
            config = BackendConfig("manager", manager_address=address, manager_authkey=authkey)
        if isinstance(config.manager_address, tuple):
            raise InvalidInput("manager_address is the path of a file; for other machines there is 'redis'")
        if config.manager_address is None:
            folder = tempfile.mkdtemp(prefix="strongroom-shared-")
            # Kept in the configuration, so that whoever is handed it opens the same file.
            config.manager_address = str(Path(folder, "shared.db"))
            weakref.finalize(self, _remove, config.manager_address, os.getpid())
        self._address = address = os.fspath(config.manager_address)
        super().__init__(lambda: stores.using(address), config)
        with self.using():
            pass  # a wrong address is told now

    def __reduce__(self) -> tuple[Any, ...]:
        return ManagerBackend, (self.config,)

    def close(self) -> None:
        super().close()
        stores.close(self._address)


def _remove(address: str, pid: int) -> None:
    if pid == os.getpid():
        stores.close(address)
        shutil.rmtree(Path(address).parent, ignore_errors=True)
