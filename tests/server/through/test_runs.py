from tests.services.test_runs import *  # noqa: F403
