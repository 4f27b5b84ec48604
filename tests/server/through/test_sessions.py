from tests.services.test_sessions import *  # noqa: F403
