"""The operator of `flow`: the image before of each stream, and what is attached of the flow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Operator, RunsOn
from sightline.graph.tracker import Luma
from sightline.media import Arrows, Batch, Frame, Objects, Stream, Tensor
from sightline.media.frame import NANOSECONDS
from sightline_plugins.flow.flow import DENSE_SIZE, GRID, POINTS, SPARSE_SIZE, Flow
from sightline_plugins.flow.luma import FrameLuma
from sightline_plugins.flow.vectors import DenseFlow, Motion, SparseFlow, Vectors, reduced_size

LONGEST_NS = NANOSECONDS
"""Frames that are farther apart have nothing to do with one another."""
_SHOWN_SECONDS = 0.2
_SHORTEST = 3.0
"""Pixels of an arrow; what is slower does not seem to move."""
_MOST_ARROWS = 400


@dataclass(slots=True, eq=False)
class _Before:
    """The frame before: its reduced image, its time, and the size of the source."""

    image: Luma
    pts_ns: int
    size_wh: tuple[int, int]


class FlowOperator(Operator):
    """Looks at the frames of each stream in order. On a GPU frames are reduced there; flow is found on the CPU."""

    def __init__(self, element: Flow, *, step: str, gpu: CudaDevice | None = None) -> None:
        self._element = element
        self._step = step
        is_dense = element.mode == "dense"
        self._name = GRID if is_dense else POINTS
        self._longest = element.size or (DENSE_SIZE if is_dense else SPARSE_SIZE)
        self._flow = DenseFlow(cell=element.cell) if is_dense else SparseFlow(most=element.most)
        self._luma = FrameLuma(gpu)
        self._streams: dict[Stream, _Before] = {}

    def process(self, batch: Batch) -> Batch:
        """Attach the flow of each frame that has one before it."""
        images = self._luma.reduced(
            [(frame.surface, reduced_size(frame.size_wh, longest=self._longest)) for frame in batch.frames]
        )
        motions = [self._motion(frame, image) for frame, image in zip(batch.frames, images, strict=True)]
        found = [(row, motion) for row, motion in enumerate(motions) if motion is not None]
        batch = batch.with_tensors([Tensor(row, self._step, self._name, motion.values) for row, motion in found])
        if self._element.arrows:
            batch = batch.with_graphics([() if motion is None else (_arrows(motion),) for motion in motions])
        if self._element.objects and len(batch.objects):
            batch = batch.with_objects(_with_motion(batch.objects, motions))
        return batch

    def change(self, element: Flow) -> None:
        """Show arrows, or no longer."""
        self._element = element

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's last image."""
        self._streams.pop(stream, None)

    def runs_on(self) -> RunsOn:
        """The CPU, which gets the reduced images of frames in a GPU's memory."""
        return RunsOn(reason=self._luma.reason)

    def _motion(self, frame: Frame, image: Luma) -> Motion | None:
        """Return the flow from the frame before to this one; None where they do not follow one another."""
        size_wh = frame.size_wh
        before = self._streams.get(frame.stream)
        self._streams[frame.stream] = _Before(image, frame.pts_ns, size_wh)
        if before is None or before.size_wh != size_wh or not 0 < frame.pts_ns - before.pts_ns <= LONGEST_NS:
            return None
        seconds = (frame.pts_ns - before.pts_ns) / NANOSECONDS
        return self._flow.find(before.image, image, size_wh=size_wh, seconds=seconds)


def _arrows(motion: Motion) -> Arrows:
    """Return arrows from where something is to where it will be in a fifth of a second; a few hundred at most."""
    start, velocity = motion.starts()
    ways = velocity * np.float32(_SHOWN_SECONDS)
    shown = np.flatnonzero(np.abs(ways).max(axis=1, initial=0) >= _SHORTEST)
    shown = shown[:: -(-len(shown) // _MOST_ARROWS) or 1]
    return Arrows(np.concatenate([start[shown], start[shown] + ways[shown]], axis=1))


def _with_motion(objects: Objects, motions: list[Motion | None]) -> Objects:
    """Return the objects with `flow_x` and `flow_y`, in hundredths; NaN on frames without flow."""
    velocity: Vectors = np.full((len(objects), 2), np.nan, np.float32)
    bounds = np.searchsorted(objects.frame, np.arange(len(motions) + 1)).tolist()
    for motion, first, last in zip(motions, bounds, bounds[1:], strict=False):
        if motion is not None and first < last:
            velocity[first:last] = motion.of_boxes(objects.xyxy[first:last])
    velocity = np.round(velocity, 2)
    return objects.with_columns(flow_x=velocity[:, 0], flow_y=velocity[:, 1])
