"""Decode with NVDEC, and leave it for the CPU when it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import av.error
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline_plugins.codecs.byte_stream import ByteStream, DamagedPacket, configuration_of
from sightline_plugins.codecs.sps import crops_of
from sightline_plugins.decode.decoder import Decoded
from sightline_plugins.decode.nvdec_library import CODECS, ImageFacts, NvdecError, NvdecLibrary, facts_of, library_for
from sightline_plugins.decode.nvdec_memory import decoder_bytes
from sightline_plugins.decode.nvdec_surfaces import LONGEST_STAY, Session, Submission, Submitted
from sightline_plugins.decode.orientation import Orientation

_SPOKEN = {"400": "without colour", "420": "4:2:0", "444": "4:4:4"}


def reason_against_codec(codec: str) -> str | None:
    """Why streams of a codec (FFmpeg's name) are not given to NVDEC; None when they may be."""
    if codec in CODECS:
        return None
    return f"NVDEC decodes {', '.join(CODECS)} exactly as the CPU does, and is not used for {codec}"


def reason_against(facts: ImageFacts, *, codec: str, library: NvdecLibrary) -> str | None:
    """Why these images are not given to NVDEC; None when they are."""
    if facts.pixel_format is None:
        return f"NVDEC is not used for images of the format {facts.coded}"
    if facts.is_interlaced:
        return "its images are interlaced: PyNvVideoCodec would deinterlace them"
    if len(facts.crops) > 1 and any(crop.moves_origin for crop in facts.crops):
        return "it brings several SPSs that crop differently at left or top"
    support = library.support(codec, chroma=facts.chroma, bit_depth=facts.bit_depth)
    against = support.reason_against(facts.size_wh)
    return None if against is None else f"{codec}, {_SPOKEN[facts.chroma]}, {facts.bit_depth} bits: {against}"


class KeyFrames:
    """Watches the key frames of a stream. One that brings another configuration is decoded on the CPU."""

    def __init__(self, video: VideoStream, *, bytes_: ByteStream, orientation: Orientation | None) -> None:
        self._video, self._bytes, self._orientation = video, bytes_, orientation
        self._configuration = self._found = b""
        self.facts: ImageFacts | None = None
        """What holds from the last key frame on; None before the first."""

    def look(self, packet: Packet[VideoStream]) -> tuple[Packet[VideoStream] | None, bool]:
        """The packet, which is left as it is, as a byte stream, and whether the facts are others from it on.

        None when no image can be decoded from it alone. Raises FFmpegError, or DamagedPacket, when it is damaged.
        """
        data = bytes(packet)
        turned = self._bytes.of_copy(data)
        if turned is None:
            return None, False
        self._found = configuration_of(self._bytes.codec, bytes(turned) if self._bytes.is_filtered else data)
        if self.facts is not None and self._found in (b"", self._configuration):
            return turned, False
        facts = facts_of(data, video=self._video, orientation=self._orientation)
        if facts is None:
            return None, False
        configuration = self._found or self._bytes.configuration
        facts = replace(facts, crops=crops_of(self._bytes.codec, configuration))
        has_changed = facts != self.facts
        self.facts, self._configuration = facts, configuration
        return turned, has_changed

    def complete(self, turned: Packet[VideoStream]) -> Packet[VideoStream]:
        """What `look` gave last, with a configuration, for a decoder that has none yet."""
        if self._found or not self._configuration:
            return turned
        return cast("Packet[VideoStream]", Packet(self._configuration + bytes(turned)))


_MOST_IMAGES = 256
"""So many surfaces of one stream may be held at a time; who wants more waits, and then has an error."""
_MOST_FAULTS = 3
_ONE_IMAGE_A_PACKET = ("h264", "hevc")
"""Codecs of which a packet without an image is a damaged one."""


class LeaveNvdec(Exception):
    """From the packet that was given on, the stream is not for NVDEC; `left` is what came out before."""

    def __init__(self, reason: str, *, left: Decoded | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.left = left or Decoded()


class HardwareStream:
    """Decodes one stream on NVDEC; for one thread. Packets are used up from the first image on, but for key frames.

    A decoder begins with a key frame. It ends where one changes what is decoded, and after a fault: what fails, or
    gives nothing for 64 packets. Another one begins then, at once or at the next key frame. What speaks against NVDEC
    raises LeaveNvdec at a packet from which on another decoder can go on: a key frame or, before any image has come
    out, every packet since `has_begun`.
    """

    def __init__(self, video: VideoStream, *, gpu: CudaDevice, orientation: Orientation | None, live: bool) -> None:
        """Raises LeaveNvdec when nothing of the stream is for NVDEC."""
        try:
            self._bytes = ByteStream(video)
            against = reason_against_codec(self._bytes.codec)
            if against is not None:
                raise LeaveNvdec(against)
            self._library: NvdecLibrary = library_for(gpu)
        except (NvdecError, ValueError) as error:
            raise LeaveNvdec(str(error)) from error
        self._context = video.codec_context
        self._keys = KeyFrames(video, bytes_=self._bytes, orientation=orientation)
        self._gpu = gpu
        self._stream: CudaStream = gpu.stream("decoding")
        self._pool = gpu.pool("images of a decoder", limit_count=_MOST_IMAGES)
        self._session: Session | None = None
        self._ended: list[Session] = []
        self._may_be_immediate = live
        self._faults: list[str] = []
        self.has_given_images = False

    @property
    def has_begun(self) -> bool:
        """Whether there was a key frame."""
        return self._keys.facts is not None

    @property
    def correction(self) -> str | None:
        """What PyNvVideoCodec alone would get wrong of the present images, and is put right; None when it is right."""
        left, top = self._keys.facts.origin if self._keys.facts is not None else (0, 0)
        if not (left or top):
            return None
        return (
            f"its SPS crops {left} columns at the left and {top} rows at the top; PyNvVideoCodec ignores that, and "
            f"Sightline applies it"
        )

    def decode(self, packet: Packet[VideoStream]) -> Decoded:
        """The images that come out when this packet goes in. Raises LeaveNvdec, CudaError."""
        self._let_go_of_ended()
        decoded = self._decoded(packet) if packet.size else self._end()
        if decoded.images:
            self.has_given_images = True
            self._faults.clear()
        elif not packet.size and self.has_begun and not self.has_given_images:
            raise LeaveNvdec("NVDEC gave no image")
        return decoded

    def restart(self) -> None:
        """The next packet is from elsewhere in the stream."""
        self.close()
        self._bytes.restart()

    def close(self) -> None:
        """Let go of the decoder; harmless when called again."""
        if self._session is not None:
            self._ended.append(self._session)
            self._session = None
        self._let_go_of_ended()

    def _decoded(self, packet: Packet[VideoStream]) -> Decoded:
        is_key = packet.is_keyframe or not self.has_begun
        if not is_key and self._session is None:
            return Decoded(damaged_packets=1)
        try:
            return self._key_frame(packet) if is_key else self._image(packet)
        except (av.error.FFmpegError, OSError, DamagedPacket):
            return Decoded(damaged_packets=1)

    def _key_frame(self, packet: Packet[VideoStream]) -> Decoded:
        if self._bytes.is_filtered and packet.has_sidedata("new_extradata"):
            raise LeaveNvdec("what its container says of the codec changes in mid-stream", left=self._end())
        turned, has_changed = self._keys.look(packet)
        facts = self._keys.facts
        if turned is None or facts is None:
            return Decoded()
        before = Decoded()
        if has_changed:
            before = self._end()
            if (against := reason_against(facts, codec=self._bytes.codec, library=self._library)) is not None:
                raise LeaveNvdec(against, left=before)
        elif self._session is not None and self._session.is_misjudged:
            self._may_be_immediate = False
            before = self._end()
        if self._session is None:
            self._session = self._begun(facts, before=before)
            turned = self._keys.complete(turned)
        return before.then(self._fed(turned, Submission.of(packet)))

    def _image(self, packet: Packet[VideoStream]) -> Decoded:
        submission = Submission.of(packet)
        turned = self._bytes.of(packet) if self.has_given_images else self._bytes.of_copy(bytes(packet))
        return Decoded() if turned is None else self._fed(turned, submission)

    def _begun(self, facts: ImageFacts, *, before: Decoded) -> Session:
        if len(self._faults) >= _MOST_FAULTS:
            raise LeaveNvdec(f"NVDEC failed {_MOST_FAULTS} times in a row: {self._faults[-1]}", left=before)
        depth = self._reorder_depth
        try:
            self._library.check_room(decoder_bytes(self._bytes.codec, facts.size_wh, bit_depth=facts.bit_depth))
            return Session(
                self._library,
                codec=self._bytes.codec,
                facts=facts,
                gpu=self._gpu,
                stream=self._stream,
                pool=self._pool,
                submitted=Submitted(reorder_depth=depth),
                is_immediate=self._may_be_immediate and depth == 0,
            )
        except NvdecError as error:
            raise LeaveNvdec(f"NVDEC makes no decoder: {error}", left=before) from error

    def _fed(self, turned: Packet[VideoStream], submission: Submission) -> Decoded:
        session = self._session
        assert session is not None
        try:
            images = session.decode(turned, submission)
        except NvdecError as error:
            return self._failed(str(error))
        if session.submitted.without_image >= LONGEST_STAY:
            return self._failed(f"no image for {LONGEST_STAY} packets")
        return Decoded(images, session.submitted.overdue() if self._counts_missing else 0)

    def _failed(self, fault: str) -> Decoded:
        """Go on with another decoder, unless the GPU is broken (CudaFailed) or this one has given nothing at all."""
        self.close()
        self._gpu.guard.check()
        if not self.has_given_images:
            raise LeaveNvdec(f"NVDEC failed: {fault}")
        self._faults.append(fault)
        return Decoded(damaged_packets=1)

    def _end(self) -> Decoded:
        """What the decoder still has; it is there until the next packet."""
        session, self._session = self._session, None
        if session is None:
            return Decoded()
        self._ended.append(session)
        try:
            images = session.finish()
        except NvdecError as error:
            self._faults.append(str(error))
            images = []
        self.has_given_images |= bool(images)
        return Decoded(images, session.submitted.left() if self._counts_missing else 0)

    @property
    def _reorder_depth(self) -> int:
        """By how many packets FFmpeg's decoder is behind, as far as it knows."""
        return self._context.reorder_depth

    @property
    def _counts_missing(self) -> bool:
        return self._bytes.codec in _ONE_IMAGE_A_PACKET

    def _let_go_of_ended(self) -> None:
        while self._ended:
            self._ended.pop().close()
