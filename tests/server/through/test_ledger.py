from tests.services.test_ledger import *  # noqa: F403
