"""One decoder of NVDEC, from a key frame to a change of what is decoded."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.pools import DevicePool
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import GpuError, SurfaceReleased
from sightline.media import Surface
from sightline_plugins.decode.decoding import Image
from sightline_plugins.decode.nvdec.image_facts import ImageFacts
from sightline_plugins.decode.nvdec.library import HardwareDecoder, NvdecLibrary
from sightline_plugins.decode.nvdec.submitted import Submission, Submitted
from sightline_plugins.decode.nvdec.surfaces import ImageSurfaces
from sightline_plugins.decode.orientation import UPRIGHT


class Session:
    """Decodes images of one size; for one thread. Raises NvdecError when the decoder cannot be made.

    What it gives lies in the decoder's memory until the next packet goes in; `Image.surface` copies it into the pool
    before that, and raises SurfaceReleased afterwards.
    """

    def __init__(
        self,
        library: NvdecLibrary,
        *,
        codec: str,
        facts: ImageFacts,
        gpu: Gpu,
        stream: GpuStream,
        pool: DevicePool,
        submitted: Submitted,
        is_immediate: bool,
    ) -> None:
        self._is_immediate = is_immediate
        self.submitted = submitted
        self._facts, self._gpu, self._stream, self._pool = facts, gpu, stream, pool
        self._surfaces: ImageSurfaces | None = None
        self._calls = 0
        self._hardware: HardwareDecoder | None = library.decoder(
            codec, stream_handle=stream.handle, is_immediate=is_immediate
        )

    def decode(self, packet: Packet[VideoStream], submission: Submission) -> list[Image]:
        """The images that come out when this packet, a byte stream, goes in. Raises NvdecError."""
        assert self._hardware is not None
        self._calls += 1
        timestamp = self.submitted.put(submission)
        given = self._hardware.decode(packet.buffer_ptr, size_bytes=packet.size, timestamp=timestamp)
        return self._images(given)

    @property
    def is_misjudged(self) -> bool:
        """Whether there are B-frames after all, and images must not be given with their own packets."""
        return self._is_immediate and self.submitted.is_reordered

    def finish(self) -> list[Image]:
        """The images that are left. Raises NvdecError."""
        assert self._hardware is not None
        self._calls += 1
        return self._images(self._hardware.flush())

    def close(self) -> None:
        """Let go of the decoder, and before that of its memory: what copies from there is waited for."""
        self._calls += 1
        if self._hardware is not None:
            with suppress(GpuError):  # the guard keeps the cause
                self._stream.synchronize()
            self._hardware = self._surfaces = None

    def _images(self, given: list[tuple[int, int]]) -> list[Image]:
        images = []
        for timestamp, address in given:
            submission = self.submitted.take(timestamp)
            if submission.is_discard:
                continue
            images.append(
                Image(
                    submission.pts,
                    submission.dts,
                    is_corrupt=False,
                    packet=submission.number,
                    surface=partial(self._surface, self._surfaces_of_decoder(), address, call=self._calls),
                    is_turned=self._facts.orientation != UPRIGHT,
                )
            )
        return images

    def _surfaces_of_decoder(self) -> ImageSurfaces:
        if self._surfaces is None:
            assert self._hardware is not None
            self._surfaces = ImageSurfaces(
                self._facts, layout=self._hardware.layout, gpu=self._gpu, stream=self._stream, pool=self._pool
            )
        return self._surfaces

    def _surface(self, surfaces: ImageSurfaces, address: int, *, call: int) -> Surface:
        if call != self._calls:
            raise SurfaceReleased("the decoder has had another packet: this image is gone")
        return surfaces.surface(address)
