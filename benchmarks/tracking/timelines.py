"""Images of where trackers differ: which track follows each object of the truth, frame by frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from benchmarks.tracking.sequences import Boxes, Sequence

from sightline.media.boxes import iou_matrix

LEFT, BAND, GAP, WIDTH, HEAD = 150, 5, 8, 720, 26
LEAST_OVERLAP = 0.5
GREY, WHITE, BLACK = (205, 205, 205), (255, 255, 255), (0, 0, 0)

Image = npt.NDArray[np.uint8]


def timelines(sequence: Sequence, tracks: Mapping[str, Boxes], *, most: int = 24) -> Image:
    """Draw a group of bands for each object of the truth, one band a tracker: its colour changes with the track's id.

    White: the object is not there; grey: no track has its box. Of many objects, those that are there longest.
    """
    identities, lengths = np.unique(sequence.truth.identity, return_counts=True)
    shown = np.sort(identities[np.argsort(-lengths, kind="stable")[:most]])
    group = BAND * len(tracks) + GAP
    image: Image = np.full((HEAD + group * len(shown) + HEAD * len(tracks), LEFT + WIDTH, 3), 255, np.uint8)
    _write(image, f"{sequence.name}, {sequence.fps:g} frames a second", (6, 17))
    followed = {name: _followed(sequence, boxes) for name, boxes in tracks.items()}
    edges = (LEFT + np.arange(sequence.frame_count + 1) * WIDTH / sequence.frame_count).astype(int)
    for row, identity in enumerate(shown.tolist()):
        top = HEAD + row * group
        _write(image, f"object {identity}", (6, top + 11))
        for number, name in enumerate(tracks):
            for frame, track in followed[name].get(identity, {}).items():
                y = top + number * BAND
                image[y : y + BAND - 1, edges[frame - 1] : edges[frame]] = _colour(track) if track >= 0 else GREY
    for number, name in enumerate(tracks):
        _write(image, f"band {number + 1}: {name}", (6, HEAD + group * len(shown) + number * HEAD + 15))
    return image


def save(image: Image, path: Path) -> None:
    """Write a image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), image, [cv2.IMWRITE_PNG_COMPRESSION, 9])


def _followed(sequence: Sequence, tracks: Boxes) -> dict[int, dict[int, int]]:
    """Return by object and frame the track whose box overlaps the object's most, -1 for none."""
    found: dict[int, dict[int, int]] = {}
    truth = sequence.truth
    for frame in range(1, sequence.frame_count + 1):
        own, others = truth.where(truth.frame == frame), tracks.where(tracks.frame == frame)
        overlap = iou_matrix(own.xyxy, others.xyxy)
        for row, identity in enumerate(own.identity.tolist()):
            best = int(overlap[row].argmax()) if len(others.frame) else -1
            matched = best >= 0 and overlap[row, best] >= LEAST_OVERLAP
            found.setdefault(identity, {})[frame] = int(others.identity[best]) if matched else -1
    return found


def _colour(track: int) -> tuple[int, int, int]:
    hue = np.array([[[track * 67 % 180, 190, 190]]], np.uint8)
    blue, green, red = cv2.cvtColor(hue, cv2.COLOR_HSV2BGR)[0, 0].tolist()
    return blue, green, red


def _write(image: Image, text: str, at: tuple[int, int]) -> None:
    cv2.putText(image, text, at, cv2.FONT_HERSHEY_SIMPLEX, 0.42, BLACK, 1, cv2.LINE_AA)
