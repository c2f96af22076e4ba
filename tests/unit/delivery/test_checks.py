"""Mistakes in what is sent are reported before anything runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pydantic import BaseModel

from sightline.config import parse_steps
from sightline.config.step_checks import unknown_labels, unknown_rules, unmet_needs
from sightline.graph import Registry
from sightline.graph.tree import Step
from sightline.testing import conformance
from tests.unit.delivery.sending import Post, walk

LINES = {"lines": {"gate_in": {"from": [0, 0.5], "to": [1, 0.5]}}}
BEFORE: tuple[Any, ...] = ({"replay": {"path": "det.txt", "label": "car"}}, "track", LINES)


def steps(before: tuple[Any, ...], **options: Any) -> tuple[Step, ...]:
    return (*parse_steps(before), Post(**options))


def needs(before: tuple[Any, ...], **options: Any) -> list[str]:
    found = unmet_needs(steps(before, **options), streams=("gate",), registry=Registry())
    return [message.split(":")[0] for _, message in found]


@pytest.mark.parametrize(
    ("before", "send", "message"),
    [
        ((), "objects", "post needs objects, and no step before it gives any"),
        (BEFORE[:1], "tracks", "post needs tracks, and no step before it gives any"),
        (BEFORE[:2], "events", "post needs events, and no step before it gives any"),
    ],
)
def test_a_kind_that_nothing_can_be_found_for_is_one_error(before: Any, send: str, message: str) -> None:
    assert needs(before, send=send) == [message]


@pytest.mark.parametrize("send", ["frames", "counts", "status", ["events", "tracks", "objects"]])
def test_what_is_found_can_be_sent(send: Any) -> None:
    assert needs(BEFORE, send=send) == []


def test_frames_need_nothing() -> None:
    assert needs(()) == []


def test_a_label_that_nobody_finds_is_an_error_at_its_place() -> None:
    ((key, message),) = unknown_labels(steps(BEFORE, labels=["car", "lorry"]), streams=("gate",))

    assert key[-2:] == ("labels", 1)
    assert "no step before it finds 'lorry'" in message


def test_a_rule_that_is_nowhere_is_an_error_with_the_nearest_one() -> None:
    chosen = steps(BEFORE, send="events", rules="lines.gate_inn")
    ((key, message),) = unknown_rules(chosen, streams=("gate",))

    assert key[-2:] == ("rules", 0)
    assert "gate_in" in message


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_an_element_that_delivers_keeps_the_contract_of_elements(check: Any, tmp_path: Any) -> None:
    send = ["frames", "objects", "tracks", "events", "counts", "status"]
    batches = [dataclasses.replace(batch, events=()) for batch in walk()]
    check(conformance.Case(Post(send=send, labels="person", image="crop"), batches, outputs=tmp_path))


def test_an_editor_is_told_that_one_word_will_do() -> None:
    assert issubclass(Post, BaseModel)
    schema = Post.model_json_schema()["properties"]["send"]

    assert [choice["type"] for choice in schema["anyOf"]] == ["string", "array"]
