from tests.services.test_packs import *  # noqa: F403
