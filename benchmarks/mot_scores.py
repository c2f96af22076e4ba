"""Reading MOT files and scoring tracks with TrackEval (HOTA, CLEAR, Identity)."""

from __future__ import annotations

from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import iou_matrix, xyxy_from_ltwh

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


@dataclass(frozen=True, slots=True)
class Scores:
    """How well tracks follow the truth; 1 is perfect."""

    hota: float
    mota: float
    idf1: float
    switches: int


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


def score(tracks: Boxes, *, truth: Boxes, frames: range) -> Scores:
    """Scores over these frames; rows of other frames must not be in `tracks` and are left out of `truth`."""
    from trackeval.metrics import CLEAR, HOTA, Identity

    truth = truth.where(np.isin(truth.frame, list(frames)))
    true_ids, true_index = np.unique(truth.identity, return_inverse=True)
    found_ids, found_index = np.unique(tracks.identity, return_inverse=True)
    by_frame = [(truth.frame == frame, tracks.frame == frame) for frame in frames]
    data = {
        "num_gt_dets": len(truth.frame),
        "num_tracker_dets": len(tracks.frame),
        "num_gt_ids": len(true_ids),
        "num_tracker_ids": len(found_ids),
        "num_timesteps": len(frames),
        "gt_ids": [true_index[true] for true, _ in by_frame],
        "tracker_ids": [found_index[found] for _, found in by_frame],
        "similarity_scores": [
            iou_matrix(truth.xyxy[true], tracks.xyxy[found]).astype(np.float64) for true, found in by_frame
        ],
    }
    quiet = {"PRINT_CONFIG": False}
    clear = CLEAR(quiet).eval_sequence(data)
    return Scores(
        hota=float(np.mean(HOTA().eval_sequence(data)["HOTA"])),
        mota=float(clear["MOTA"]),
        idf1=float(Identity(quiet).eval_sequence(data)["IDF1"]),
        switches=int(clear["IDSW"]),
    )
