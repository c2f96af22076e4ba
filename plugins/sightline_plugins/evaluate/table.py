"""What was found, or what is true, of a whole recording: one table of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """N boxes with their frames.

    frame       int64 (N,)     number of the frame or picture, from 0
    xyxy        float32 (N, 4) pixels of the picture, half-open
    confidence  float32 (N,)   1 for truth
    label       str (N,)       name of the class
    identity    int64 (N,)     number of the track, -1 for none
    ignored     bool (N,)      truth that counts neither way (crowds, people behind glass)
    """

    frame: npt.NDArray[np.int64]
    xyxy: Boxes
    confidence: npt.NDArray[np.float32]
    label: npt.NDArray[np.str_]
    identity: npt.NDArray[np.int64]
    ignored: npt.NDArray[np.bool_]

    @classmethod
    def from_rows(
        cls,
        *,
        frame: npt.ArrayLike,
        xyxy: npt.ArrayLike,
        confidence: npt.ArrayLike,
        label: npt.ArrayLike,
        identity: npt.ArrayLike,
        ignored: npt.ArrayLike | None = None,
    ) -> Annotations:
        """A table of values of any numeric types, converted."""
        frames = np.asarray(frame, np.int64).reshape(-1)
        return cls(
            frames,
            np.asarray(xyxy, np.float32).reshape(-1, 4),
            np.asarray(confidence, np.float32).reshape(-1),
            np.asarray(label, np.str_).reshape(-1),
            np.asarray(identity, np.int64).reshape(-1),
            np.zeros(len(frames), np.bool_) if ignored is None else np.asarray(ignored, np.bool_).reshape(-1),
        )

    def __len__(self) -> int:
        return len(self.frame)

    def select(self, rows: npt.NDArray[np.bool_]) -> Annotations:
        """The rows of a mask."""
        return Annotations(
            self.frame[rows],
            self.xyxy[rows],
            self.confidence[rows],
            self.label[rows],
            self.identity[rows],
            self.ignored[rows],
        )
