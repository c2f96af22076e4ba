"""Images of the CPU's decoder in GPU memory, for what NVDEC does not decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.media import Surface
from sightline_plugins.decode.decoding import Decoded, DecoderChoice, Image, ImageDecoder


class UploadingDecoder:
    """Another decoder, and its surfaces in a GPU's memory: a `ImageDecoder`. Every copy is counted."""

    def __init__(self, decoder: ImageDecoder, *, gpu: Gpu, stream: GpuStream, reason: str) -> None:
        self._decoder, self._gpu, self._stream = decoder, gpu, stream
        self.choice: DecoderChoice | None = DecoderChoice("cpu", reason)

    def decode(self, packet: Packet[VideoStream]) -> Decoded:
        """The images that come out when this packet goes in."""
        decoded = self._decoder.decode(packet)
        return Decoded([self._on_gpu(image) for image in decoded.images], decoded.damaged_packets)

    def restart(self) -> None:
        """The next packet is from elsewhere in the stream."""
        self._decoder.restart()

    def close(self) -> None:
        """Close the decoder."""
        self._decoder.close()

    def _on_gpu(self, image: Image) -> Image:
        return replace(image, surface=partial(self._surface, image.surface))

    def _surface(self, make: Callable[[], Surface]) -> Surface:
        # Nobody else holds the copy: whoever draws on it need not copy again.
        return replace(make().to_device(self._gpu, stream=self._stream), exclusive=True)
