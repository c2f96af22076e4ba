"""Choose an encoder, and record one video file with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaError, DeviceUnavailable, OutputError
from sightline.graph.outputs import Outputs
from sightline.media import Frame, Memory, Surface
from sightline_plugins.encode.cpu import CpuEncoder
from sightline_plugins.encode.muxer import Muxer, open_muxer
from sightline_plugins.encode.nvenc import NvencEncoder, reason_against
from sightline_plugins.encode.nvenc_library import NvencLibrary, library_for
from sightline_plugins.encode.settings import (
    LONGEST_GAP_NS,
    Container,
    EncoderChoice,
    EncoderError,
    EncoderSettings,
    ImageEncoder,
    Layout,
    ticks_from_ns,
)

EncoderName: TypeAlias = Literal["auto", "cpu", "nvenc"]


class Encoders:
    """Opens the encoders of one step; for one thread at a time.

    `auto` is the GPU's encoder for images in its memory, where it has one that can; `nvenc` is the GPU's for all, and
    what speaks against that is an error.
    """

    def __init__(self, wanted: EncoderName, *, settings: EncoderSettings, gpu: CudaDevice | None) -> None:
        """Raises DeviceUnavailable for `nvenc` where there is no such encoder."""
        self.settings = settings
        self._wanted = wanted
        self._gpu = gpu
        if wanted == "nvenc" and isinstance(library := self._library, str):
            raise DeviceUnavailable(f"encoder: nvenc cannot be used: {library}; write encoder: auto")

    def open(self, muxer: Muxer, *, first: Surface) -> ImageEncoder:
        """An encoder for images like this one, its stream added to the container. Raises EncoderError."""
        reason = self._reason_against(first)
        if reason is None:
            try:
                return self._opened(muxer, first)
            except EncoderError as error:
                reason = f"NVENC: {error}"
        if self._wanted == "nvenc":
            raise EncoderError(f"{reason}; write encoder: auto")
        return CpuEncoder(muxer, first=first, settings=self.settings, reason=reason)

    @cached_property
    def _library(self) -> NvencLibrary | str:
        """The GPU's encoder, or why there is none."""
        if self._gpu is None:
            return "this run has no GPU"
        try:
            return library_for(self._gpu)
        except EncoderError as error:
            return str(error)

    def _reason_against(self, first: Surface) -> str | None:
        """Why NVENC does not encode it; None when it does, empty when nobody would expect it to."""
        if self._wanted == "cpu" or self._gpu is None:
            return ""
        if self._wanted == "auto" and first.memory is Memory.HOST:
            return "its images lie in host memory"
        library = self._library
        if isinstance(library, str):
            return library
        return reason_against(first, codec=self.settings.codec, library=library)

    def _opened(self, muxer: Muxer, first: Surface) -> NvencEncoder:
        assert self._gpu is not None
        assert isinstance(self._library, NvencLibrary)
        return NvencEncoder(muxer, first=first, settings=self.settings, library=self._library, gpu=self._gpu)


_NS_PER_SECOND = 1_000_000_000


class Recording:
    """One file, opened at once and written frame by frame; with a `container` for pipes, standard output.

    Timestamps are kept. Two rules of the containers make exceptions, each reported once through `warn`: time cannot
    be negative, so a stream that starts before 0 is moved to 0; and it must grow, so a frame that is not later than
    the one before it comes one tick after it. After an OutputError the file is closed and readable, every further
    `write` raises again, and `finish` does nothing.
    """

    def __init__(
        self,
        path: Path,
        *,
        first: Surface,
        encoders: Encoders,
        outputs: Outputs,
        warn: Callable[[str], None],
        container: Container | None = None,
    ) -> None:
        self.path = path
        self.layout = Layout.of(first)
        self._gop_ns = encoders.settings.gop_ns
        self._warn = warn
        self._failure: OutputError | None = None
        self._frames = 0
        self._offset_ticks: int | None = None
        self._last_ticks = -1
        self._next_key_ns: int | None = None
        self._last_pts_ns: int | None = None
        self._is_piped = container is not None
        self._time_warned = False
        self._muxer: Muxer = open_muxer(path, outputs=outputs, container=container)
        with self._muxer.guard("encode video to"):
            self._encoder: ImageEncoder = encoders.open(self._muxer, first=first)

    @property
    def encoder(self) -> EncoderChoice:
        """Which encoder it has, and why."""
        return self._encoder.choice

    @property
    def is_readable(self) -> bool:
        """Whether the file holds frames already, those that it will still hold after a crash."""
        return self._muxer.whole_bytes > 0

    @property
    def missing_frames(self) -> int:
        """How many of the frames given to it are not, or not yet, in the file; of a failed one they never will be."""
        return self._frames - self._muxer.whole_packets

    def reaches(self, pts_ns: int) -> bool:
        """Whether a frame of that time can follow in the same file."""
        return self._is_piped or self._last_pts_ns is None or pts_ns - self._last_pts_ns <= LONGEST_GAP_NS

    def write(self, frame: Frame) -> None:
        """Encode one frame, perhaps later. Raises OutputError, CudaError."""
        if self._failure is not None:
            raise self._failure
        self._frames += 1
        self._last_pts_ns = frame.pts_ns
        ticks, is_key = self._ticks(frame.pts_ns), self._is_key(frame.pts_ns)
        try:
            with self._muxer.guard("encode video to"):
                packets = self._encoder.encode(frame.surface, ticks=ticks, is_key=is_key)
            self._muxer.mux(packets)
        except OutputError as error:
            self._failure = error
            self._encoder.close()
            raise

    def finish(self) -> None:
        """Write what the encoder still holds, and the index; close the file. Raises OutputError or CudaError, once;
        what was encoded is in the file.
        """
        if self._failure is not None:
            return
        self._failure = OutputError(f"cannot write {self.path}: it is closed")
        try:
            self._write_rest()
        except OutputError as error:
            self._failure = error
            raise
        finally:
            self._encoder.close()

    def _write_rest(self) -> None:
        try:
            self._mux(self._rest())
        except CudaError:
            self._mux(self._rest())
            raise
        finally:
            self._muxer.finish()

    def _rest(self) -> Sequence[Packet[VideoStream]]:
        with self._muxer.guard("encode video to"):
            return self._encoder.finish()

    def _mux(self, packets: Sequence[Packet[VideoStream]]) -> None:
        if packets:
            self._muxer.mux(packets)

    def _ticks(self, pts_ns: int) -> int:
        ticks = ticks_from_ns(pts_ns)
        if self._offset_ticks is None:
            self._offset_ticks = max(0, -ticks)
            if self._offset_ticks:
                self._warn(f"the stream starts at {pts_ns / _NS_PER_SECOND:.3f} s; {self.path} starts at 0 instead")
        ticks += self._offset_ticks
        if ticks <= self._last_ticks:
            if not self._time_warned:
                self._warn(f"the time of a frame does not grow ({pts_ns} ns); {self.path} puts it after the last one")
                self._time_warned = True
            ticks = self._last_ticks + 1
        self._last_ticks = ticks
        return ticks

    def _is_key(self, pts_ns: int) -> bool:
        if self._next_key_ns is not None and pts_ns < self._next_key_ns:
            return False
        first_ns = pts_ns if self._next_key_ns is None else self._next_key_ns
        self._next_key_ns = pts_ns + self._gop_ns - (pts_ns - first_ns) % self._gop_ns
        return True
