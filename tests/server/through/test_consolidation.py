"""Consolidation through the HTTP client: the model is the caller's, and the server makes the proposals."""

from tests.services.test_consolidation import *  # noqa: F403
