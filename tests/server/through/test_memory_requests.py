from tests.services.test_memory_requests import *  # noqa: F403
