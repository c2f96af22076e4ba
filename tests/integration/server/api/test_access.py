"""Who may call what: over all operations of the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sightline.server.credentials import Role
from tests.integration.server.api.conftest import Client, Steered

NAMES = {
    "pipeline": "street",
    "stream": "gate",
    "element": "zones-1",
    "rule": "plaza",
    "event": "1-1",
    "recording": "1",
    "tag": "abc",
    "inspection": "none",
    "image": "frame.png",
    "track": "1",
}


def operations(steered: Steered) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The method, the path and the description of each operation."""
    document = steered.viewer.ask("/api/v1/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), re.sub(r"\{(\w+)\}", lambda found: NAMES[found[1]], path), operation


@pytest.fixture
def clients(unchanged: Steered) -> dict[Role, Client]:
    return {Role.VIEWER: unchanged.viewer, Role.OPERATOR: unchanged.operator, Role.ADMIN: unchanged.admin}


def test_the_document_is_openapi_3_1_and_has_the_whole_api(unchanged: Steered) -> None:
    document = unchanged.viewer.ask("/api/v1/openapi.json").json()

    assert document["openapi"].startswith("3.1")
    assert len(list(operations(unchanged))) >= 20
    assert all(path.startswith("/api/v1/") for path in document["paths"])


def test_every_operation_is_explained(unchanged: Steered) -> None:
    lacking = [
        (method, path)
        for method, path, operation in operations(unchanged)
        if not operation.get("summary") or operation["summary"] == operation["operationId"]
    ]

    assert lacking == []


def test_without_a_token_nothing_is_answered(unchanged: Steered) -> None:
    statuses = {(method, path): unchanged.nobody.ask(path, method).status for method, path, _ in operations(unchanged)}

    assert set(statuses.values()) == {401}


def test_with_a_wrong_token_nothing_is_answered(steered: Steered) -> None:
    guess = Client(steered.listener.port, "00000000.guess-guess-guess-guess")

    assert {guess.ask(path, method).status for method, path, _ in operations(steered)} <= {401, 429}


def test_a_viewer_writes_nothing(unchanged: Steered) -> None:
    statuses = {
        (method, path): unchanged.viewer.ask(path, method, {}).status
        for method, path, _ in operations(unchanged)
        if method != "GET"
    }

    assert len(statuses) >= 8
    assert set(statuses.values()) == {403}


def test_each_operation_is_for_the_role_that_the_document_says(unchanged: Steered, clients: dict[Role, Client]) -> None:
    wrong = []
    for method, path, operation in operations(unchanged):
        for role, client in clients.items():
            if not role.covers(Role(operation["x-role"])):
                status = client.ask(path, method, None if method == "GET" else {}).status
                wrong += [] if status == 403 else [(method, path, role, status)]

    assert wrong == []


def test_what_is_refused_changes_nothing(unchanged: Steered) -> None:
    before = unchanged.pipeline.configuration.etag
    for method, path, _ in operations(unchanged):
        if method != "GET":
            unchanged.viewer.ask(path, method, {})
            unchanged.nobody.ask(path, method, {})

    assert unchanged.pipeline.configuration.etag == before
    assert not unchanged.audit.exists()
