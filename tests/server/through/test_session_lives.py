from tests.services.test_session_lives import *  # noqa: F403
