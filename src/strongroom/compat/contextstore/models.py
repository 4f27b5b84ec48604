"""Messages under the name that ContextStore has for their module."""

from __future__ import annotations

from strongroom.compat.interactions import Interaction as Interaction
