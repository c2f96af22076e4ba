"""The C functions that read boxes: under sanitizers, and beside plain NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sightline.media.boxes import clip, iou_matrix
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.postprocessing import DetectionRules
from sightline_plugins.infer.selection import BoxSelector
from sightline_plugins.nms.options import NmsOptions
from sightline_plugins.preprocess.placement import Placement, place
from tests.fakes import run_sanitized
from tests.fakes.native_build import sanitized_arguments
from tests.unit.infer.sanitized import candidates

LIMITS = np.array([0.3, 0.6, 0.2, 0.5], np.float32)
WANTED = np.array([True, True, False, True])
SIZE_WH = (640, 360)


def test_nothing_outside_of_an_array_is_touched_whatever_comes(sanitized_library: Path, repository: Path) -> None:
    done = run_sanitized(sanitized_arguments(sanitized_library, "tests.unit.infer.sanitized"), cwd=repository)

    assert done.returncode == 0, done.stderr


def test_the_sanitizers_see_these_functions(sanitized_library: Path, repository: Path) -> None:
    done = run_sanitized(
        sanitized_arguments(sanitized_library, "tests.unit.infer.sanitized", "--wrong"), cwd=repository
    )

    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "nms/native.c" in done.stderr


def by_numpy(found: Candidates, options: NmsOptions, placement: Placement) -> Candidates:
    """What the selection is to give, box by box."""
    place_of = np.clip(found.class_id, -1, 3)
    is_good = np.isfinite(found.xyxy).all(axis=1) & np.isfinite(found.confidence)
    is_good &= found.confidence >= LIMITS[place_of]
    rows = [row for row in np.argsort(-found.confidence, kind="stable").tolist() if is_good[row]]
    kept: list[int] = []
    for row in rows[:10_000]:
        rivals = [other for other in kept if options.class_agnostic or found.class_id[other] == found.class_id[row]]
        overlap = iou_matrix(found.xyxy[[row]].astype(np.float64), found.xyxy[rivals].astype(np.float64))
        if len(kept) < options.max_detections and not (overlap > options.iou).any():
            kept.append(row)
    chosen = found.select(np.array(kept, np.intp))
    xyxy = clip(placement.boxes_in_image(chosen.xyxy), size_wh=SIZE_WH)
    is_seen = (xyxy[:, 2] > xyxy[:, 0]) & (xyxy[:, 3] > xyxy[:, 1]) & WANTED[np.clip(chosen.class_id, -1, 3)]
    return Candidates(xyxy[is_seen], chosen.confidence[is_seen], chosen.class_id[is_seen])


@pytest.mark.parametrize("options", [NmsOptions(), NmsOptions(class_agnostic=True, iou=0.2, max_detections=7)])
@pytest.mark.parametrize("count", [0, 1, 30, 400])
def test_the_selection_is_that_of_plain_numpy(count: int, options: NmsOptions) -> None:
    random = np.random.default_rng(count)
    placement = place((0, 0, *SIZE_WH), size_wh=(320, 320))
    selector = BoxSelector(DetectionRules(options, 0.2, LIMITS, WANTED))

    for _ in range(10):
        found = candidates(random, count)
        chosen, invalid = selector.select(found, placement, size_wh=SIZE_WH)
        with np.errstate(over="ignore"):
            expected = by_numpy(found, options, placement)

        assert invalid == count - len(found.finite())
        np.testing.assert_array_equal(chosen.class_id, expected.class_id)
        np.testing.assert_array_equal(chosen.confidence, expected.confidence)
        np.testing.assert_array_equal(chosen.xyxy, expected.xyxy)
