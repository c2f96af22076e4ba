"""Open media with PyAV under limits. The only caller of `av.open` for reading.

Protocols and formats come from allow-lists that depend on the scheme, images have a limit of pixels when they are
probed and when they are decoded, and what comes over a network has time limits. Files are opened as `file:PATH`, so
that no part of a path is taken for a protocol (`concat:`, `subfile,`, `data:`).

A container belongs to the thread that opened it, until that thread has closed it: closing it from another one while
a read is under way crashes the process.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

import av
import av.error
from av.container import InputContainer
from av.video.stream import VideoStream

from sightline.graph.fields import is_url
from sightline.graph.networks import Networks
from sightline.graph.site import Clock
from sightline_plugins.decode.failures import TIME_LIMITS, failure, refused, stalled, unreadable
from sightline_plugins.decode.kinds import DEFAULT_MAX_PIXELS, PROTOCOLS, is_device
from sightline_plugins.decode.pipe_input import PIPE_BYTES, PipeInput
from sightline_plugins.decode.places import CheckedPlace, checked_place

_CONNECTING_SECONDS = 5.0
_LONGEST_WAIT_SECONDS = 1.8
_SHORTEST_WAIT_SECONDS = 0.02
_MARGIN = 0.95
"""A stall is told a little before its time, so that it is known when the time is over."""
_FLUSHED = 0.9
"""A read that gave a packet only at its limit had it all the time: FFmpeg lets go of its last image then."""


class Seconds:
    """A number of seconds that is asked for anew whenever it is used: PyAV does so whenever it begins to wait."""

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask

    def __float__(self) -> float:
        return self._ask()


class Waits:
    """The limits of one live input; for the thread that reads it.

    Where a read can go on after its limit (`resumable`: RTSP) it waits in short pieces, so that somebody can end it;
    elsewhere it waits once, for half of the limit, which shows a stall after the whole. `limit_ns` is asked for how
    long nothing may come.
    """

    def __init__(self, clock: Clock, *, limit_ns: Callable[[], int], resumable: bool) -> None:
        self._clock = clock
        self._limit_ns = limit_ns
        self.resumable = resumable
        self._asked_ns: int | None = None
        self._phases = 0
        self._waiting_since_ns = self._heard_ns = clock.monotonic_ns()
        self._wait_seconds = 0.0

    @property
    def opening(self) -> Seconds:
        """How long a step of opening may take."""
        return Seconds(self._opening_seconds)

    @property
    def reading(self) -> Seconds:
        """How long a read may take."""
        return Seconds(self._reading_seconds)

    @property
    def is_connected(self) -> bool:
        """Whether the server has answered: what is waited for now are its images."""
        return self._phases > 1

    @property
    def is_over(self) -> bool:
        """Whether nothing has come for too long."""
        return not self.resumable or self._left_seconds() <= 0

    @property
    def have_changed(self) -> bool:
        """Whether `reading` must be asked for again: the limit is another one, or most of it is over."""
        return self._asked_ns != self._limit_ns()

    def connect_again(self) -> None:
        """Another connection begins: nothing has answered in it."""
        self._phases = 0

    def begin(self) -> None:
        """A wait begins."""
        self._waiting_since_ns = self._clock.monotonic_ns()

    def heard(self) -> None:
        """Something came."""
        now_ns = self._clock.monotonic_ns()
        if (now_ns - self._waiting_since_ns) / 1e9 < _FLUSHED * self._wait_seconds:
            self._heard_ns = now_ns
        else:
            self._heard_ns = self._waiting_since_ns
            self._asked_ns = None  # less is left than before this read

    def _opening_seconds(self) -> float:
        self._phases += 1
        return self._limit_ns() / 1e9 if self.is_connected else _CONNECTING_SECONDS

    def _reading_seconds(self) -> float:
        self._asked_ns = self._limit_ns()
        if self.resumable:
            self._wait_seconds = min(max(self._left_seconds(), _SHORTEST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)
        else:
            self._wait_seconds = self._limit_ns() / 2e9
        return self._wait_seconds

    def _left_seconds(self) -> float:
        return (self._heard_ns + _MARGIN * self._limit_ns() - self._clock.monotonic_ns()) / 1e9


_CONTAINERS: tuple[str, ...] = (
    *("mov", "matroska", "avi", "flv", "live_flv", "mpegts", "mpeg", "mpegvideo", "asf", "ogg", "mxf", "gxf", "nut"),
    *("dv", "rm", "wtv", "ivf", "obu", "av1", "h261", "h263", "h264", "hevc", "vvc", "m4v", "vc1", "vc1test", "dirac"),
    *("cavsvideo", "avs2", "avs3", "mjpeg", "mpjpeg", "gif", "apng", "yuv4mpegpipe"),
)
"""The formats that hold video themselves. Left out: formats that are not video, that turn any text into video, that run
scripts (`concat`) or that name other inputs.
"""
_PLAYLISTS = ("http", "https")
"""The schemes over which a playlist (HLS) is read: it names other addresses of these schemes."""


def _formats(scheme: str, *, is_confined: bool) -> tuple[str, ...]:
    """Return the formats that are read over a scheme; a playlist leads to other servers."""
    if scheme in ("rtsp", "rtsps"):
        return ("rtsp",)
    if scheme == "rtp":
        return ("rtp", *_CONTAINERS)
    return (*_CONTAINERS, "hls") if scheme in _PLAYLISTS and not is_confined else _CONTAINERS


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """How an input is opened.

    `piped` is read instead of what the address names, which then stands in errors only; no protocol is used for it.

    `stall_ns` is after how long without data a network input counts as lost; `waits` has limits of its own in its
    place. `live` inputs are probed as briefly as possible, and what is wrong with them may be right at the next
    attempt. `demuxer` holds more options of the demuxer; when the server refuses the transport, those in `transports`
    replace some of them in turn, each in a connection of its own. `container_format` names the format where it cannot
    be found out. `networks` are those that the input may be read from.
    """

    max_pixels: int = DEFAULT_MAX_PIXELS
    stall_ns: int = 10_000_000_000
    waits: Waits | None = None
    live: bool = False
    piped: PipeInput | None = None
    container_format: str | None = None
    demuxer: Mapping[str, str] = field(default_factory=dict)
    transports: tuple[Mapping[str, str], ...] = ()
    networks: Networks | None = None


def scheme_of(uri: str) -> str:
    """The scheme of a URL in lower case; `file` for a path."""
    return uri.partition("://")[0].lower() if is_url(uri) else "file"


def open_media(uri: str, *, stream: str, options: OpenOptions) -> InputContainer:
    """Open a file or URL for reading; `stream` names it in errors.

    Raises StreamUnreadable when it does not exist, is no video, is too large or is refused, and StreamLost when its
    server cannot be reached or broke off. StreamRefused when it is not in `networks`, or leads to somewhere else.
    """
    scheme = scheme_of(uri)
    if scheme not in PROTOCOLS:
        allowed = ", ".join(PROTOCOLS)
        raise unreadable(f"the scheme {scheme!r} is not allowed; allowed are {allowed}", stream=stream, uri=uri)
    networks, named, piped = options.networks, options.container_format, options.piped
    place = None if networks is None else checked_place(uri, networks=networks, stream=stream)
    formats = _formats(scheme, is_confined=place is not None) if named is None else (named,)
    demuxer = {
        "protocol_whitelist": _protocols(scheme, place=place, piped=piped),
        "format_whitelist": ",".join(formats),
        "max_pixels": str(options.max_pixels),
        **options.demuxer,
        **({} if place is None else place.options),
    }
    if options.live:
        demuxer.setdefault("analyzeduration", "100000")
    begun = monotonic()
    opened: Any = piped
    if piped is None:
        opened = _address(uri, scheme=scheme, stream=stream) if place is None else place.address
    try:
        container: InputContainer = av.open(
            opened,
            "r",
            format=named,
            options=demuxer,
            metadata_errors="replace",
            timeout=None if scheme == "file" else _limits(options),
            buffer_size=PIPE_BYTES,
        )
        return container
    except (av.error.FFmpegError, OSError) as error:
        waits = options.waits
        if place is not None and (isinstance(error, av.error.ArgumentError) or error.errno == errno.EIO):
            cause = "it redirects, which its networks do not allow (name that address itself), or the connection failed"
            raise refused(f"{cause} ({error.strerror})", stream=stream, uri=uri) from None
        if options.transports and getattr(error, "errno", None) == errno.EPROTONOSUPPORT:
            first, *others = options.transports
            if waits is not None:
                waits.connect_again()
            again = replace(options, demuxer={**options.demuxer, **first}, transports=tuple(others))
            return open_media(uri, stream=stream, options=again)
        if waits is not None and waits.is_connected and isinstance(error, TIME_LIMITS):
            cause = "its server answers, but no image came within the time limit (stall_timeout)"
            raise stalled(cause, stream=stream, uri=uri) from None
        raise failure(
            error,
            stream=stream,
            uri=uri,
            live=options.live,
            took_seconds=monotonic() - begun,
            transport=options.demuxer.get("rtsp_transport"),
        ) from None


def video_stream(container: InputContainer, *, number: int, stream: str, uri: str, options: OpenOptions) -> VideoStream:
    """The video stream of that number (cover images do not count), ready to be decoded under the same limits.

    All other streams are left unread. Raises StreamUnreadable when there is none, or when it is too large.
    """
    attached = av.stream.Disposition.attached_pic
    found = [video for video in container.streams.video if not video.disposition & attached]
    if not found:
        raise unreadable("it holds no video (audio only, or nothing)", stream=stream, uri=uri)
    if number >= len(found):
        raise unreadable(
            f"it has {len(found)} video stream(s), numbered from 0; there is no number {number}", stream=stream, uri=uri
        )
    chosen = found[number]
    if chosen.codec_context is None:
        raise unreadable("FFmpeg here has no decoder for it; convert it to H.264", stream=stream, uri=uri)
    _check_size(chosen, stream=stream, uri=uri, options=options)
    for other in container.streams:
        if other.index != chosen.index:
            other.discard = av.stream.Discard.all
    chosen.codec_context.options = {"max_pixels": str(options.max_pixels)}
    return chosen


def _check_size(video: VideoStream, *, stream: str, uri: str, options: OpenOptions) -> None:
    pixels = video.codec_context.width * video.codec_context.height
    if pixels > options.max_pixels or (pixels == 0 and not options.live):
        raise unreadable(
            f"its images are larger than {options.max_pixels} pixels, or of no size; "
            "if they are meant to be, raise max_pixels",
            stream=stream,
            uri=uri,
        )


def _protocols(scheme: str, *, place: CheckedPlace | None, piped: PipeInput | None) -> str:
    """What FFmpeg may open by itself; what comes through a pipe leads nowhere."""
    if piped is not None:
        return "none"
    return ",".join(PROTOCOLS[scheme] if place is None else place.protocols)


def _limits(options: OpenOptions) -> tuple[float, float]:
    """Seconds for opening and for each read; a read limit of t shows a stall after 2 t."""
    if options.waits is not None:
        # PyAV turns them into numbers whenever it begins to wait.
        return options.waits.opening, options.waits.reading  # type: ignore[return-value]
    return options.stall_ns / 1e9, options.stall_ns / 2e9


def _address(uri: str, *, scheme: str, stream: str) -> str:
    if is_device(uri):
        return uri
    return _file_address(uri, stream) if scheme == "file" else f"{scheme}{uri[len(scheme) :]}"  # FFmpeg wants rtsp://


def _file_address(uri: str, stream: str) -> str:
    path = Path(unquote(urlsplit(uri).path)) if is_url(uri) else Path(uri)
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        raise unreadable("there is no such file; check the path", stream=stream, uri=uri) from None
    if stat.S_ISDIR(kind):
        raise unreadable("it is a folder; name a file", stream=stream, uri=uri)
    if not stat.S_ISREG(kind):
        raise unreadable("it is a pipe or device; only ordinary files and URLs are read", stream=stream, uri=uri)
    if path.stat().st_size == 0:
        raise unreadable("the file is empty", stream=stream, uri=uri)
    return f"file:{path}"
