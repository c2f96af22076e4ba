"""Which frames a detector searched for certain: what `privacy` relies on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.media import Batch, Frame, PixelFormat, Stream
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.detect import Detect
from tests.unit.infer.tiny import LABELS, image, write_detector

ENGINES = pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])


def frames(count: int) -> list[Frame]:
    rgb = image((1, 1, "yellow"), size_wh=(64, 64))
    surface = surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24)
    return [Frame(Stream("cam"), index, index * 40_000_000, surface) for index in range(count)]


def marks(model: Path, *, count: int = 1, **options: Any) -> list[tuple[bool, bool]]:
    """For each frame, whether a detector ran on it, and whether this one searched it."""
    element = Detect.model_validate({"id": "seeker", "model": model, "labels": LABELS, "confidence": 0.5} | options)
    results = run_element(element, make_batches(frames(count), size=2))
    return [mark for batch in results for mark in _marks(batch)]


def _marks(batch: Batch) -> list[tuple[bool, bool]]:
    searched = batch.columns.searched_by or (frozenset(),) * len(batch)
    return [(ran, own != frozenset()) for ran, own in zip(batch.columns.detected, searched, strict=True)]


@ENGINES
def test_frames_that_the_model_ran_on_are_searched(tmp_path: Path, engine: str) -> None:
    model = write_detector(tmp_path / "tiny.onnx")

    assert marks(model, count=4, every=3, engine=engine) == [(True, True), (False, False), (False, False), (True, True)]


@ENGINES
def test_a_frame_whose_outputs_are_no_numbers_is_not_searched(tmp_path: Path, engine: str) -> None:
    model = write_detector(tmp_path / "nan.onnx", offset=float("nan"))

    assert [searched for _, searched in marks(model, engine=engine)] == [False]


@ENGINES
def test_a_frame_of_whose_outputs_nothing_can_be_used_counts_as_not_detected(tmp_path: Path, engine: str) -> None:
    model = write_detector(tmp_path / "nan.onnx", offset=float("nan"))

    assert marks(model, engine=engine, confidence=0.999) == [(False, False)]


def test_a_frame_is_searched_when_all_its_regions_are(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "tiny.onnx")

    assert marks(model, regions=[[0, 0, 0.5, 1], [0.5, 0, 1, 1]]) == [(True, True)]


def test_the_mark_is_the_id_of_the_step(tmp_path: Path) -> None:
    element = Detect(model=write_detector(tmp_path / "tiny.onnx"), labels=LABELS)
    (batch,) = run_element(element, [Batch(tuple(frames(2)))])

    assert batch.columns.searched_by == (frozenset({"detect"}),) * 2
    assert np.array_equal(batch.columns.detected, (True, True))
