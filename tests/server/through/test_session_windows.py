from tests.services.test_session_windows import *  # noqa: F403
