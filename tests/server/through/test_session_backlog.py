from tests.services.test_session_backlog import *  # noqa: F403
