"""Decode with NVDEC, and leave it for the CPU when it fails."""

from __future__ import annotations

from dataclasses import replace

import av.error
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline_plugins.codecs.byte_stream import ByteStream, DamagedPacket, configuration_of
from sightline_plugins.codecs.packet import packet_of
from sightline_plugins.codecs.sps import crops_of
from sightline_plugins.decode.decoder import Decoded
from sightline_plugins.decode.nvdec_library import CODECS, ImageFacts, NvdecError, NvdecLibrary, facts_of, library_for
from sightline_plugins.decode.nvdec_memory import decoder_bytes
from sightline_plugins.decode.nvdec_session import LONGEST_STAY, Session, Submission, Submitted, WrongImage
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
    """Watches the key frames of a stream. One that brings another configuration is decoded on the CPU.

    Its image is the `reference` for that of NVDEC, until `confirm` is called: then NVDEC has decoded such images as
    the CPU does.
    """

    def __init__(
        self, video: VideoStream, *, bytes_: ByteStream, orientation: Orientation | None, verifies: bool
    ) -> None:
        self._video, self._bytes, self._orientation = video, bytes_, orientation
        self._verifies = verifies
        self._is_confirmed = not verifies
        self._configuration = self._found = b""
        self.facts: ImageFacts | None = None
        """What holds from the last key frame on; None before the first."""
        self.reference: VideoFrame | None = None
        """The CPU's decoding of the last key frame, when it is to be compared."""
        self.refresh_points = 0
        """How many packets before the first key frame were called one, and are no image by themselves."""

    def confirm(self) -> None:
        """NVDEC's images of the present facts are the CPU's."""
        self._is_confirmed = True

    def look(self, packet: Packet[VideoStream]) -> tuple[Packet[VideoStream] | None, bool]:
        """The packet, which is left as it is, as a byte stream, and whether the facts are others from it on.

        None when no image can be decoded from it alone. Raises FFmpegError, or DamagedPacket, when it is damaged.
        """
        data = bytes(packet)
        turned = self._bytes.of_copy(data)
        if turned is None:
            return None, False
        self._found = configuration_of(self._bytes.codec, bytes(turned) if self._bytes.is_filtered else data)
        self.reference = None
        is_known = self.facts is not None and self._found in (b"", self._configuration)
        if is_known and self._is_confirmed:
            return turned, False
        try:
            decoded = facts_of(data, video=self._video, orientation=self._orientation)
        except (av.error.FFmpegError, OSError):
            if not is_known:
                raise
            decoded = None
        if decoded is None:
            self.refresh_points += self.facts is None and packet.is_keyframe
            return (turned, False) if is_known else (None, False)
        facts, image = decoded
        configuration = self._found or self._bytes.configuration
        facts = replace(facts, crops=crops_of(self._bytes.codec, configuration))
        has_changed = facts != self.facts
        self.facts, self._configuration = facts, configuration
        if has_changed:
            self._is_confirmed = not self._verifies
        if not (self._is_confirmed or packet.is_corrupt or image.is_corrupt):
            self.reference = image
        return turned, has_changed

    def complete(self, turned: Packet[VideoStream]) -> Packet[VideoStream]:
        """What `look` gave last, with a configuration, for a decoder that has none yet."""
        if self._found or not self._configuration:
            return turned
        return packet_of(self._configuration + bytes(turned))


_MOST_IMAGES = 256
"""So many surfaces of one stream may be held at a time; who wants more waits, and then has an error."""
_MOST_FAULTS = 3
_MOST_WRONG = 3
"""After so many key frames that NVDEC decoded differently, one after the other, a live stream is not given to it any
more. Their data may have been damaged on the way; what a file holds stays what it is.
"""
_MOST_REFRESH_POINTS = 2
"""A stream that comes so often to where a decoder may begin, without an image, is refreshed bit by bit."""
_ONE_IMAGE_A_PACKET = ("h264", "hevc")
"""Codecs of which a packet without an image is a damaged one."""


class LeaveNvdec(Exception):
    """From a packet on, the stream is not for NVDEC; `left` is what came out before.

    It is the packet that was given or, with `begins_anew` and before any image has come out, the first of those that
    `HardwareStream.keeps_packets` was about. `may_return` says that NVDEC may be tried again at the next key frame.
    """

    def __init__(
        self, reason: str, *, left: Decoded | None = None, begins_anew: bool = False, may_return: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.left = left or Decoded()
        self.begins_anew, self.may_return = begins_anew, may_return


class HardwareStream:
    """Decodes one stream on NVDEC; for one thread. Packets are used up, but for key frames, unless `keeps_packets`.

    A decoder begins with a key frame. It ends where one changes what is decoded, and after a fault: what fails, or
    gives nothing for 64 packets. Another one begins then, at once or at the next key frame. What speaks against NVDEC
    raises LeaveNvdec at a packet from which on another decoder can go on: a key frame or, while it `keeps_packets`,
    the first that it kept.

    The image of a key frame that begins other facts is compared with the CPU's, and so are those of later ones until
    one with detail was the same. Nothing is given from it on before.
    """

    def __init__(
        self, video: VideoStream, *, gpu: CudaDevice, orientation: Orientation | None, live: bool, verifies: bool
    ) -> None:
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
        self._keys = KeyFrames(video, bytes_=self._bytes, orientation=orientation, verifies=verifies)
        self._gpu = gpu
        self._stream: CudaStream = gpu.stream("decoding")
        self._pool = gpu.pool("images of a decoder", limit_count=_MOST_IMAGES)
        self._session: Session | None = None
        self._ended: list[Session] = []
        self._is_live = self._may_be_immediate = live
        self._faults: list[str] = []
        self._wrong_images = 0
        self.has_given_images = False

    @property
    def has_begun(self) -> bool:
        """Whether there was a key frame."""
        return self._keys.facts is not None

    @property
    def keeps_packets(self) -> bool:
        """Whether the packets since the last key frame are left as they are: another decoder may have to begin there.

        Before any image has come out they are, from the first that may begin one, and while an image is to be compared.
        """
        if not self.has_begun:
            return self._keys.refresh_points > 0
        return not self.has_given_images or (self._session is not None and self._session.is_comparing)

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
        if self._keys.refresh_points >= _MOST_REFRESH_POINTS and facts is None:
            raise LeaveNvdec("it has no key frames that are whole images (intra refresh)")
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
        compared = None if self._session.is_comparing else self._keys.reference
        try:
            return before.then(self._fed(turned, Submission.of(packet, reference=compared)))
        except LeaveNvdec as leaving:
            leaving.left = before.then(leaving.left)
            raise

    def _image(self, packet: Packet[VideoStream]) -> Decoded:
        submission = Submission.of(packet)
        turned = self._bytes.of_copy(bytes(packet)) if self.keeps_packets else self._bytes.of(packet)
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
        except WrongImage as error:
            raise self._leaving(error) from error
        except NvdecError as error:
            return self._failed(str(error))
        self._note(session)
        if session.submitted.without_image >= LONGEST_STAY:
            return self._failed(f"no image for {LONGEST_STAY} packets")
        return Decoded(images, session.submitted.overdue() if self._counts_missing else 0)

    def _note(self, session: Session) -> None:
        """Take up what a comparison found."""
        if session.verdict is not None and session.verdict.is_telling:
            self._keys.confirm()
            self._wrong_images, session.verdict = 0, None

    def _leaving(self, wrong: WrongImage) -> LeaveNvdec:
        """Go on with another decoder from the key frame on; what came before it is there until the next packet."""
        if self._session is not None:
            self._ended.append(self._session)
            self._session = None
        self._wrong_images += 1
        may_return = self._is_live and self._wrong_images < _MOST_WRONG
        return LeaveNvdec(str(wrong), left=Decoded(wrong.before), begins_anew=True, may_return=may_return)

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
            self._note(session)
        except WrongImage as error:
            raise self._leaving(error) from error
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
