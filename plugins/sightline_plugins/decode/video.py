"""Decode video packets into surfaces."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import cast

import av.error
from av.codec.context import Flags
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline_plugins.decode.decoder import Decoded, DecoderChoice, DecodeSettings, Image, ImageDecoder
from sightline_plugins.decode.failures import failure, unreadable
from sightline_plugins.decode.open_media import OpenOptions, open_media, scheme_of, video_stream
from sightline_plugins.decode.orientation import UPRIGHT
from sightline_plugins.decode.packet_tap import PacketTap, packet_number
from sightline_plugins.decode.surfaces import FrameSurfaces
from sightline_plugins.decode.timestamps import DEFAULT_INTERVAL_NS, Timestamps, last_ticks, nanoseconds


class CpuDecoder:
    """FFmpeg's decoder of a stream: a `ImageDecoder`. Surfaces are views of its images, in host memory."""

    def __init__(self, video: VideoStream, *, decoding: DecodeSettings, live: bool) -> None:
        context = video.codec_context
        context.thread_count = decoding.threads
        # Threads for frames cost a frame of delay each.
        several = "SLICE" if live else "AUTO"
        context.thread_type = "NONE" if decoding.threads == 1 else several
        # Otherwise FFmpeg cuts off at the left only what keeps rows aligned: most often nothing.
        context.flags |= Flags.unaligned
        self._context = context
        self._has_threads = decoding.threads != 1
        self._surfaces = FrameSurfaces(orientation=decoding.orientation)
        self.choice: DecoderChoice | None = DecoderChoice("cpu")

    def decode(self, packet: Packet[VideoStream]) -> Decoded:
        """The images that come out when this packet goes in; none when it is damaged."""
        try:
            frames = packet.decode()
        except (av.error.FFmpegError, OSError):
            return Decoded(damaged_packets=1)
        return Decoded([self._image(frame) for frame in frames])

    def restart(self) -> None:
        """The next packet is from elsewhere in the stream."""
        self._context.flush_buffers()

    def close(self) -> None:
        """Let go of what the decoder's threads hold."""
        if self._has_threads:
            # PyAV frees a decoder while it holds the GIL, which the decoder's threads want when they have to log.
            self._has_threads = False
            self._context.flush_buffers()

    def _image(self, frame: VideoFrame) -> Image:
        orientation = self._surfaces.follow(frame)
        return Image(
            frame.pts,
            frame.dts,
            is_corrupt=frame.is_corrupt,
            packet=packet_number(frame),
            surface=partial(self._surfaces.surface, frame, orientation=orientation),
            is_turned=orientation != UPRIGHT,
        )


_NANOSECONDS = 1_000_000_000
_ON_THE_CPU = DecodeSettings()


@dataclass(frozen=True, slots=True)
class VideoFacts:
    """What a container says about a video stream; plain values, good after the container is closed.

    `interval_ns` is the nominal time between two frames, `start_ns` the time of the first, `frame_count` the number
    that the header promises (0 when it does not say), `expected_frames` that number or what the duration lets expect.
    """

    time_base: Fraction
    interval_ns: int
    start_ns: int
    duration_ns: int | None
    frame_count: int
    expected_frames: int | None

    @classmethod
    def of(cls, container: InputContainer, video: VideoStream) -> VideoFacts:
        """The facts of a stream of an open container."""
        time_base = video.time_base or Fraction(1, _NANOSECONDS)
        rate = video.guessed_rate or video.average_rate
        # A thousand frames a second is what FFmpeg says when it knows no more than that the clock counts milliseconds.
        interval_ns = round(_NANOSECONDS / rate) if rate and rate < 1_000 else DEFAULT_INTERVAL_NS
        duration_ns = (container.duration or 0) * 1_000 or None
        if video.duration:
            duration_ns = nanoseconds(video.duration, time_base)
        expected = video.frames or (duration_ns and max(round(duration_ns / interval_ns), 1))
        start_ns = nanoseconds(video.start_time or 0, time_base)
        return cls(time_base, interval_ns, start_ns, duration_ns, video.frames, expected)

    def ends_early(self, *, packets: int, last_ns: int) -> bool:
        """Whether so many packets, the last image at that time, are clearly less than what is promised."""
        if self.duration_ns is None:
            return packets < self.frame_count
        missing_ns = self.start_ns + self.duration_ns - (last_ns + self.interval_ns)
        if self.frame_count:
            return packets < self.frame_count and missing_ns > 2 * self.interval_ns
        # Without a count there is only a duration, which sound may share: some of it may rightly hold no image.
        return missing_ns > max(self.duration_ns // 10, _NANOSECONDS)


class VideoDecoder:
    """One open input and the decoder of one of its video streams; used and closed by the thread that made it.

    A packet that does not decode is reported through `on_damage` and costs that packet. What else is wrong with the
    input, but leaves it usable, goes to `warn`, once. What decodes is told to `on_choice`, again whenever it becomes
    another. `tap` gets the packets before they are decoded.
    """

    def __init__(
        self,
        uri: str,
        *,
        stream: str,
        options: OpenOptions,
        number: int = 0,
        decoding: DecodeSettings = _ON_THE_CPU,
        warn: Callable[[str], None],
        on_damage: Callable[[], None],
        on_choice: Callable[[DecoderChoice], None] | None = None,
        tap: PacketTap | None = None,
    ) -> None:
        self._uri, self._name, self._options = uri, stream, options
        self._warn, self._on_damage, self._on_choice = warn, on_damage, on_choice
        self._decoder: ImageDecoder | None = None
        self._choice: DecoderChoice | None = None
        self._reads: Generator[Packet[VideoStream], None, None] | None = None
        self._container = open_media(uri, stream=stream, options=options)
        try:
            self._video = video_stream(self._container, number=number, stream=stream, uri=uri, options=options)
            self._decoder = decoder_of(self._video, decoding=decoding, live=options.live)
        except BaseException:
            self.close()
            raise
        self.facts = VideoFacts.of(self._container, self._video)
        self._tap = tap
        if tap is not None:
            interval = last_ticks(self.facts.interval_ns, self.facts.time_base)
            tap.begin(self._video, self.facts.time_base, interval=interval, max_pixels=options.max_pixels)
        self._packets = 0
        self._damaged = 0
        self._images = 0
        self._cut_off = False

    @property
    def codec(self) -> str:
        """What the stream is encoded with."""
        return self._video.codec_context.name

    @property
    def audio_codec(self) -> str | None:
        """What the sound beside it is encoded with; None when there is none, or none was asked for."""
        return next((audio.codec_context.name for audio in self._container.streams.audio if audio.codec_context), None)

    def timestamps(self) -> Timestamps:
        """New timestamps for the images of this stream."""
        return Timestamps(time_base=self.facts.time_base, interval_ns=self.facts.interval_ns, warn=self._warn)

    def seek(self, time_ns: int) -> bool:
        """Go to the key frame that the container's index names for that time; False when the input cannot be sought.

        The index goes by decoding times: the image found may be later than asked for.
        """
        try:
            self._container.seek(last_ticks(time_ns, self.facts.time_base), stream=self._video, backward=True)
        except (av.error.FFmpegError, OSError):
            return False
        if self._decoder is not None:
            self._decoder.restart()
        return True

    def read(self, *, anew: bool = False) -> Packet[VideoStream]:
        """The next packet, an empty one at the end. Raises what PyAV raises, a time limit among it: reading may go on
        after one where the input allows that. `anew` asks for the limit again.
        """
        if anew:
            self._end_reads()
        reads, self._reads = self._reads, None
        if reads is None:
            reads = cast("Generator[Packet[VideoStream], None, None]", self._container.demux(self._video))
        packet = next(reads)
        self._reads = reads
        return packet

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """The packets of the stream, and an empty one at the end that makes the decoder hand out the rest.

        Raises StreamLost when a network input breaks off. A file whose reading fails ends there.
        """
        try:
            yield from self._container.demux(self._video)
        except (av.error.FFmpegError, OSError) as error:
            if scheme_of(self._uri) != "file":
                raise failure(error, stream=self._name, uri=self._uri) from None
            self._cut_off = True
        except IndexError:
            # PyAV, after the empty packet, when streams came that were not there at the start (a fault of its own).
            return

    def decode(self, packet: Packet[VideoStream]) -> Sequence[Image]:
        """The images that come out when this packet goes in; none when it is damaged, or the input was closed."""
        if self._decoder is None:
            return []
        if packet.size:
            self._packets += 1
            if self._tap is not None:
                self._tap.take(packet)
        decoded = self._decoder.decode(packet)
        self._damaged += decoded.damaged_packets
        for _ in range(decoded.damaged_packets):
            self._on_damage()
        self._images += len(decoded.images)
        self._tell(self._decoder.choice)
        return decoded.images

    def images(self) -> Iterator[Image]:
        """All images from where the input stands to its end, in presentation order."""
        return itertools.chain.from_iterable(map(self.decode, self.packets()))

    def check_end(self, *, last_ns: int | None) -> None:
        """To be called at the end of the images: warn about what was promised and did not come.

        `last_ns` is the time of the last image when the input was read from its very beginning, else None. Raises
        StreamUnreadable when not one image could be decoded.
        """
        if not self._images:
            raise unreadable(self._cause_of_nothing(), stream=self._name, uri=self._uri)
        if last_ns is not None and self.facts.ends_early(packets=self._packets, last_ns=last_ns):
            self._warn(
                f"it is cut off or its index is damaged: {self._images} of {self.facts.expected_frames} frames came"
            )
        elif self._cut_off:
            self._warn(f"it is cut off or damaged: reading ended after {self._images} frames")
        if self._damaged:
            self._warn(f"{self._damaged} of {self._packets} packets did not decode")

    def close(self) -> None:
        """Close the input; harmless when called again."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None
        self._end_reads()
        self._container.close()

    def _end_reads(self) -> None:
        """Close the iterator of reads: PyAV does not free what it allocated for one that is only dropped.

        These are 105 bytes in two blocks. They lie between the buffers of frames, and larger buffers find no room there
        any more: the heap grows by some 27 KB with each of them.
        """
        reads, self._reads = self._reads, None
        if reads is not None:
            reads.close()

    def _tell(self, choice: DecoderChoice | None) -> None:
        if choice is not None and choice is not self._choice:
            self._choice = choice
            if self._on_choice is not None:
                self._on_choice(choice)

    def _cause_of_nothing(self) -> str:
        if self._packets:
            return (
                f"none of its {self._packets} packets can be decoded (encrypted, damaged, larger than "
                f"{self._options.max_pixels} pixels (max_pixels), or another codec than its header says)"
            )
        return (
            f"its header promises {self.facts.frame_count or 'some'} frames, and not one is in it (cut off or damaged)"
        )


def decoder_of(video: VideoStream, *, decoding: DecodeSettings, live: bool) -> ImageDecoder:
    """The decoder of the CPU, or, where there is a GPU, the one that decides between them."""
    cpu = CpuDecoder(video, decoding=decoding, live=live)
    if decoding.gpu is None:
        return cpu
    from sightline_plugins.decode.nvdec_decoder import NvdecDecoder

    return NvdecDecoder(video, cpu=cpu, decoding=decoding, live=live)
