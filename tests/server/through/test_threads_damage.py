from tests.services.test_threads_damage import *  # noqa: F403
