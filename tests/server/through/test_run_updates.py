from tests.services.test_run_updates import *  # noqa: F403
