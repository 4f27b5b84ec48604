"""The table of endpoints, a file for each resource. The first that fits a path serves it; the busiest come first."""

from strongroom.server.router import Endpoint
from strongroom.server.routes import (
    changes,
    classic,
    console,
    figures,
    files,
    keys,
    memories,
    memory_writes,
    ops,
    packs,
    prompt,
    runs,
    search,
    sessions,
    store,
    threads,
)

GROUPS = (
    runs,
    sessions,
    store,
    memories,
    memory_writes,
    threads,
    files,
    changes,
    search,
    prompt,
    classic,
    packs,
    keys,
    ops,
    console,
    figures,
)
ENDPOINTS: list[Endpoint] = [each for group in GROUPS for each in group.endpoint]
