"""Decoding one stream on the GPU, and on the CPU what the GPU does not decode."""

from __future__ import annotations

from functools import reduce

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.gpu.gpu import Gpu
from sightline_plugins.decode.decoding import Decoded, DecoderChoice, ImageDecoder
from sightline_plugins.decode.nvdec.hardware import HardwareStream, LeaveNvdec
from sightline_plugins.decode.nvdec.uploading import UploadingDecoder
from sightline_plugins.decode.orientation import Orientation


class NvdecDecoder:
    """Decodes one stream by NVDEC where it can, else by the CPU, with surfaces in GPU memory: a `ImageDecoder`.

    The CPU decodes what NVDEC does not: other codecs, formats and sizes than the GPU says it decodes, interlaced
    images, and all from where NVDEC failed before its first image, or three times without one between. `choice` has
    the reason. No image is lost on the way from one to the other but those that NVDEC failed at.

    Damage is seen by the container, by the bitstream filter, and by packets that give no image. What is damaged
    within an image NVDEC conceals, and says nothing of it.
    """

    def __init__(
        self, video: VideoStream, *, cpu: ImageDecoder, gpu: Gpu, orientation: Orientation | None, live: bool
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
            self.choice = self.choice or DecoderChoice("nvdec")
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
