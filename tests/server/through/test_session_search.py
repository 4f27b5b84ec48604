from tests.services.test_session_search import *  # noqa: F403
