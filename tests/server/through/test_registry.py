from tests.services.test_registry import *  # noqa: F403
