"""Reading clips with and without a GPU, and what came out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.devices import Device, DeviceKind
from sightline.devices.cuda.device import CudaDevice
from sightline.errors import StreamError
from sightline.graph import Site, SourceElement, SourceReader
from sightline.media import Altered, ColorMatrix, ColorRange, Frame, Memory, PixelFormat, Stream
from sightline_plugins.sources.file.element import Media
from tests.fakes.nvdec import HOPPER, Caps

SMALL = {**HOPPER, "HEVC": Caps(HOPPER["HEVC"].depths), "VP9": Caps(HOPPER["VP9"].depths)}
"""A GPU that decodes small images, too."""
ALL_DEPTHS = {"400": (8, 10, 12), "420": (8, 10, 12), "444": (8, 10, 12)}
EVERYTHING = {codec: Caps(ALL_DEPTHS, min_size_wh=(1, 1)) for codec in ("H264", "HEVC", "VP8", "VP9", "AV1")}
"""A GPU that decodes all that a GPU ever did."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A frame with its pixels in host memory, chroma of 4:2:0 interleaved."""

    pts_ns: int
    damaged: bool
    packet: int | None
    altered: Altered
    size_wh: tuple[int, int]
    matrix: ColorMatrix
    range: ColorRange
    memory: Memory
    planes: tuple[npt.NDArray[np.uint8], ...]

    @classmethod
    def of(cls, frame: Frame) -> Seen:
        surface = frame.surface.to_host()
        planes = surface.planes
        if surface.format is PixelFormat.I420:
            planes = (planes[0], np.stack(planes[1:], axis=-1))
        return cls(
            frame.pts_ns,
            frame.damaged,
            frame.packet,
            frame.altered,
            frame.size_wh,
            surface.matrix,
            surface.range,
            frame.surface.memory,
            tuple(plane.copy() for plane in planes),
        )

    @property
    def luma(self) -> int:
        """Of the first pixel."""
        return int(self.planes[0][0, 0])

    def facts(self) -> tuple[object, ...]:
        """All but the pixels and where they lie."""
        return self.pts_ns, self.damaged, self.packet, self.altered, self.size_wh, self.matrix, self.range


def same(ours: Seen, theirs: Seen) -> bool:
    """Whether two frames are alike: times, size, colours and every pixel."""
    pairs = zip(ours.planes, theirs.planes, strict=True)
    return ours.facts() == theirs.facts() and all(np.array_equal(one, other) for one, other in pairs)


@contextmanager
def reader_of(
    source: SourceElement, gpu: CudaDevice | None = None, *, site: Site | None = None
) -> Iterator[SourceReader]:
    """A reader of a source, with surfaces in that GPU's memory; closed at the end."""
    device = Device() if gpu is None else Device(DeviceKind.CUDA, gpu.index)
    reader = source.build(site or Site(device=device, gpu=gpu), stream=Stream("cam", live=source.live))
    try:
        yield reader
    finally:
        reader.close()


def frames_of(source: SourceElement | Path, gpu: CudaDevice | None = None) -> tuple[list[Seen], SourceReader]:
    """All frames of a source, or of a file, and the reader; a live source ends with its loss."""
    element = source if isinstance(source, SourceElement) else Media(uri=str(source))
    seen: list[Seen] = []
    with reader_of(element, gpu) as reader:
        try:
            seen.extend(Seen.of(frame) for frame in reader.frames())
        except StreamError:
            if not element.live:
                raise
    return seen, reader


def all_same(ours: list[Seen], theirs: list[Seen]) -> bool:
    """Whether two streams are alike."""
    return len(ours) == len(theirs) and all(same(one, other) for one, other in zip(ours, theirs, strict=True))


def media(path: Path, **options: Any) -> Media:
    """A file as a source."""
    return Media.model_validate({"uri": str(path), **options})
