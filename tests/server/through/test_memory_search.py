from tests.services.test_memory_search import *  # noqa: F403
