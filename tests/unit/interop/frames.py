"""Frames with everything that objects can have, and a way to import packages that may not be installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from sightline.media import Batch, FrameView, Mask, Objects, Origin
from sightline.testing.synthetic import make_frames
from tests.conftest import missing

WIDTH, HEIGHT = 64, 48


def package(name: str) -> Any:
    """The package; the test is skipped without it, or fails where all parts must be present."""
    try:
        return import_module(name)
    except ImportError:
        missing(f"the package {name} is not installed")


def view(objects: Objects) -> FrameView:
    """The first frame of a stream, with these objects."""
    frame = make_frames(8, stream="gate", size_wh=(WIDTH, HEIGHT))[7]
    return FrameView(Batch((frame,), objects), 0)


def rich_objects() -> Objects:
    """Two objects of a model with three labels: masks, corners, keypoints, attributes, one track."""
    corners = np.full((2, 4, 2), np.nan, np.float32)
    corners[0] = [(5, 10), (25, 10), (25, 40), (5, 40)]
    points = np.full((2, 3, 3), np.nan, np.float32)
    points[1] = [(30.5, 12, 0.9), (34, 20, 0.5), (np.nan, np.nan, np.nan)]
    mask = np.array([Mask(5, 10, np.tri(30, 20, dtype=np.bool_)), None], object)
    return Objects.from_columns(
        frame=[0, 0],
        xyxy=[(5, 10, 25, 40), (30.25, 8, 40, 28.5)],
        confidence=[0.75, 0.5],
        class_id=[2, 0],
        track_id=[2**25, -1],
        source=Origin("detect-1", ("person", "bicycle", "car")),
        extra={
            "mask": mask,
            "corners": corners,
            "keypoints": points,
            "color": np.array(["red", ""]),
            "speed": np.array([3.5, np.nan], np.float32),
            "embedding": np.eye(2, 4, dtype=np.float32),
        },
    )
