from tests.services.test_memory_poisoning import *  # noqa: F403
