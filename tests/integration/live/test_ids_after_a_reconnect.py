"""Ids of `track` when a camera was gone: by motion and time for short, by appearance for long.

The camera shows two squares, a grey and a white one. A step finds them by their brightness, and gives each an embedding
that tells them apart.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from sightline.graph import Capability, Element, MessageKind, Operator, Site
from sightline.media import Batch, Objects, Origin
from sightline.media.convert import luma_from_surface
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.live.watching import Watched, until

FPS, SIZE_WH, SIDE = 25, (320, 96), 40
GREY, WHITE = (60, 150), (150, 256)
"""Brightness of the squares, from and to."""
HERE, THERE = (20, 100), (160, 260)
"""Where the left edge of the grey and of the white square is."""


def clip_of_squares(path: Path, left: tuple[int, int]) -> Clip:
    """A clip of two squares that stand still, with a key frame every 5 frames."""
    width, height = SIZE_WH
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"g": "5", "bf": "0"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(2 * FPS):
            image = np.full((height * 3 // 2, width), 128, np.uint8)
            image[:height] = 20
            for x, value in zip(left, (105, 220), strict=True):
                image[28 : 28 + SIDE, x : x + SIDE] = value
            frame = VideoFrame.from_ndarray(image, "yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return load_clip(str(path))


class Squares(Element):
    """Finds the squares; the step of this test."""

    name: ClassVar[str] = "squares"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS, Capability.EMBEDDINGS})

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        return _Squares(Origin(site.element_id, ("square",)))


class _Squares(Operator):
    def __init__(self, origin: Origin) -> None:
        self.origin = origin

    def process(self, batch: Batch) -> Batch:
        found = []
        for row, frame in enumerate(batch.frames):
            luma = luma_from_surface(frame.surface)
            for number, (low, high) in enumerate((GREY, WHITE)):
                y, x = ((luma >= low) & (luma < high)).nonzero()
                if len(x) > SIDE * SIDE / 2:
                    box = np.quantile(x, (0.05, 0.95)), np.quantile(y, (0.05, 0.95))
                    found.append((row, [box[0][0], box[1][0], box[0][1], box[1][1]], np.eye(4)[number]))
        if not found:
            return batch
        objects = Objects.from_columns(
            frame=[row for row, _, _ in found],
            xyxy=[box for _, box, _ in found],
            confidence=np.ones(len(found)),
            class_id=np.zeros(len(found)),
            source=self.origin,
            extra={"embedding": np.array([vector for _, _, vector in found], np.float32)},
        )
        return batch.with_objects(objects)


class Ids:
    """A probe: the ids of the grey and the white square on each frame with both."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[int]]] = []

    def __call__(self, batch: Batch) -> None:
        for row, frame in enumerate(batch.frames):
            own = batch.objects.frame == row
            ids = batch.objects.track_id[own].tolist()
            if len(ids) == 2 and min(ids) > 0:
                self.seen.append((frame.pts_ns, ids))


def ids_around_a_gap(
    folder: Path, options: Mapping[str, Any], *, places: Sequence[tuple[int, int]], gap_seconds: float
) -> tuple[list[int], list[int], float]:
    """Ids before and after the camera was gone, and by how much time went on between these frames."""
    before, after = (clip_of_squares(folder / f"{number}.mp4", left) for number, left in enumerate(places))
    ids = Ids()
    with FakeCamera(before) as camera, Watched({"cam": camera.url}, steps=[Squares(), {"track": options}]) as watched:
        watched.pipeline.probe("track-1", ids)
        until(lambda: bool(ids.seen) and ids.seen[-1][0] - ids.seen[0][0] > 5_000_000_000)
        camera.kill()
        camera.swap(after)
        time.sleep(gap_seconds)
        seen = len(ids.seen)
        camera.restart()
        until(lambda: bool(watched.of_kind(MessageKind.STREAM_BACK)) and len(ids.seen) > seen + FPS)
    (last_ns, last), (first_ns, _) = ids.seen[seen - 1], ids.seen[seen]
    return last, ids.seen[-1][1], (first_ns - last_ns) / 1e9


@pytest.mark.parametrize(("max_lost", "are_kept"), [("60s", True), ("100ms", False)])
def test_motion_and_time_bridge_a_gap_that_is_shorter_than_max_lost(
    tmp_path: Path, max_lost: str, are_kept: bool
) -> None:
    before, after, gap = ids_around_a_gap(tmp_path, {"max_lost": max_lost}, places=[HERE, HERE], gap_seconds=0.5)

    assert gap >= 0.5
    assert (before == after) is are_kept


@pytest.mark.parametrize(("reidentify_within", "are_kept"), [("5m", True), ("0s", False)])
def test_appearance_bridges_a_gap_that_is_longer_than_max_lost(
    tmp_path: Path, reidentify_within: str, are_kept: bool
) -> None:
    options = {"appearance": True, "max_lost": "500ms", "reidentify_within": reidentify_within}
    before, after, gap = ids_around_a_gap(tmp_path, options, places=[HERE, THERE[::-1]], gap_seconds=1.0)

    assert gap >= 1.0
    assert (before == after) is are_kept
