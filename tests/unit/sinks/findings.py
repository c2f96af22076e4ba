"""A batch with all that models find: people with keypoints, faces on them, masks, oriented boxes, embeddings."""

from __future__ import annotations

import numpy as np

from sightline.media import Batch, Objects, Origin
from sightline.media.shapes import FACE_5, PERSON_17, Mask
from sightline.testing import make_frames

LABELS = ("person", "face", "ship", "car")


def everything(*, frames: int = 2) -> Batch:
    """Frames of 64 x 48 with a person and a face on it, a ship with corners and a car with a mask."""
    tables = [_of_frame(row) for row in range(frames)]
    return Batch(tuple(make_frames(frames)), Objects.concat(tables))


def _of_frame(row: int) -> Objects:
    keypoints = np.full((4, 17, 3), np.nan, np.float32)
    keypoints[0] = np.arange(51).reshape(17, 3) / 10
    keypoints[0, :, 2] = 0.5
    keypoints[0, 3] = (0, 0, 0)
    keypoints[1, :5] = [[8, 5, 0.9], [12, 5, 0.9], [10, 7, 0.9], [8, 9, 0.9], [12, 9, 0.9]]
    corners = np.full((4, 4, 2), np.nan, np.float32)
    corners[2] = [[20, 10], [30, 15], [25, 25], [15, 20]]
    embedding = np.full((4, 3), np.nan, np.float32)
    embedding[0] = (0.6, 0, 0.8)
    bits = np.ones((6, 8), np.bool_)
    bits[0, 0] = False
    found = Objects.from_columns(
        frame=np.full(4, row),
        xyxy=[[4, 2, 20, 40], [7, 3, 13, 10], [15, 10, 30, 25], [40, 30, 48, 36]],
        confidence=[0.9, 0.8, 0.7, 0.6],
        class_id=[0, 1, 2, 3],
        track_id=np.array([5, -1, -1, 6]),
        source=Origin("detect-1", LABELS),
        extra={
            "keypoints": keypoints,
            "skeleton": objects_of(PERSON_17, FACE_5, None, None),
            "corners": corners,
            "mask": objects_of(None, None, None, Mask(40, 30, bits)),
            "embedding": embedding,
            "color": np.array(["", "", "white", "red"]),
            "tags": objects_of(("tall", "hat"), (), None, None),
            "age": np.array([31.5, np.nan, np.nan, np.nan], np.float32),
        },
    )
    return found.with_columns(parent=np.array([-1, 0, -1, -1], np.int32))


def objects_of(*values: object) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    """A column of objects."""
    column = np.empty(len(values), np.object_)
    column[:] = values
    return column
