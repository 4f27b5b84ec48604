from tests.services.test_memory_vectors import *  # noqa: F403
