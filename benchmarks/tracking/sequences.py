"""The shared MOT sequences: reading them, changing them, and scoring tracks of them."""

from __future__ import annotations

from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import xyxy_from_ltwh
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.evaluate.scores import TrackScores, score_tracks

SEQUENCES = ("TUD-Campus", "TUD-Stadtmitte", "KITTI-0012-car")

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


class Boxes(NamedTuple):
    """Boxes of a whole sequence as columns; frames count from 1, as in the file."""

    frame: Integers
    identity: Integers
    xyxy: Floats
    confidence: Floats

    def where(self, rows: npt.NDArray[np.bool_]) -> Boxes:
        """Only these rows."""
        return Boxes(self.frame[rows], self.identity[rows], self.xyxy[rows], self.confidence[rows])


@dataclass(frozen=True, slots=True)
class Sequence:
    """Detections and truth of one sequence."""

    name: str
    fps: float
    frame_count: int
    detections: Boxes
    truth: Boxes

    def pts_ns(self, frame: int) -> int:
        """Time of a frame that counts from 1."""
        return round((frame - 1) / self.fps * 1e9)

    def by_frame(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield boxes (N, 4) and confidences (N,) of each frame."""
        order = np.argsort(self.detections.frame, kind="stable")
        numbers = np.arange(1, self.frame_count + 1)
        first, last = (self.detections.frame[order].searchsorted(numbers, side=side) for side in ("left", "right"))
        for begin, end in zip(first.tolist(), last.tolist(), strict=True):
            rows = order[begin:end]
            yield self.detections.xyxy[rows], self.detections.confidence[rows]

    def thinned(self, step: int) -> Sequence:
        """Return every so many frames of the sequence, at the lower rate."""
        if step == 1:
            return self

        def kept(boxes: Boxes) -> Boxes:
            boxes = boxes.where((boxes.frame - 1) % step == 0)
            return boxes._replace(frame=(boxes.frame - 1) // step + 1)

        count = (self.frame_count - 1) // step + 1
        return Sequence(self.name, self.fps / step, count, kept(self.detections), kept(self.truth))


def read_mot(path: Path) -> Boxes:
    """Rows `frame,id,left,top,width,height,confidence,...` of a MOT text file."""
    rows = np.loadtxt(path, delimiter=",", ndmin=2)
    xyxy = xyxy_from_ltwh(rows[:, 2:6].astype(np.float32))
    return Boxes(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64), xyxy, rows[:, 6].astype(np.float32))


def read_sequence(folder: Path) -> Sequence:
    """A folder with `seqinfo.ini`, `det.txt` and `gt.txt`."""
    info = ConfigParser()
    info.read(folder / "seqinfo.ini")
    facts = info["Sequence"]
    return Sequence(
        name=facts["name"],
        fps=float(facts["frameRate"]),
        frame_count=int(facts["seqLength"]),
        detections=read_mot(folder / "det.txt"),
        truth=read_mot(folder / "gt.txt"),
    )


def score(tracks: Boxes, *, truth: Boxes, frames: range) -> TrackScores:
    """Scores over these frames, which count from 1."""
    return score_tracks(_annotations(tracks), truth=_annotations(truth), frames=frames)


def _annotations(boxes: Boxes) -> Annotations:
    return Annotations.from_rows(
        frame=boxes.frame,
        xyxy=boxes.xyxy,
        confidence=boxes.confidence,
        label=np.full(len(boxes.frame), "object"),
        identity=boxes.identity,
    )
