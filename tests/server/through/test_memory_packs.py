from tests.services.test_memory_packs import *  # noqa: F403
