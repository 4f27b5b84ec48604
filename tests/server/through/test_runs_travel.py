from tests.services.test_runs_travel import *  # noqa: F403
