"""Write encoded packets into files.

MP4 is written as hybrid fragmented MP4: a fragment for each second and each group of images, on the disk as soon as
it is complete, and the ordinary index at the end when the file is closed. `delay_moov` makes the header carry the edit
list, without which a stream that starts late, or one with B-frames, comes back with other timestamps. Matroska's
clusters end as often. Both lose at most the last second, and what the encoder holds back, when the process is killed.

FFmpeg takes an MP4 to end with the packet that is written last. Of images that are shown in another order than they
are written, that need not be the last one shown, and players would leave out those behind it. So each packet is said to
last until all images so far were shown.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import av
from av.container import OutputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.errors import OutputError
from sightline.graph import EncodedFormat, EncodedPacket
from sightline.graph.outputs import STANDARD_OUTPUT_NAME, Outputs, output_error
from sightline_plugins.encode.settings import CONTAINERS, SENDERS, Container, EncoderError

if TYPE_CHECKING:
    from av.stream import Stream


class OutputFile:
    """A file as PyAV writes to it. The first failure is kept, and nothing is written after it."""

    def __init__(self, path: Path, *, outputs: Outputs) -> None:
        self.name = str(path)
        self._file: IO[bytes] = outputs.open_binary(path)
        self.failure: OSError | None = None

    @property
    def closed(self) -> bool:
        """Whether the file is closed; PyAV asks before it writes a trailer."""
        return self._file.closed

    def write(self, data: bytes) -> int:
        """Write all of it, or raise the system's error."""
        if self.failure is not None:
            raise self.failure
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.failure = error
            raise
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to another place; PyAV does so to fill in the header at the end."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The place where the next byte goes."""
        return self._file.tell()

    def size(self) -> int:
        """How many bytes the file holds."""
        return os.fstat(self._file.fileno()).st_size

    def cut(self, size: int) -> None:
        """Take away what comes after the first `size` bytes."""
        self._file.truncate(size)

    def close(self) -> None:
        """Close the file; harmless when called again."""
        self._file.close()


class StandardOutput:
    """Standard output as PyAV writes to it: there is no way back. It stays open for the process."""

    def __init__(self) -> None:
        self.name = str(STANDARD_OUTPUT_NAME)
        self.closed = False
        self.failure: OSError | None = None
        self._written_bytes = 0

    def write(self, data: bytes) -> int:
        """Write all of it, or raise the system's error; waits while its reader is slower."""
        if self.failure is not None:
            raise self.failure
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OSError as error:
            self.failure = error
            raise
        self._written_bytes += len(data)
        return len(data)

    def size(self) -> int:
        """How many bytes were written."""
        return self._written_bytes

    def cut(self, size: int) -> None:
        """Take nothing away: what was written is read already."""

    def close(self) -> None:
        """Write nothing more."""
        self.closed = True

    def error(self, error: OSError, *, doing: str) -> OutputError:
        """The error to raise for one of the system."""
        return output_error(STANDARD_OUTPUT_NAME, error, doing=doing)


@dataclass(slots=True)
class Muxer:
    """An open container and the file under it. After an OutputError it is closed, and cut to what is readable."""

    path: Path
    container: OutputContainer
    file: OutputFile | StandardOutput
    _header: int = 0
    _whole: int = 0
    _packets: int = 0
    _whole_packets: int = 0
    _latest_seconds: Fraction = Fraction(0)

    @property
    def whole_bytes(self) -> int:
        """How much of the file is complete and stays readable whatever comes."""
        return self._whole

    @property
    def whole_packets(self) -> int:
        """How many packets lie in what is complete."""
        return self._whole_packets

    def add_encoded_stream(self, kind: EncodedFormat) -> VideoStream:
        """Add a stream for images that are encoded already. Raises OutputError when the container cannot hold it."""
        with self.guard("write"):
            return _encoded_stream(self.container, kind)

    def mux(self, packets: Iterable[Packet[VideoStream]]) -> None:
        """Write packets; each complete piece is in the file when this returns. Raises OutputError."""
        with self.guard("write"):
            if not self._header:
                self.container.start_encoding()
                self._header = self.file.size()
            for packet in packets:
                self._lengthen(packet)
                self.container.mux(packet)
                if (size := self.file.size()) > max(self._header, self._whole):
                    self._whole, self._whole_packets = size, self._packets
                self._packets += 1

    def _lengthen(self, packet: Packet[VideoStream]) -> None:
        if packet.pts is None or packet.time_base is None:
            return
        begins = packet.pts * packet.time_base
        if begins < self._latest_seconds:
            missing_seconds = self._latest_seconds - begins
            packet.duration = ceil(missing_seconds / packet.time_base) + max(packet.duration or 0, 1)
        self._latest_seconds = max(begins, self._latest_seconds)

    def finish(self) -> None:
        """Write the index and close the file. Raises OutputError; harmless when called again."""
        if self.file.closed:
            return
        with self.guard("close"):
            self.container.close()
            if self.file.failure is not None:
                raise self.file.failure
            self._whole_packets = self._packets
            self._release()

    def abandon(self) -> None:
        """Close the file as it stands after the last complete piece; remove it when it holds nothing."""
        if self.file.closed:
            return
        with suppress(OSError):
            self.file.cut(self._whole)
        with suppress(OSError):
            self._release()

    def _release(self) -> None:
        empty = self.file.size() == 0
        self.file.close()
        self.container.close()
        if empty and isinstance(self.file, OutputFile):
            self.path.unlink(missing_ok=True)

    @contextmanager
    def guard(self, doing: str) -> Iterator[None]:
        """Turn trouble of the file, the container or its encoder into an OutputError; the file is abandoned first."""
        try:
            yield
        except (OSError, av.FFmpegError, EncoderError, ValueError) as error:
            self.abandon()
            cause = self.file.failure or error
            if isinstance(cause, OSError) and not isinstance(cause, av.FFmpegError):
                raise output_error(self.path, cause, doing=doing) from error
            raise OutputError(f"cannot {doing} {self.path}: {cause}") from error


def open_muxer(path: Path, *, outputs: Outputs, container: Container | None = None) -> Muxer:
    """Open a file for encoded video, in the container that its suffix names (see `CONTAINERS`); with a `container` for
    pipes, standard output. Raises OutputError.
    """
    kind = container or CONTAINERS[path.suffix.lower()]
    file = OutputFile(path, outputs=outputs) if container is None else StandardOutput()
    target: Any = file
    opened = av.open(target, "w", format=kind.muxer, options=dict(kind.options))
    return Muxer(path, opened, file)


def _encoded_stream(container: OutputContainer, kind: EncodedFormat) -> VideoStream:
    """A stream for images that are encoded already. PyAV takes their configuration only by way of a template, which
    is a stream that is never written to.
    """
    with av.open(io.BytesIO(), "w", format="null") as nowhere:
        template = nowhere.add_stream(kind.codec)
        if not isinstance(template, VideoStream):
            raise TypeError(f"{kind.codec} is no video codec")
        stream = container.add_stream_from_template(template)
    context = stream.codec_context
    context.width, context.height = kind.size_wh
    if kind.configuration:
        context.extradata = kind.configuration
    if kind.codec == "hevc" and container.format.name == "mp4":
        context.codec_tag = "hvc1"
    stream.time_base = kind.time_base
    return stream


def open_sender(url: str, *, codec: str, size_wh: tuple[int, int]) -> tuple[OutputContainer, Stream]:
    """A connection to an RTSP or RTMP server, and the stream to which packets encoded elsewhere belong.

    `codec` is FFmpeg's name. It connects when the first packet is muxed, which has to bring the parameter sets. That
    lets no other thread of the process run, and has no limit of time: it is for a process of its own.
    """
    kind = SENDERS[url.partition("://")[0].lower()]
    container = av.open(url, "w", format=kind.muxer, options=dict(kind.options))
    width, height = size_wh
    return container, container.add_mux_stream(codec, width=width, height=height)


class PacketFile:
    """A file of packets of one format that begins with a key frame, at time 0; opened at once.

    Times keep their distances, exactly in MP4 and to 1 ms in Matroska. What was written a second ago stays readable
    whatever ends the program, however long the groups of images are. After an OutputError it is closed and readable.
    """

    def __init__(self, path: Path, *, first: EncodedPacket, outputs: Outputs) -> None:
        self.path = path
        self.format = first.format
        self._origin = first.pts
        self._last_dts: int | None = None
        self._muxer = open_muxer(path, outputs=outputs)
        self._stream: VideoStream = self._muxer.add_encoded_stream(first.format)

    @property
    def whole_bytes(self) -> int:
        """How much of the file is complete and stays readable whatever comes."""
        return self._muxer.whole_bytes

    def write(self, packet: EncodedPacket) -> None:
        """Append a packet, in decoding order. Raises OutputError."""
        made = cast("Packet[VideoStream]", Packet(packet.data))
        made.stream = self._stream
        made.time_base = self.format.time_base
        dts = packet.dts - self._origin
        if self._last_dts is not None:
            dts = max(dts, self._last_dts + 1)
        self._last_dts = dts
        made.dts, made.pts = dts, max(packet.pts - self._origin, dts)
        made.duration = packet.duration
        made.is_keyframe = packet.is_key
        self._muxer.mux([made])

    def finish(self) -> None:
        """Write the index and close the file. Raises OutputError."""
        self._muxer.finish()
