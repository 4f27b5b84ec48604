"""The AoS Context Module's own names over Holdfast: `from holdfast.compat.aos_context.ws_manager import ...`."""
