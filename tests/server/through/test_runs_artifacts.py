from tests.services.test_runs_artifacts import *  # noqa: F403
