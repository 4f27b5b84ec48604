from tests.services.test_sessions_shared import *  # noqa: F403
