from tests.services.test_session_deletion import *  # noqa: F403
