"""Boxes that tremble come and go once, as exact positions do, and exact positions give what they always gave."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from sightline.graph import Element
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames, run_element
from sightline_plugins.rules.lines import Lines
from sightline_plugins.rules.zones import Zones

SIZE_WH, SECONDS, COUNT = (1280, 720), 20, 40
PERSON = Origin("walkers", ("person",))
POLYGON = [[0.3, 0.3], [0.7, 0.3], [0.7, 0.85], [0.3, 0.85]]


def walked(fps: int, *, noise: float) -> list[Batch]:
    """Walkers with boxes 40 by 100 pixels, 20 to 60 pixels a second; `noise` is a share of the box."""
    random = np.random.default_rng(3)
    start = random.uniform([0, 100], [1280, 720], (COUNT, 2))
    angle, speed = random.uniform(0, 2 * np.pi, COUNT), random.uniform(20, 60, COUNT)
    velocity = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    batches = []
    (still,) = make_frames(1, size_wh=SIZE_WH)
    for index in range(SECONDS * fps):
        frame = dataclasses.replace(still, index=index, pts_ns=index * 1_000_000_000 // fps)
        feet = start + velocity * frame.index / fps
        xyxy = np.tile(feet, 2) + np.array([-20, -100, 20, 0])
        xyxy += random.normal(0, noise, (COUNT, 4)) * [40, 100, 40, 100]
        objects = Objects.from_columns(
            frame=np.zeros(COUNT),
            xyxy=xyxy,
            confidence=np.full(COUNT, 0.9),
            class_id=np.zeros(COUNT),
            track_id=np.arange(1, COUNT + 1),
            source=PERSON,
        )
        batches.append(Batch((frame,), objects))
    return batches


def entries(element: Element, batches: list[Batch]) -> int:
    events = [event for batch in run_element(element, batches) for event in batch.events]
    return sum(event.data["direction"] in ("enter", "in") for event in events)


def zones(**options: object) -> Element:
    return Zones.model_validate({"hall": {"polygon": POLYGON, **options}})


def lines(**options: object) -> Element:
    return Lines.model_validate({"gate": {"from": [0, 0.5], "to": [1, 0.5], **options}})


@pytest.mark.parametrize("make", [zones, lines])
@pytest.mark.parametrize("fps", [10, 30, 60])
def test_boxes_that_tremble_come_as_often_as_exact_ones(make: Callable[..., Element], fps: int) -> None:
    exact = entries(make(), walked(fps, noise=0))
    trembling = walked(fps, noise=0.015)

    assert exact > 10
    assert abs(entries(make(), trembling) - exact) <= 0.1 * exact
    assert entries(make(margin=0), trembling) > 1.3 * exact or fps == 10


@pytest.mark.parametrize("make", [zones, lines])
def test_exact_positions_give_the_same_events_with_and_without(make: Callable[..., Element]) -> None:
    batches = walked(30, noise=0)

    def found(**options: object) -> list[tuple[int, object]]:
        results = run_element(make(**options), batches)
        return [(batch.frames[0].index, event) for batch in results for event in batch.events]

    assert found() == found(margin=0)
