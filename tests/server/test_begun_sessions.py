"""A session that begins with its first messages: with all of them, or not at all."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

HELLO = {"role": "user", "content": "Hello"}
TWICE = {"messages": [{**HELLO, "id": "m"}, {**HELLO, "id": "m"}]}
UNSEEN = {"messages": [HELLO], "expected_revision": "abc.1.0"}
WRONG = {"messages": [{"role": "nobody"}, 7]}
KEY = {"Idempotency-Key": "k"}


@pytest.mark.parametrize("body", [TWICE, UNSEEN, WRONG], ids=["twice", "unseen", "wrong"])
def test_messages_that_are_refused_begin_no_session(alone: httpx.Client, body: dict[str, Any]) -> None:
    assert alone.post("/sessions/new/messages", json=body, headers=KEY).status_code in {409, 422}
    assert alone.get("/sessions/new").status_code == 404


def test_a_revision_of_a_session_that_is_not_there_is_a_conflict(alone: httpx.Client) -> None:
    answer = alone.post("/sessions/new/messages", json=UNSEEN)
    assert (answer.status_code, "there is no session 'new'" in answer.json()["details"]["message"]) == (409, True)


def test_a_session_begins_with_its_first_messages(alone: httpx.Client) -> None:
    alone.post("/sessions/new/messages", json={"messages": [{**HELLO, "id": "m"}]})
    alone.post("/sessions/new/messages", json={"messages": [HELLO]})
    assert [one["index"] for one in alone.get("/sessions/new/messages").json()["messages"]] == [0, 1]


def test_a_session_begins_without_messages_too(alone: httpx.Client) -> None:
    assert alone.post("/sessions/new/messages", json={"messages": []}, headers=KEY).json()["messages"] == []
    assert alone.get("/sessions/new").status_code == 200


def test_a_repeat_of_what_began_a_session_does_not_begin_it_anew(alone: httpx.Client) -> None:
    alone.post("/sessions/new/messages", json={"messages": [HELLO]}, headers=KEY)
    alone.delete("/sessions/new")
    assert alone.post("/sessions/new/messages", json={"messages": [HELLO]}, headers=KEY).status_code == 404


def test_a_repeat_of_what_was_sent_to_a_session_does_not_bring_it_back(alone: httpx.Client) -> None:
    alone.post("/sessions", json={"id": "old"})
    alone.post("/sessions/old/messages", json={"messages": [HELLO]}, headers=KEY)
    alone.delete("/sessions/old")
    assert alone.post("/sessions/old/messages", json={"messages": [HELLO]}, headers=KEY).status_code == 404
    assert alone.get("/sessions/old").status_code == 404


def test_a_repeat_of_what_was_sent_to_a_session_gets_the_first_answer(alone: httpx.Client) -> None:
    alone.post("/sessions", json={"id": "old"})
    first, second = (
        alone.post("/sessions/old/messages", json={"messages": [HELLO]}, headers=KEY).content for _ in range(2)
    )
    assert (second, len(alone.get("/sessions/old/messages").json()["messages"])) == (first, 1)


def test_a_key_whose_messages_were_refused_may_send_others(alone: httpx.Client) -> None:
    alone.post("/sessions", json={"id": "old"})
    assert alone.post("/sessions/old/messages", json=TWICE, headers=KEY).status_code == 422
    assert alone.post("/sessions/old/messages", json=UNSEEN, headers=KEY).status_code == 409
    assert alone.post("/sessions/old/messages", json={"messages": [HELLO]}, headers=KEY).status_code == 200


def test_a_key_that_was_sent_to_a_session_says_nothing_about_a_later_one_of_its_name(alone: httpx.Client) -> None:
    for _ in range(2):
        alone.post("/sessions", json={"id": "old"})
        alone.post("/sessions/old/messages", json={"messages": [HELLO]}, headers=KEY)
        assert len(alone.get("/sessions/old/messages").json()["messages"]) == 1
        alone.delete("/sessions/old")


def test_a_key_that_was_sent_to_one_session_begins_another(alone: httpx.Client) -> None:
    alone.post("/sessions", json={"id": "old"})
    for id in ("old", "new"):
        assert alone.post(f"/sessions/{id}/messages", json={"messages": [HELLO]}, headers=KEY).status_code == 200


def test_a_key_that_began_a_session_says_nothing_about_a_later_one_of_its_name(alone: httpx.Client) -> None:
    alone.post("/sessions/new/messages", json={"messages": [HELLO]}, headers=KEY)
    alone.delete("/sessions/new")
    alone.post("/sessions", json={"id": "new"})
    alone.post("/sessions/new/messages", json={"messages": [HELLO]}, headers=KEY)
    assert len(alone.get("/sessions/new/messages").json()["messages"]) == 1


def test_an_id_of_a_message_is_free_again_in_a_session_of_the_same_name(alone: httpx.Client) -> None:
    for _ in range(2):
        assert alone.post("/sessions/new/messages", json={"messages": [{**HELLO, "id": "m"}]}).status_code == 200
        alone.delete("/sessions/new")


def test_a_repeat_of_more_messages_than_an_answer_is_kept_of_is_answered_as_the_first(alone: httpx.Client) -> None:
    many = {"messages": [HELLO] * 3000}
    first, second = (alone.post("/sessions/new/messages", json=many, headers=KEY) for _ in range(2))
    assert (first.status_code, second.content) == (200, first.content)
