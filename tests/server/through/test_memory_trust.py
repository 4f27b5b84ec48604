from tests.services.test_memory_trust import *  # noqa: F403
