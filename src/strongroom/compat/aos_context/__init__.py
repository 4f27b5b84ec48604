"""The AoS Context Module's own names over Strongroom: `from strongroom.compat.aos_context.ws_manager import ...`."""
