"""Videos on a GPU, encoded by PyNvVideoCodec alone and by the `video` step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sightline.devices.cuda.device import CudaDevice
from sightline.media import Batch, Frame, Stream
from sightline.testing.run import site_for
from sightline_plugins.encode.nvenc import options_of, without_padding
from sightline_plugins.encode.nvenc_library import HardwareEncoder, library_for
from sightline_plugins.encode.settings import EncoderError, EncoderSettings
from sightline_plugins.sinks.video import Video

STEP_NS = 40_000_000
"""From one image to the next."""


@dataclass(frozen=True, slots=True)
class EncodingJob:
    """What is encoded: images in the GPU's memory, again and again, as this step would."""

    gpu: CudaDevice
    images: Sequence[Frame]
    video: Video

    @property
    def settings(self) -> EncoderSettings:
        """Those of the step."""
        video = self.video
        assert video.quality is not None
        return EncoderSettings(video.codec, video.preset, video.quality, video.bitrate, video.gop)

    @property
    def images_a_group(self) -> int:
        """From one key frame to the next."""
        return self.video.gop // STEP_NS

    def encoder(self, name: str) -> HardwareEncoder:
        """PyNvVideoCodec's encoder. Raises EncoderError."""
        first, stream = self.images[0].surface, self.gpu.stream(name)
        options = options_of(self.settings)
        return library_for(self.gpu).encoder(first.format, size_wh=first.size_wh, stream=stream, options=options)

    def reason_against(self, *, videos: int) -> str | None:
        """Why so many videos cannot be encoded at once; None when they can."""
        try:
            held = [self.encoder(f"trying {number}") for number in range(videos)]
        except EncoderError as error:
            return str(error)
        held.clear()
        return None


class Work(Protocol):
    """Videos that one thread encodes."""

    def next(self) -> int:
        """Encode the next image of each; how many there were."""
        ...

    def close(self) -> None:
        """Finish the videos."""
        ...


class Alone:
    """One video by PyNvVideoCodec, without anything of ours but its stream; packets are for nobody."""

    def __init__(self, case: EncodingJob) -> None:
        gpu = case.gpu
        stream = gpu.stream("alone")
        self._planes = [
            without_padding(frame.surface.arrays_on(stream), gpu=gpu, stream=stream) for frame in case.images
        ]
        stream.synchronize()
        self._encoder = case.encoder("alone")
        self._images_a_group = case.images_a_group
        self._count = 0

    def next(self) -> int:
        """Encode an image."""
        planes = self._planes[self._count % len(self._planes)]
        self._encoder.encode(planes, is_key=self._count % self._images_a_group == 0)
        self._count += 1
        return 1

    def close(self) -> None:
        """Take what is left."""
        self._encoder.finish()


class Ours:
    """One `video` step with so many videos in that folder."""

    def __init__(self, case: EncodingJob, folder: Path, *, videos: int) -> None:
        self._writer = case.video.build(site_for("video-1", folder, gpu=case.gpu))
        self._images = case.images
        self._streams = [Stream(f"video{number}") for number in range(videos)]
        self._count = 0

    def next(self) -> int:
        """Encode an image of each video."""
        image = self._images[self._count % len(self._images)]
        next_one = dataclasses.replace(image, index=self._count, pts_ns=self._count * STEP_NS)
        self._writer.process(Batch(tuple(dataclasses.replace(next_one, stream=one) for one in self._streams)))
        self._count += 1
        return len(self._streams)

    def close(self) -> None:
        """Close the files."""
        for stream in self._streams:
            self._writer.end_stream(stream)
        self._writer.close()
