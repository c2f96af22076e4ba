"""Read a pipe from its first byte to its end, once."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING

from sightline.errors import StreamUnreadable
from sightline.graph import Site, SourceReader
from sightline.media import Altered, Frame, Stream
from sightline_plugins.decode.decoder import DecoderChoice, DecodeSettings
from sightline_plugins.decode.failures import unreadable
from sightline_plugins.decode.open_media import OpenOptions
from sightline_plugins.decode.packet_tap import tap_for
from sightline_plugins.decode.pipe_input import PipeInput
from sightline_plugins.decode.timestamps import RateLimit
from sightline_plugins.decode.video import VideoDecoder

if TYPE_CHECKING:
    from sightline_plugins.sources.pipe.element import Pipe

_MP4 = b"ftyp"


class PipeReader(SourceReader):
    """The one attempt at reading a pipe. `stop` ends it also while nothing comes."""

    def __init__(self, element: Pipe, *, stream: Stream, site: Site) -> None:
        self._element = element
        self._stream = stream
        self._site = site
        self._tap = tap_for(stream, site=site)
        self._warned: set[str] = set()
        self._input: PipeInput | None = None
        self._decoder: VideoDecoder | None = None
        self._lock = Lock()
        self._limit = RateLimit(element.max_fps) if element.max_fps else None

    def frames(self) -> Iterator[Frame]:
        """Yield the frames to the end of the pipe."""
        piped = self._open_input()
        if piped is None:
            return
        try:
            self._decoder = self._open(piped)
            yield from self._frames(self._decoder)
            if not self.is_stopping:
                self._check_end(self._decoder, piped)
        except StreamUnreadable:
            if self.is_stopping:
                return
            self._explain(piped)
            raise

    def stop(self) -> None:
        """Ask for no more frames, also while the pipe is waited for. From any thread."""
        with self._lock:
            self.is_stopping = True
            if self._input is not None:
                self._input.stop()

    def close(self) -> None:
        """Close the pipe; the process keeps its standard input."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None
        with self._lock:
            piped, self._input = self._input, None
        if piped is not None:
            piped.close()

    def _open_input(self) -> PipeInput | None:
        with self._lock:
            if not self.is_stopping:
                self._input = PipeInput(self._element.uri, stream=self._stream.name)
            return self._input

    def _open(self, piped: PipeInput) -> VideoDecoder:
        element = self._element
        decoder = VideoDecoder(
            element.uri,
            stream=self._stream.name,
            options=OpenOptions(
                max_pixels=element.max_pixels,
                piped=piped,
                container_format=None if element.raw is None else "rawvideo",
                demuxer=element.demuxer_options(),
            ),
            number=element.stream_index,
            decoding=DecodeSettings(element.threads, element.orientation, self._site.gpu, element.verify_nvdec),
            warn=self._warn_once,
            on_damage=self._count_damage,
            on_choice=self._note_choice,
            tap=self._tap,
        )
        self.audio = decoder.audio_codec
        return decoder

    def _frames(self, decoder: VideoDecoder) -> Iterator[Frame]:
        timestamps, index = decoder.timestamps(), 0
        for image in decoder.images():
            pts_ns = timestamps.next_ns(image.pts, image.dts)
            self.repaired_timestamps = timestamps.repairs
            if self._limit is not None and not self._limit.takes(pts_ns):
                self.skipped_frames += 1
                continue
            yield Frame(
                self._stream,
                index,
                pts_ns,
                image.surface(),
                damaged=image.is_corrupt,
                packet=image.packet,
                altered=Altered.CHANGED if image.is_turned else Altered.NO,
            )
            index += 1
            if self.is_stopping:
                return

    def _explain(self, piped: PipeInput) -> None:
        """Raise a better error than that of FFmpeg for a pipe without a frame, where there is one."""
        cause = None
        if not piped.received_bytes:
            cause = "it ended without a byte; look at what the program that writes into it reports"
        elif piped.head[4:8] == _MP4:
            cause = (
                "it is an MP4 whose index is at its end, which a pipe cannot go back for; write it in fragments "
                "(ffmpeg -movflags frag_keyframe+empty_moov), or as MPEG-TS or Matroska (-f mpegts, -f matroska)"
            )
        if cause is not None:
            raise unreadable(cause, stream=self._stream.name, uri=self._element.uri) from None

    def _check_end(self, decoder: VideoDecoder, piped: PipeInput) -> None:
        whole = self._element.frame_bytes
        if whole is None:
            decoder.check_end(last_ns=None)
            return
        rest = piped.received_bytes % whole
        facts = f"{self._element.raw} of {'{}x{}'.format(*self._element.size or ())} has {whole} bytes"
        if piped.received_bytes < whole:
            cause = f"it ended after {rest} bytes, and a frame in {facts}; check size and raw"
            raise unreadable(cause, stream=self._stream.name, uri=self._element.uri)
        if rest:
            cause = f"its last frame is cut off: {rest} bytes came, and a frame in {facts}"
            self._warn_once(f"{cause}; if its images look skewed, check size and raw")

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._site.warn(f"{self._element.uri}: {text}", stream=self._stream.name)

    def _count_damage(self) -> None:
        self.damaged_packets += 1

    def _note_choice(self, choice: DecoderChoice) -> None:
        self.decoder, self.decoder_reason = choice.name, choice.reason
