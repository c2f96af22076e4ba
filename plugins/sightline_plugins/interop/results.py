"""A frame with the attributes of Ultralytics' `Results`, so that code written for those reads it.

It is a view, written from their public documentation: nothing of that package is used or needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sightline.media import FrameView, Objects
from sightline_plugins.interop.classes import common_classes

Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of a frame's objects: `shape_hw` is the image's size, `numbers` (N,) the classes."""

    objects: Objects
    numbers: npt.NDArray[np.int32]
    shape_hw: tuple[int, int]

    def select(self, rows: npt.NDArray[np.intp]) -> _Rows:
        return _Rows(self.objects.select(rows), self.numbers[rows], self.shape_hw)

    def relative(self, values: Numbers) -> Numbers:
        """Values (..., x, y, x, y, ...) in pixels as fractions of the image."""
        height, width = self.shape_hw
        size: Numbers = np.tile(np.array([width, height], np.float32), values.shape[-1] // 2)
        return values / size


class _Part:
    """What all parts have: a length, rows by index, slice or mask, and `cpu()` and `numpy()`, which change nothing."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows.objects)

    def __getitem__(self, index: int | slice | npt.NDArray[Any] | Sequence[int]) -> Self:
        rows = np.atleast_1d(np.arange(len(self))[index])
        return type(self)(self._rows.select(rows))

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def cpu(self) -> Self:
        """The same: arrays are NumPy's already."""
        return self

    def numpy(self) -> Self:
        """The same: arrays are NumPy's already."""
        return self

    @property
    def orig_shape(self) -> tuple[int, int]:
        """Height and width of the image."""
        return self._rows.shape_hw

    @property
    def conf(self) -> Numbers:
        """Confidences (N,)."""
        return self._rows.objects.confidence

    @property
    def cls(self) -> Numbers:
        """Class numbers (N,), as floats, as that package has them."""
        return self._rows.numbers.astype(np.float32)

    @property
    def id(self) -> npt.NDArray[np.float64] | None:
        """Track numbers (N,), as floats, -1 for objects without a track; None when no object has one.

        Of 64 bits: 32 would not tell tracks above 16 millions apart.
        """
        track_id = self._rows.objects.track_id
        return track_id.astype(np.float64) if (track_id >= 0).any() else None

    @property
    def is_track(self) -> bool:
        """Whether there are track numbers."""
        return self.id is not None


class Boxes(_Part):
    """Boxes of a frame: `xyxy`, `xywh`, `xyxyn`, `xywhn`, each float32 (N, 4); `n` means fractions of the image."""

    @property
    def xyxy(self) -> Numbers:
        """Left, top, right, bottom in pixels."""
        return self._rows.objects.xyxy

    @property
    def xywh(self) -> Numbers:
        """Centre, width and height in pixels."""
        low, high = self.xyxy[:, :2], self.xyxy[:, 2:]
        return np.concatenate([(low + high) / 2, high - low], axis=1)

    @property
    def xyxyn(self) -> Numbers:
        """`xyxy` as fractions of the image."""
        return self._rows.relative(self.xyxy)

    @property
    def xywhn(self) -> Numbers:
        """`xywh` as fractions of the image, as YOLO's label files have them."""
        return self._rows.relative(self.xywh)

    @property
    def data(self) -> npt.NDArray[np.floating[Any]]:
        """All at once: (N, 6) box, confidence and class, or (N, 7) with the track before the confidence."""
        track = [] if self.id is None else [self.id]
        return np.column_stack([self.xyxy, *track, self.conf, self.cls])


class OrientedBoxes(_Part):
    """Oriented boxes of a frame."""

    @property
    def xyxyxyxy(self) -> Numbers:
        """Corners (N, 4, 2) in pixels."""
        corners: Numbers = self._rows.objects.extra["corners"]
        return corners

    @property
    def xyxyxyxyn(self) -> Numbers:
        """Corners (N, 4, 2) as fractions of the image."""
        return self._rows.relative(self.xyxyxyxy)

    @property
    def xyxy(self) -> Numbers:
        """The upright boxes (N, 4) around them in pixels."""
        return self._rows.objects.xyxy


class Masks(_Part):
    """Masks of a frame, at the size of the image."""

    @property
    def data(self) -> Numbers:
        """The masks (N, height, width), 0 or 1; made when asked for."""
        height, width = self.orig_shape
        whole = np.zeros((len(self), height, width), np.float32)
        for row, mask in enumerate(self._rows.objects.extra["mask"].tolist()):
            if mask is not None:
                whole[row] = mask.in_image((width, height))
        return whole


class Keypoints(_Part):
    """Keypoints of a frame; a point that was not found is 0, 0."""

    @property
    def data(self) -> Numbers:
        """x, y and confidence (N, K, 3)."""
        points: Numbers = np.nan_to_num(self._rows.objects.extra["keypoints"], nan=0.0)
        return points

    @property
    def xy(self) -> Numbers:
        """Points (N, K, 2) in pixels."""
        return self.data[..., :2]

    @property
    def xyn(self) -> Numbers:
        """Points (N, K, 2) as fractions of the image."""
        return self._rows.relative(self.xy)

    @property
    def conf(self) -> Numbers:
        """Confidences (N, K)."""
        return self.data[..., 2]

    @property
    def has_visible(self) -> bool:
        """Whether points have confidences: they always do here."""
        return True


class Results:
    """A frame as Ultralytics' `Results`: `boxes`, `masks`, `keypoints`, `obb`, `names`, `orig_shape`, `orig_img`.

    Arrays are NumPy's, so `results.boxes.cpu().numpy().xyxy` and `results.boxes.xyxy` are the same; `.cpu()` behind an
    array does not exist. `masks`, `keypoints` and `obb` are None where no step made any, and `boxes` is None where
    boxes are oriented. `probs` is None: a class of the whole frame is an object here. `supervision`'s
    `Detections.from_ultralytics` takes it.

    >>> from sightline import Pipeline
    >>> from sightline_plugins.interop import Results
    >>> steps = [{"replay": {"path": "sample_videos/gate.mot.txt", "label": "car"}}]
    >>> for frame in Pipeline(sources={"gate": "sample_videos/gate.mp4"}, steps=steps):
    ...     results = Results(frame)
    ...     for box in results.boxes:
    ...         print(results.names[int(box.cls[0])], box.conf[0], box.xywhn[0])
    ...     break
    """

    probs = None

    def __init__(self, frame: FrameView) -> None:
        self.frame = frame
        width, height = frame.size_wh
        self.orig_shape = (height, width)
        objects = frame.objects
        numbers, self.names = common_classes(objects)
        self._rows = _Rows(objects, numbers, self.orig_shape)

    def __len__(self) -> int:
        return len(self._rows.objects)

    @property
    def boxes(self) -> Boxes | None:
        """The boxes; None when they are oriented."""
        return None if "corners" in self._rows.objects.extra else Boxes(self._rows)

    @property
    def obb(self) -> OrientedBoxes | None:
        """The oriented boxes."""
        return OrientedBoxes(self._rows) if "corners" in self._rows.objects.extra else None

    @property
    def masks(self) -> Masks | None:
        """The masks."""
        return Masks(self._rows) if "mask" in self._rows.objects.extra else None

    @property
    def keypoints(self) -> Keypoints | None:
        """The keypoints."""
        return Keypoints(self._rows) if "keypoints" in self._rows.objects.extra else None

    @property
    def orig_img(self) -> npt.NDArray[np.uint8]:
        """The image (height, width, 3) as BGR, as OpenCV has it; a new array each time."""
        return np.ascontiguousarray(self.frame.rgb()[..., ::-1])
