"""The table of endpoints, a file for each resource."""

from strongroom.server.endpoint import Endpoint
from strongroom.server.routes import classic, files, memories, ops, packs, runs, sessions, store, threads

ENDPOINTS: tuple[Endpoint, ...] = (
    *ops.ENDPOINTS,
    *runs.ENDPOINTS,
    *classic.ENDPOINTS,
    *packs.ENDPOINTS,
    *memories.ENDPOINTS,
    *sessions.ENDPOINTS,
    *threads.ENDPOINTS,
    *files.ENDPOINTS,
    *store.ENDPOINTS,
)
