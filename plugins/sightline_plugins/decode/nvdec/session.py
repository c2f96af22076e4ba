"""One decoder of NVDEC, from a key picture to a change of what is decoded."""

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
from sightline_plugins.decode.decoding import Picture
from sightline_plugins.decode.nvdec.library import HardwareDecoder, NvdecLibrary
from sightline_plugins.decode.nvdec.picture_facts import PictureFacts
from sightline_plugins.decode.nvdec.submitted import Submission, Submitted
from sightline_plugins.decode.nvdec.surfaces import PictureSurfaces
from sightline_plugins.decode.orientation import UPRIGHT


class Session:
    """Decodes pictures of one size; for one thread. Raises NvdecError when the decoder can not be made.

    What it gives lies in the decoder's memory until the next packet goes in; `Picture.surface` copies it into the pool
    before that, and raises SurfaceReleased afterwards.
    """

    def __init__(
        self,
        library: NvdecLibrary,
        *,
        codec: str,
        facts: PictureFacts,
        gpu: Gpu,
        stream: GpuStream,
        pool: DevicePool,
        submitted: Submitted,
        is_immediate: bool,
    ) -> None:
        self._is_immediate = is_immediate
        self.submitted = submitted
        self._facts, self._gpu, self._stream, self._pool = facts, gpu, stream, pool
        self._surfaces: PictureSurfaces | None = None
        self._calls = 0
        self._hardware: HardwareDecoder | None = library.decoder(
            codec, stream_handle=stream.handle, is_immediate=is_immediate
        )

    def decode(self, packet: Packet[VideoStream], submission: Submission) -> list[Picture]:
        """The pictures that come out when this packet, a byte stream, goes in. Raises NvdecError."""
        assert self._hardware is not None
        self._calls += 1
        timestamp = self.submitted.put(submission)
        given = self._hardware.decode(packet.buffer_ptr, size_bytes=packet.size, timestamp=timestamp)
        return self._pictures(given)

    @property
    def is_misjudged(self) -> bool:
        """Whether there are B-frames after all, and pictures must not be given with their own packets."""
        return self._is_immediate and self.submitted.is_reordered

    def finish(self) -> list[Picture]:
        """The pictures that are left. Raises NvdecError."""
        assert self._hardware is not None
        self._calls += 1
        return self._pictures(self._hardware.flush())

    def close(self) -> None:
        """Let go of the decoder, and before that of its memory: what copies from there is waited for."""
        self._calls += 1
        if self._hardware is not None:
            with suppress(GpuError):  # the guard keeps the cause
                self._stream.synchronize()
            self._hardware = self._surfaces = None

    def _pictures(self, given: list[tuple[int, int]]) -> list[Picture]:
        pictures = []
        for timestamp, address in given:
            submission = self.submitted.take(timestamp)
            if submission.is_discard:
                continue
            pictures.append(
                Picture(
                    submission.pts,
                    submission.dts,
                    is_corrupt=False,
                    packet=submission.number,
                    surface=partial(self._surface, self._surfaces_of_decoder(), address, call=self._calls),
                    is_turned=self._facts.orientation != UPRIGHT,
                )
            )
        return pictures

    def _surfaces_of_decoder(self) -> PictureSurfaces:
        if self._surfaces is None:
            assert self._hardware is not None
            self._surfaces = PictureSurfaces(
                self._facts, layout=self._hardware.layout, gpu=self._gpu, stream=self._stream, pool=self._pool
            )
        return self._surfaces

    def _surface(self, surfaces: PictureSurfaces, address: int, *, call: int) -> Surface:
        if call != self._calls:
            raise SurfaceReleased("the decoder has had another packet: this picture is gone")
        return surfaces.surface(address)
