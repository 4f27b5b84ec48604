from tests.services.test_brief import *  # noqa: F403
