from tests.services.test_files import *  # noqa: F403
