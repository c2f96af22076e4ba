"""Demuxing and decoding one video stream: packets in, pictures in presentation order out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import av.error
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from sightline_plugins.decode.failures import failure, unreadable
from sightline_plugins.decode.open_media import OpenOptions, open_media, scheme_of, video_stream
from sightline_plugins.decode.timestamps import DEFAULT_INTERVAL_NS, Timestamps

_NANOSECONDS = 1_000_000_000


class VideoDecoder:
    """One open input and the decoder of one of its video streams; used and closed by the thread that made it.

    A packet that does not decode is reported through `on_damage` and costs that packet. What else is wrong with the
    input, but leaves it usable, goes to `warn`, once. `threads` 0 takes as many as there are cores, 1 decodes in the
    calling thread.
    """

    def __init__(
        self,
        uri: str,
        *,
        stream: str,
        options: OpenOptions,
        number: int = 0,
        threads: int = 1,
        warn: Callable[[str], None],
        on_damage: Callable[[], None],
    ) -> None:
        self._uri, self._name, self._options = uri, stream, options
        self._warn, self._on_damage = warn, on_damage
        self.container = open_media(uri, stream=stream, options=options)
        try:
            self.video: VideoStream = video_stream(
                self.container, number=number, stream=stream, uri=uri, options=options
            )
        except BaseException:
            self.close()
            raise
        context = self.video.codec_context
        context.thread_count = threads
        context.thread_type = "NONE" if threads == 1 else "AUTO"
        self._packets = 0
        self._damaged = 0
        self._pictures = 0
        self._cut_off = False

    @property
    def interval_ns(self) -> int:
        """The nominal time between two frames."""
        rate = self.video.guessed_rate or self.video.average_rate
        # A thousand frames a second is what FFmpeg says when it knows no more than that the clock counts milliseconds.
        return round(_NANOSECONDS / rate) if rate and rate < 1_000 else DEFAULT_INTERVAL_NS

    @property
    def start_ns(self) -> int:
        """The presentation time of the first frame, as the container says it."""
        return self.timestamps().exact_ns(self.video.start_time or 0)

    @property
    def duration_ns(self) -> int | None:
        """How long the stream is, as far as the container says it."""
        if self.video.duration:
            return self.timestamps().exact_ns(self.video.duration)
        return self.container.duration * 1_000 if self.container.duration else None

    @property
    def frame_count(self) -> int | None:
        """How many frames there are, as the container says it or as its duration lets expect."""
        if self.video.frames:
            return self.video.frames
        duration_ns = self.duration_ns
        return None if duration_ns is None else max(round(duration_ns / self.interval_ns), 1)

    def timestamps(self) -> Timestamps:
        """New timestamps for the pictures of this stream."""
        time_base = self.video.time_base or Fraction(1, _NANOSECONDS)
        return Timestamps(time_base=time_base, interval_ns=self.interval_ns, warn=self._warn)

    def seek(self, time_ns: int) -> bool:
        """Go to the key frame that the container's index names for that time; False when the input can not be sought.

        The index goes by decoding times: the picture found may be later than asked for.
        """
        try:
            self.container.seek(self.timestamps().ticks(time_ns), stream=self.video, backward=True)
        except (av.error.FFmpegError, OSError):
            return False
        return True

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """The packets of the stream, and an empty one at the end that makes the decoder hand out the rest.

        Raises StreamLost when a network input breaks off. A file whose reading fails ends there.
        """
        try:
            for packet in self.container.demux(self.video):
                if packet.size:
                    self._packets += 1
                yield packet
        except (av.error.FFmpegError, OSError) as error:
            if scheme_of(self._uri) != "file":
                raise failure(error, stream=self._name, uri=self._uri) from None
            self._cut_off = True

    def decode(self, packet: Packet[VideoStream]) -> list[VideoFrame]:
        """The pictures that come out when this packet goes in; none when it is damaged."""
        try:
            pictures = packet.decode()
        except (av.error.FFmpegError, OSError):
            self._damaged += 1
            self._on_damage()
            return []
        self._pictures += len(pictures)
        return pictures

    def pictures(self) -> Iterator[VideoFrame]:
        """All pictures from where the input stands to its end, in presentation order."""
        for packet in self.packets():
            yield from self.decode(packet)

    def check_end(self, *, last_ns: int | None) -> None:
        """To be called at the end of the pictures: warn about what was promised and did not come.

        `last_ns` is the time of the last picture when the input was read from its very beginning, else None. Raises
        StreamUnreadable when not one picture could be decoded.
        """
        if not self._pictures:
            raise unreadable(self._cause_of_nothing(), stream=self._name, uri=self._uri)
        if last_ns is not None and self._ends_early(last_ns):
            self._warn(f"it is cut off or its index is damaged: {self._pictures} of {self.frame_count} frames came")
        elif self._cut_off:
            self._warn(f"it is cut off or damaged: reading ended after {self._pictures} frames")
        if self._damaged:
            self._warn(f"{self._damaged} of {self._packets} packets did not decode")

    def close(self) -> None:
        """Close the input; harmless when called again."""
        self.container.close()

    def _ends_early(self, last_ns: int) -> bool:
        duration_ns = self.duration_ns
        if duration_ns is None:
            return self._packets < self.video.frames
        missing_ns = self.start_ns + duration_ns - (last_ns + self.interval_ns)
        if self.video.frames:
            return self._packets < self.video.frames and missing_ns > 2 * self.interval_ns
        # Without a count there is only a duration, which sound may share: some of it may rightly hold no picture.
        return missing_ns > max(duration_ns // 10, _NANOSECONDS)

    def _cause_of_nothing(self) -> str:
        if self._packets:
            return (
                f"none of its {self._packets} packets can be decoded (encrypted, damaged, larger than "
                f"{self._options.max_pixels} pixels, or another codec than its header says)"
            )
        return f"its header promises {self.video.frames or 'some'} frames, and not one is in it (cut off or damaged)"
