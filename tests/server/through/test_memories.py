from tests.services.test_memories import *  # noqa: F403
