"""`stabilise`: take the shaking out of the images of a camera."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.graph import Element, Operator, RunsOn, Site
from sightline.graph.element import Threading
from sightline.graph.tracker import Luma
from sightline.media import Batch, Frame, Memory, Stream, Surface, Tensor
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.flow.camera_motion import CameraMotion, reduced_size
from sightline_plugins.flow.corners import CornerOptions
from sightline_plugins.flow.luma import FrameLuma
from sightline_plugins.warp.remap import Border, Turning, turn
from sightline_plugins.warp.smoothing import Floats, SmoothPath

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice
    from sightline_plugins.warp.cuda_turn import CudaTurner

_WIDEST = 640
_CORNERS = CornerOptions(most=250, quality=0.01, distance=12)
_LONGEST_GAP_NS = NANOSECONDS
_LARGEST_TURN = math.radians(5)
_INVISIBLE = 0.02
"""A correction that moves no pixel farther than this is not made."""


class Stabilise(Element):
    """Take the shaking out of the images of a camera: on a mast in the wind, on a bridge, in a hand.

    The motion of the camera (a shift and a turn) is measured by corners that most of the image agrees on, in a copy of
    at most 640 pixels width. A smooth path is laid along it, and each image is moved and turned onto that. A camera
    that pans goes on panning: only what is faster than `smoothing` is taken out. It works from the past alone, without
    delay.

    The knobs and what they trade:

    - `smoothing`: longer is calmer; a pan that begins or ends is followed later.
    - `limit`: how far an image may be moved. Larger copes with more shaking, and shows more border.
    - `border`: at the edges, images lack what the camera did not see: `edge` repeats the outermost pixels, `black`
      shows that nothing is known, and `crop` enlarges the image by `limit` on each side, which hides the border.

    What moves in the image is no shaking as long as most corners stand still; a lorry that fills the image is taken for
    a motion of the camera, and moved back slowly. Put it before the steps that find objects: boxes, rules and videos
    are then in the pixels of the steadied image, and a line on the road stays on the road. The camera's encoded image
    is not changed: recordings of it go on shaking. In a GPU's memory, frames of 4:2:0 with 8 bits are reduced and moved
    there; the motion is measured on the CPU, which gets only the brightness of the reduced image.

    Each frame gets tensors: `motion`, float32 (3,), is how the content moved since the frame before: x and y in pixels
    at the centre of the image, and degrees clockwise; `correction`, float32 (3,), is how this step moved it. In Python
    they are `frame.tensors["stabilise-1.motion"]`, and in JSON lines with `jsonl: {tensors: true}`.

    ```yaml
    - stabilise: {smoothing: 2s, limit: 0.1, border: edge}
    ```
    """

    name: ClassVar[str] = "stabilise"
    changes_images: ClassVar[bool] = True
    moves_pixels: ClassVar[bool] = True
    threading: ClassVar[Threading] = Threading.OWN

    smoothing: Annotated[Duration, Field(gt=0)] = 2 * NANOSECONDS
    """Motion that is faster than this is taken out; the time constant of the filter."""
    limit: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    """How far an image is moved at most, as a share of its shorter side; turns are at most 5 degrees."""
    border: Literal["edge", "black", "crop"] = "edge"
    """What is shown where the moved image ends: its outermost pixels repeated, black, or nothing, because the image is
    enlarged by `limit` on each side."""

    def build(self, site: Site) -> Operator:
        """Make the operator; OpenCV is imported with the first frame."""
        return Stabiliser(self, step=site.element_id or self.name, gpu=site.gpu)


@dataclasses.dataclass(slots=True, eq=False)
class _Steadied:
    """A stream: how its camera moved up to its last frame, as x, y in pixels and radians, and the smooth path."""

    camera: CameraMotion
    smooth: SmoothPath
    size_wh: tuple[int, int]
    last_ns: int
    path: Floats


class Stabiliser(Operator):
    """Moves each frame onto a smooth path; see `Stabilise`.

    On a GPU frames are reduced and moved there; the motion is measured on the CPU, by the reduced brightness.
    """

    def __init__(self, options: Stabilise, *, step: str, gpu: CudaDevice | None = None) -> None:
        self._options, self._step = options, step
        self._border: Border = "black" if options.border == "black" else "edge"
        self._streams: dict[Stream, _Steadied] = {}
        self._luma = FrameLuma(gpu)
        self._turner: CudaTurner | None = None
        self._on_gpu = self._copied = 0
        if gpu is not None:
            from sightline_plugins.warp.cuda_turn import CudaTurner

            self._turner = CudaTurner(gpu)

    def process(self, batch: Batch) -> Batch:
        """Return the batch with steadied images, and the tensors `motion` and `correction` of each frame."""
        images = self._luma.reduced(
            [
                (frame.surface, reduced_size(frame.size_wh, downscale=_downscale(frame.size_wh)))
                for frame in batch.frames
            ]
        )
        tensors: list[Tensor] = []
        turnings: list[Turning | None] = []
        for row, (frame, image) in enumerate(zip(batch.frames, images, strict=True)):
            motion, correction = self._measured(frame, image)
            turnings.append(self._turning(frame.size_wh, correction))
            tensors += [
                Tensor(row, self._step, name, _in_degrees(values))
                for name, values in (("motion", motion), ("correction", correction))
            ]
        return batch.with_surfaces(self._turned(batch.frames, turnings)).with_tensors(tensors)

    def end_stream(self, stream: Stream) -> None:
        """Forget the path of the stream."""
        self._streams.pop(stream, None)

    def runs_on(self) -> RunsOn:
        """Where images are moved: in the memory in which they lie."""
        reason = f"{self._copied} images were copied from a GPU" if self._copied else ""
        return RunsOn(str(self._turner), reason) if self._on_gpu else RunsOn(reason=reason)

    def _measured(self, frame: Frame, image: Luma) -> tuple[Floats, Floats]:
        """Return how the content moved since the last frame (3,), and how it is to be moved (3,): x, y and radians."""
        state = self._streams.get(frame.stream)
        seconds = 0.0 if state is None else (frame.pts_ns - state.last_ns) / NANOSECONDS
        if state is None or state.size_wh != frame.size_wh or not 0 < frame.pts_ns - state.last_ns <= _LONGEST_GAP_NS:
            state = self._streams[frame.stream] = self._begun(frame)
            state.camera.look_reduced(image, downscale=_downscale(frame.size_wh))
            return np.zeros(3), np.zeros(3)
        state.camera.restart()
        state.camera.look_reduced(image, downscale=_downscale(frame.size_wh))
        affine, centre = state.camera.since, np.array(frame.size_wh) / 2 - 0.5
        shift = affine[:, :2] @ centre + affine[:, 2] - centre
        motion = np.array([*shift, math.atan2(affine[1, 0], affine[0, 0])])
        state.path, state.last_ns = state.path + motion, frame.pts_ns
        return motion, state.smooth.follow(state.path, seconds=seconds) - state.path

    def _begun(self, frame: Frame) -> _Steadied:
        size_wh = frame.size_wh
        farthest = self._options.limit * min(size_wh)
        smooth = SmoothPath(seconds=self._options.smoothing / NANOSECONDS, limits=(farthest, farthest, _LARGEST_TURN))
        return _Steadied(CameraMotion(options=_CORNERS), smooth, size_wh, frame.pts_ns, np.zeros(3))

    def _turning(self, size_wh: tuple[int, int], correction: Floats) -> Turning | None:
        """Return how an image is moved; None where nobody would see it."""
        is_cropped = self._options.border == "crop"
        reach = np.abs(correction[:2]).max() + abs(correction[2]) * max(size_wh) / 2
        if reach < _INVISIBLE and not is_cropped:
            return None
        width, height = size_wh
        share = 2 * self._options.limit * min(width, height)
        scale = max(width / max(width - share, 1), height / max(height - share, 1)) if is_cropped else 1.0
        x, y, radians = correction.tolist()
        return Turning((x, y), radians, scale)

    def _turned(self, frames: Sequence[Frame], turnings: Sequence[Turning | None]) -> list[Surface]:
        """Return the images as they are when they were moved; those on the GPU in one launch."""
        surfaces = [frame.surface for frame in frames]
        moved = {row: turning for row, turning in enumerate(turnings) if turning is not None}
        turner = self._turner
        there = [] if turner is None else [row for row in moved if turner.takes(surfaces[row])]
        if turner is not None:
            made = turner.turned([(surfaces[row], moved[row]) for row in there], border=self._border)
            for row, surface in zip(there, made, strict=True):
                surfaces[row] = surface
        self._on_gpu += len(there)
        for row in moved.keys() - there:
            self._copied += surfaces[row].memory is Memory.CUDA
            surfaces[row] = turn(surfaces[row], moved[row], border=self._border)
        return surfaces


def _downscale(size_wh: tuple[int, int]) -> int:
    """Return by how much frames of that size are reduced before their motion is measured."""
    return -(-size_wh[0] // _WIDEST)


def _in_degrees(values: Floats) -> npt.NDArray[np.float32]:
    return np.array([values[0], values[1], math.degrees(values[2])], np.float32)
