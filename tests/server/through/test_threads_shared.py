from tests.services.test_threads_shared import *  # noqa: F403
