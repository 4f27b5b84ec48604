"""The HTTP API: `uvicorn holdfast.compat.aos_context.api.main:app`."""
