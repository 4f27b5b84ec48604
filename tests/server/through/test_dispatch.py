from tests.dispatch.conftest import desk, make_desk  # noqa: F401
from tests.dispatch.test_dispatch import *  # noqa: F403
