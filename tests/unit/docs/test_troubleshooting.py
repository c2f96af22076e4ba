"""The messages that the page on troubleshooting explains are those that the code has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.conftest import REPOSITORY

PAGE = REPOSITORY / "docs" / "troubleshooting.md"
MESSAGE = re.compile(r"^### `(?P<text>.+)`$", re.MULTILINE)
VARIES = "…"
SHORTEST = 4
"""Constant parts with fewer characters say nothing."""


def messages() -> list[str]:
    return [match["text"] for match in MESSAGE.finditer(PAGE.read_text())]


@cache
def literals() -> tuple[str, ...]:
    """Every text in the code, with `…` for what is filled in when the program runs; docstrings are left out."""
    return tuple(
        text
        for root in ("pipeline", "plugins")
        for file in sorted((REPOSITORY / root).rglob("*.py"))
        for text in _texts(ast.parse(file.read_text()))
    )


def _texts(tree: ast.Module) -> Iterator[str]:
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else VARIES for part in node.values)


def missing_parts(message: str) -> list[str]:
    """The constant parts of a message that no text of the code holds."""
    parts = [part.strip() for part in message.split(VARIES)]
    return [part for part in parts if len(part) >= SHORTEST and not any(part in literal for literal in literals())]


@pytest.mark.parametrize("message", messages())
def test_a_message_that_is_explained_is_one_of_the_code(message: str) -> None:
    assert any(len(part.strip()) >= SHORTEST for part in message.split(VARIES))
    assert missing_parts(message) == []


def test_a_message_that_the_code_does_not_have_is_noticed() -> None:
    assert missing_parts("the camera … went for a walk") == ["the camera", "went for a walk"][1:]


def test_at_least_thirty_messages_are_explained() -> None:
    assert len(messages()) >= 30
