"""The table of endpoints, a file for each resource. The first that fits a path serves it."""

from strongroom.server.router import Endpoint
from strongroom.server.routes import classic, files, memories, ops, packs, runs, sessions, store, threads

ENDPOINTS: list[Endpoint] = [
    each for group in (runs, sessions, store, memories, threads, files, classic, packs, ops) for each in group.endpoint
]
