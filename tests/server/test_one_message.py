"""One message may be sent without a list around it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

ONE = {"role": "user", "content": "hello"}


def said(http: httpx.Client, id: str) -> list[Any]:
    return [each["message"]["content"] for each in http.get(f"/sessions/{id}/messages").json()["messages"]]


def test_one_message_is_appended(admin: httpx.Client) -> None:
    admin.post("/sessions/appended/messages", json={"messages": ONE})
    assert said(admin, "appended") == ["hello"]


def test_one_message_takes_the_place_of_all(admin: httpx.Client) -> None:
    admin.post("/sessions/replaced/messages", json={"messages": [ONE, ONE]})
    admin.put("/sessions/replaced/messages", json={"messages": {**ONE, "content": "bye"}})
    assert said(admin, "replaced") == ["bye"]


def test_one_message_and_a_list_of_it_are_one_request(admin: httpx.Client) -> None:
    for messages in (ONE, [ONE]):
        admin.post("/sessions/once/messages", json={"messages": messages}, headers={"Idempotency-Key": "once"})
    assert said(admin, "once") == ["hello"]


@pytest.mark.parametrize("wrong", ["hello", ["hello"], 1, None])
def test_what_is_no_message_is_refused(admin: httpx.Client, wrong: object) -> None:
    assert admin.post("/sessions/wrong/messages", json={"messages": wrong}).status_code == 422


def test_one_tool_of_a_prompt_needs_no_list_around_it(admin: httpx.Client) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    admin.post("/sessions/tooled/messages", json={"messages": ONE})
    asked = {"session_id": "tooled", "max_tokens": 1000}
    one, listed = (admin.post("/prompt", json={**asked, "tools": tools}).json() for tools in (tool, [tool]))
    assert one["receipt"] == listed["receipt"]
