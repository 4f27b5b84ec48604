"""How many, over HTTP: see tests/test_counts.py."""

from __future__ import annotations

import pytest

from tests.server.conftest import client
from tests.server.serving import Served


@pytest.mark.parametrize("wrong", ["0", "-1", "1001", "99999999999999999999999", "2.5", "many"])
@pytest.mark.parametrize(("path", "name"), [("/runs?limit=", "limit"), ("/memories/search?q=a&k=", "k")])
def test_a_server_refuses_in_the_same_words(shared: Served, path: str, name: str, wrong: str) -> None:
    with client(shared.url, shared.key()) as http:
        answer = http.get(path + wrong)
    seen = wrong if wrong.lstrip("-").isdigit() and len(wrong) < 19 else repr(wrong)
    assert answer.status_code == 422
    said = f"query: {name} must be a whole number from 1 to 1,000, not {seen}; allowed fields: "
    assert answer.json()["error"].startswith(said)
