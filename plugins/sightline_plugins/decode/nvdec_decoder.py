"""The decoders that give surfaces in CUDA memory: NVDEC, or the CPU with an upload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from typing import cast

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.media import Surface
from sightline_plugins.decode.decoder import Decoded, DecoderChoice, DecodeSettings, Image, ImageDecoder
from sightline_plugins.decode.nvdec import HardwareStream, LeaveNvdec


class UploadingDecoder:
    """Another decoder, and its surfaces in a GPU's memory. Every copy is counted."""

    def __init__(self, decoder: ImageDecoder, *, gpu: CudaDevice) -> None:
        self._decoder, self._gpu = decoder, gpu
        self._stream = gpu.stream("images from the CPU")

    def decode(self, packet: Packet[VideoStream]) -> Decoded:
        """The images that come out when this packet goes in."""
        decoded = self._decoder.decode(packet)
        return Decoded([self._on_gpu(image) for image in decoded.images], decoded.damaged_packets)

    def _on_gpu(self, image: Image) -> Image:
        return image._replace(surface=partial(self._surface, image.surface))

    def _surface(self, make: Callable[[], Surface]) -> Surface:
        # Nobody else holds the copy: whoever draws on it need not copy again.
        return replace(make().to_device(self._gpu, stream=self._stream), exclusive=True)


class NvdecDecoder:
    """Decodes one stream by NVDEC where it can, else by the CPU, with surfaces in GPU memory: a `ImageDecoder`.

    The CPU decodes what NVDEC does not: other codecs, formats and sizes than the GPU says it decodes, interlaced
    images, streams without key frames, and all from where NVDEC failed before its first image, or three times without
    one between, or gave another image than the CPU. From there a live stream comes back to NVDEC at its next key frame,
    twice. `choice` has the reason. No image is lost on the way from one to the other but those that NVDEC failed at.

    Damage is seen by the container, by the bitstream filter, and by packets that give no image. What is damaged
    within an image NVDEC conceals, and says nothing of it.
    """

    def __init__(self, video: VideoStream, *, cpu: ImageDecoder, decoding: DecodeSettings, live: bool) -> None:
        assert decoding.gpu is not None
        self._video, self._cpu, self._gpu = video, cpu, decoding.gpu
        self._hardware: HardwareStream | None = None
        self._uploading: UploadingDecoder | None = None
        self._may_return = False
        self._kept: list[Packet[VideoStream]] = []
        self.choice: DecoderChoice | None = None
        try:
            self._hardware = HardwareStream(
                video, gpu=self._gpu, orientation=decoding.orientation, live=live, verifies=decoding.verifies_nvdec
            )
        except LeaveNvdec as leaving:
            self._go_to_cpu(leaving)

    def decode(self, packet: Packet[VideoStream]) -> Decoded:
        """The images that come out when this packet goes in."""
        if self._uploading is None:
            return self._by_hardware(packet)
        if not self._may_return:
            self._let_go_of_hardware()
        elif packet.is_keyframe:
            return self._left_on_cpu(self._uploading).then(self._by_hardware(packet))
        return self._uploading.decode(packet)

    def restart(self) -> None:
        """The next packet is from elsewhere in the stream."""
        self._kept.clear()
        if self._hardware is not None:
            self._hardware.restart()
        self._cpu.restart()

    def close(self) -> None:
        """Let go of the decoders; harmless when called again."""
        self._kept.clear()
        self._let_go_of_hardware()
        self._cpu.close()

    def _by_hardware(self, packet: Packet[VideoStream]) -> Decoded:
        hardware = self._hardware
        assert hardware is not None
        self._kept.append(packet)
        try:
            decoded = hardware.decode(packet)
        except LeaveNvdec as leaving:
            uploading = self._go_to_cpu(leaving)
            begins_anew = leaving.begins_anew or not hardware.has_given_images
            packets, self._kept = self._kept if begins_anew else [packet], []
            return reduce(Decoded.then, map(uploading.decode, packets), leaving.left)
        if not hardware.keeps_packets:
            self._kept.clear()
        if hardware.has_given_images:
            choice, correction = self.choice, hardware.correction
            if choice is None or choice.name != "nvdec" or choice.reason != correction:
                self.choice = DecoderChoice("nvdec", correction)
        return decoded

    def _go_to_cpu(self, leaving: LeaveNvdec) -> UploadingDecoder:
        self._uploading = UploadingDecoder(self._cpu, gpu=self._gpu)
        self._may_return = leaving.may_return
        self.choice = DecoderChoice("cpu", leaving.reason)
        return self._uploading

    def _left_on_cpu(self, uploading: UploadingDecoder) -> Decoded:
        """What the CPU's decoder still has when NVDEC takes over again."""
        end = cast("Packet[VideoStream]", Packet())
        end.stream = self._video
        left, self._uploading = uploading.decode(end), None
        self._cpu.restart()
        return left

    def _let_go_of_hardware(self) -> None:
        if self._hardware is not None:
            self._hardware.close()
            self._hardware = None
