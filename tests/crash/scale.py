"""How much of each campaign to run: a quick slice in `make test`, all of it in `make crash`."""

from __future__ import annotations

import os

SEED = int(os.environ.get("SEED", "0"))
KILLS = int(os.environ.get("STRONGROOM_KILLS", "200"))
CUTS = int(os.environ.get("STRONGROOM_CUTS", "600"))
FLIPS = int(os.environ.get("STRONGROOM_FLIPS", "500"))
ROUNDS = int(os.environ.get("STRONGROOM_ROUNDS", "1"))
ALLOCATIONS = int(os.environ.get("STRONGROOM_ALLOCATIONS", "100"))
