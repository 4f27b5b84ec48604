"""The HTTP API: `uvicorn strongroom.compat.aos_context.api.main:app`."""
