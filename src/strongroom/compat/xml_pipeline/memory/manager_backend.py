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


class ManagerBackend(StoreBackend):
    """A backend in a SQLite file that processes of this machine share."""

    def __init__(self, config: BackendConfig | None = None) -> None:
        config = config or BackendConfig("manager")
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
