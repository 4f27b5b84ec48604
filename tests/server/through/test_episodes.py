from tests.services.test_episodes import *  # noqa: F403
