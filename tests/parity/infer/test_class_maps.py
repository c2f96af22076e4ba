"""`segment` reads a class map as plain NumPy does: all scores resized to the frame, and the highest at each pixel."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import PixelFormat
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.segment import Segment
from tests.unit.infer.mean_color import frames
from tests.unit.infer.tiny_maps import PLAIN, painted, write_known_map

Floats = npt.NDArray[np.float32]
FRAME_WH = (96, 80)
CELLS = 32


def scene(classes: int) -> Floats:
    """Smooth logits (C, rows, columns), some of them equal: every class is highest somewhere."""
    random = np.random.default_rng(3)
    values = random.normal(0, 1, (classes, 8, 8)).astype(np.float32)
    wide = np.stack([cv2.resize(one, (CELLS, CELLS), interpolation=cv2.INTER_NEAREST) for one in values])
    wide[:, 4:8, 4:8] = 0
    scores: Floats = wide * 4
    return scores


def plainly(scores: Floats) -> tuple[npt.NDArray[np.int64], dict[int, float]]:
    """The class of each pixel of the frame, and the mean probability of each class where it wins on the map."""
    present = np.unique(scores.argmax(axis=0))
    wide = np.stack([cv2.resize(scores[one], FRAME_WH, interpolation=cv2.INTER_LINEAR) for one in present])
    exact = scores.astype(np.float64)
    shares = np.exp(exact - exact.max(axis=0))
    certainty = (shares / shares.sum(axis=0)).max(axis=0)
    return present[wide.argmax(axis=0)], {int(one): certainty[scores.argmax(axis=0) == one].mean() for one in present}


@pytest.mark.parametrize("last", [False, True], ids=["classes first", "classes last"])
@pytest.mark.parametrize("classes", [2, 21, 300])
def test_every_pixel_has_the_class_that_plain_numpy_gives_it(tmp_path: Path, classes: int, last: bool) -> None:
    scores = scene(classes)
    values = np.ascontiguousarray(scores.transpose(1, 2, 0)) if last else scores
    element = Segment.model_validate(
        {
            "model": write_known_map(tmp_path / "map.onnx", values[None]),
            "labels": [f"c{number}" for number in range(classes)],
            "background": None,
            "head": "class_map",
            "head_options": {"values": "logits"},
            **PLAIN,
        }
    )
    surface = surface_from_rgb(painted(size_wh=FRAME_WH), pixel_format=PixelFormat.RGB24)

    (batch,) = run_element(element, make_batches(frames(surface)))

    found = np.full(FRAME_WH[::-1], -1)
    for obj in batch.objects:
        assert obj.mask is not None
        found[obj.mask.in_image(FRAME_WH)] = obj.class_id
    expected, certainty = plainly(scores)
    assert np.array_equal(found, expected)
    assert {obj.class_id: pytest.approx(obj.confidence, rel=1e-5) for obj in batch.objects} == {
        class_id: certainty[class_id] for class_id in np.unique(expected).tolist()
    }
