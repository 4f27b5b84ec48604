from tests.services.test_runs_erasure import *  # noqa: F403
