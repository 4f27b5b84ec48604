from tests.services.test_threads import *  # noqa: F403
