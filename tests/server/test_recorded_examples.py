"""The examples of the API's description are true."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from docs.recording import record, shape

from strongroom.server.openapi import describe, examples
from strongroom.server.responses import JSON
from strongroom.server.router import Endpoint
from strongroom.server.routes import ENDPOINTS
from tests.server.test_roles import name

SPOKEN = [endpoint for endpoint in ENDPOINTS if endpoint.media == JSON == endpoint.accepts]
DESCRIPTION = describe(ENDPOINTS)


@pytest.mark.parametrize("endpoint", SPOKEN, ids=name)
def test_an_endpoint_that_speaks_json_has_an_example(endpoint: Endpoint) -> None:
    assert "answer" in examples()[name(endpoint)]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return record()


@pytest.mark.parametrize("called", examples())
def test_a_server_answers_as_in_the_example(recorded: dict[str, Any], called: str) -> None:
    assert shape(recorded[called]) == shape(examples()[called]), recorded[called]  # else: make docs


def test_an_example_is_shown_of_everything_that_is_recorded(recorded: dict[str, Any]) -> None:
    assert recorded.keys() == examples().keys()


def schemas(endpoint: Endpoint) -> list[tuple[Any, Any]]:
    """Return each example of an endpoint with the schema it must fit."""
    operation = DESCRIPTION["paths"][endpoint.path][endpoint.method.lower()]
    contents = [operation["responses"]["200"]["content"][JSON]]
    if endpoint.body is not None:
        contents.append(operation["requestBody"]["content"][JSON])
    contents += [parameter for parameter in operation["parameters"] if "example" in parameter]
    return [(content["schema"], content["example"]) for content in contents]


@pytest.mark.parametrize("endpoint", SPOKEN, ids=name)
def test_an_example_fits_its_description(endpoint: Endpoint) -> None:
    pairs = schemas(endpoint)
    assert pairs
    for schema, example in pairs:
        whole = {**schema, "components": DESCRIPTION["components"]}
        jsonschema_rs.Draft202012Validator(whole).validate(example)


@pytest.mark.parametrize("endpoint", [each for each in SPOKEN if "{" in each.path], ids=name)
def test_an_example_says_whom_it_is_about(endpoint: Endpoint) -> None:
    operation = DESCRIPTION["paths"][endpoint.path][endpoint.method.lower()]
    assert all("example" in parameter for parameter in operation["parameters"] if parameter["in"] == "path")
