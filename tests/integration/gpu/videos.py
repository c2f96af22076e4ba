"""Videos that `video` makes of frames on a GPU, and what comes back from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Sink
from sightline.graph.messages import Message
from sightline.media import Frame, PixelFormat
from sightline.testing import make_batches
from sightline.testing.run import site_for
from sightline_plugins.sinks.video import Video
from tests.integration.encode.clips import Readback, frames_at, psnr, read_back

MS = 1_000_000
CONSTANT = [index * 40 * MS for index in range(12)]
VARIABLE = [5_000 * MS + time for time in (0, 33 * MS, 50 * MS, 51 * MS, 400 * MS, 3_000 * MS, 9_999 * MS + 123_456)]
SIZE = (160, 64)
DENSE = (256, 64)


def nv12(times_ns: Sequence[int] = CONSTANT, **options: Any) -> list[Frame]:
    return frames_at(times_ns, **{"size_wh": SIZE, "pixel_format": PixelFormat.NV12, **options})


def on(gpu: CudaDevice | None, frame: Frame) -> Frame:
    return frame if gpu is None else dataclasses.replace(frame, surface=frame.surface.to_device(gpu).shared())


class Written:
    """What a step made of frames, which it was given one after another and which nobody kept."""

    def __init__(self, folder: Path, frames: Iterable[Frame], gpu: CudaDevice | None = None, **options: Any) -> None:
        self.messages: list[Message] = []
        self._path = folder / options.setdefault("path", "video.mp4")
        self._gpu = gpu
        video = Video.model_validate({"quality": 10, **options})
        self.writer: Sink = video.build(site_for("video-1", folder, self.messages, gpu=gpu))
        self._write(frames)

    def _write(self, frames: Iterable[Frame]) -> None:
        before: Frame | None = None
        try:
            for frame in frames:
                copied = dataclasses.replace(frame, surface=dataclasses.replace(frame.surface))
                self.writer.process(make_batches([on(self._gpu, copied)])[0])
                before = frame
            if before is not None:
                self.writer.end_stream(before.stream)
        finally:
            self.writer.close()

    @property
    def video(self) -> Readback:
        return read_back(self._path)

    @property
    def encoder(self) -> str:
        return str(self.writer.totals()["cam"]["encoder"])


def assert_alike(one: Readback, other: Readback) -> None:
    """The same times, and images that differ as encoders do."""
    assert one.times_ns() == other.times_ns()
    assert min(psnr(mine, its) for mine, its in zip(one.rgb, other.rgb, strict=True)) > 33
