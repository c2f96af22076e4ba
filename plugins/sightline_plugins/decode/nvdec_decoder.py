"""The decoders that give surfaces in CUDA memory: NVDEC, or the CPU with an upload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.media import Surface
from sightline_plugins.decode.decoder import Decoded, DecoderChoice, Image, ImageDecoder
from sightline_plugins.decode.nvdec import HardwareStream, LeaveNvdec
from sightline_plugins.decode.orientation import Orientation


class UploadingDecoder:
    """Another decoder, and its surfaces in a GPU's memory: a `ImageDecoder`. Every copy is counted."""

    def __init__(self, decoder: ImageDecoder, *, gpu: CudaDevice, stream: CudaStream, reason: str) -> None:
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


class NvdecDecoder:
    """Decodes one stream by NVDEC where it can, else by the CPU, with surfaces in GPU memory: a `ImageDecoder`.

    The CPU decodes what NVDEC does not: other codecs, formats and sizes than the GPU says it decodes, interlaced
    images, and all from where NVDEC failed before its first image, or three times without one between. `choice` has
    the reason. No image is lost on the way from one to the other but those that NVDEC failed at.

    Damage is seen by the container, by the bitstream filter, and by packets that give no image. What is damaged
    within an image NVDEC conceals, and says nothing of it.
    """

    def __init__(
        self, video: VideoStream, *, cpu: ImageDecoder, gpu: CudaDevice, orientation: Orientation | None, live: bool
    ) -> None:
        self._cpu, self._gpu = cpu, gpu
        self._uploading: UploadingDecoder | None = None
        self._hardware: HardwareStream | None = None
        self._early: list[Packet[VideoStream]] = []
        self.choice: DecoderChoice | None = None
        try:
            self._hardware = HardwareStream(video, gpu=gpu, orientation=orientation, live=live)
        except LeaveNvdec as leaving:
            self._go_to_cpu(leaving.reason)

    def decode(self, packet: Packet[VideoStream]) -> Decoded:
        """The images that come out when this packet goes in."""
        if self._uploading is not None:
            self._let_go_of_hardware()
            return self._uploading.decode(packet)
        hardware = self._hardware
        assert hardware is not None
        if not hardware.has_given_images:
            self._keep(packet, hardware)
        try:
            decoded = hardware.decode(packet)
        except LeaveNvdec as leaving:
            uploading = self._go_to_cpu(leaving.reason)
            packets, self._early = [packet] if hardware.has_given_images else self._early, []
            return reduce(Decoded.then, map(uploading.decode, packets), leaving.left)
        if hardware.has_given_images:
            self._early.clear()
            choice = DecoderChoice("nvdec", hardware.correction)
            self.choice = self.choice if choice == self.choice else choice
        return decoded

    def restart(self) -> None:
        """The next packet is from elsewhere in the stream."""
        self._early.clear()
        if self._hardware is not None:
            self._hardware.restart()
        self._cpu.restart()

    def close(self) -> None:
        """Let go of the decoders; harmless when called again."""
        self._early.clear()
        self._let_go_of_hardware()
        self._cpu.close()

    def _keep(self, packet: Packet[VideoStream], hardware: HardwareStream) -> None:
        """Keep what may have to be decoded on the CPU, from the key frame on with which it begins."""
        if not hardware.has_begun:
            self._early.clear()
        self._early.append(packet)

    def _go_to_cpu(self, reason: str) -> UploadingDecoder:
        stream = self._gpu.stream("images from the CPU")
        self._uploading = UploadingDecoder(self._cpu, gpu=self._gpu, stream=stream, reason=reason)
        self.choice = self._uploading.choice
        return self._uploading

    def _let_go_of_hardware(self) -> None:
        if self._hardware is not None:
            self._hardware.close()
            self._hardware = None
