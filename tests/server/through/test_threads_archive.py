from tests.services.test_threads_archive import *  # noqa: F403
