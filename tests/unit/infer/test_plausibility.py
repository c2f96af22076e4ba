"""A detector whose first results cannot be right is warned of, once, with what its outputs were."""

from __future__ import annotations

import numpy as np
import pytest

from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.plausibility import PlausibilityCheck

SIZE_WH = (64, 48)


def boxes(count: int, *, confidence: float | None = None, shift: float = 0.0) -> Candidates:
    """Boxes inside the input, moved to the right by `shift`, with different confidences unless one is given."""
    left = np.linspace(0, 30, count) + shift
    xyxy = np.stack([left, np.full(count, 4), left + 10, np.full(count, 14)], axis=1)
    scores = np.linspace(0.3, 0.9, count) if confidence is None else np.full(count, confidence)
    return Candidates.from_arrays(xyxy, scores, np.zeros(count))


def warned(found: Candidates, *, images: int = 250) -> list[str]:
    warnings: list[str] = []
    check = PlausibilityCheck(["scores"], warn=warnings.append)
    outputs = [np.array([[0.0, 0.125]], np.float32)]
    for _ in range(images):
        check.add(found, size_wh=SIZE_WH, outputs=outputs)
    check.finish()
    return warnings


def test_a_detector_that_finds_something_is_not_warned_of() -> None:
    assert warned(boxes(5)) == []


def test_a_detector_that_finds_nothing_is_warned_of_with_its_outputs() -> None:
    (text,) = warned(boxes(0))

    assert text.startswith("nothing was found on the first 200 images (on the last of them its outputs were ")
    assert "scores 1x2 from 0 to 0.125" in text
    assert "sightline verify" in text


def test_a_short_run_is_judged_at_its_end() -> None:
    assert "first 50 images" in warned(boxes(0), images=50)[0]
    assert warned(boxes(0), images=10) == []


def test_boxes_that_all_have_one_score_are_warned_of() -> None:
    assert "boxes of the first 200 images have the confidence 0.7" in warned(boxes(3, confidence=0.7))[0]


@pytest.mark.parametrize("shift", [-200.0, 500.0])
def test_boxes_beside_the_image_are_warned_of(shift: float) -> None:
    assert "lie beside the image" in warned(boxes(3, shift=shift))[0]


def test_one_box_does_not_tell() -> None:
    warnings: list[str] = []
    check = PlausibilityCheck([], warn=warnings.append)
    check.add(boxes(1, confidence=0.5), size_wh=SIZE_WH)
    for _ in range(300):
        check.add(boxes(0), size_wh=SIZE_WH)

    assert warnings == []
