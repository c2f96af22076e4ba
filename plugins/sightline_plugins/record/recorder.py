"""The operator of `record`: watches the events and objects of each stream, and records them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sightline.graph import EncodedPacket, Sink, Site
from sightline.graph.fields import matching
from sightline.media import Batch, FrameView, Stream
from sightline_plugins.record.clip_store import ClipStore
from sightline_plugins.record.record import causes
from sightline_plugins.record.stream_recorder import StreamRecorder

if TYPE_CHECKING:
    from sightline_plugins.record.record import Record

_BEHIND_NS = 5_000_000_000
"""How far a pipeline may be behind its source without missing a packet."""
_EVERYTHING_NS = 1 << 62
_LONG_MISSING_NS = 20_000_000_000
REQUEST = "request"
_MOST_REQUESTS = 1_000
"""Older ones, for streams that never come, are dropped."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to record a stream, around the packet that was the newest at that time."""

    stream: str
    newest: EncodedPacket | None
    before_ns: int
    after_ns: int


@dataclass(slots=True)
class _Missing:
    """Frames have come without packets since that time of the stream."""

    since_ns: int
    text: str
    is_reported: bool = False


class Recorder(Sink):
    """Keeps a recorder for each stream. `request` may be called from any thread."""

    def __init__(self, element: Record, site: Site) -> None:
        self._element = element
        self._site = site
        self._clip_store = ClipStore(element.path, keep=element.keep, site=site)
        self._streams: dict[Stream, StreamRecorder] = {}
        self._requests: deque[_Request] = deque(maxlen=_MOST_REQUESTS)
        self._missing: dict[Stream, _Missing] = {}
        self._wanted = site.packets.want(
            element.streams, duration_ns=element.before + _BEHIND_NS, limit_bytes=element.memory
        )

    def request(self, stream: str, *, before_ns: int | None = None, after_ns: int | None = None) -> bool:
        """Record a stream from `before_ns` before now to `after_ns` after it; default: the options of the step.

        Returns False when the step does not work on that stream.
        """
        if not matching(self._element.streams, (stream,)):
            return False
        known = next((one for one in list(self._streams) if one.name == stream), None)
        newest = None if known is None else self._site.packets.of(known).newest()
        before = self._element.before if before_ns is None else before_ns
        after = self._element.after if after_ns is None else after_ns
        self._requests.append(_Request(stream, newest, before, after))
        return True

    def consume(self, batch: Batch) -> None:
        """Start recordings for the events and objects on these frames, and write packets."""
        for view in batch:
            recorder = self._recorder(view)
            if recorder is None:
                continue
            for cause in causes(view, self._element.on or ()):
                recorder.want(before_ns=self._element.before, after_ns=self._element.after, cause=cause)
            self._take_requests(view.stream, recorder)
            recorder.advance()

    def end_stream(self, stream: Stream) -> None:
        """Write the last packets, and close the stream's file."""
        recorder = self._streams.pop(stream, None)
        missing = self._missing.pop(stream, None)
        if missing is not None and recorder is None:
            self._warn(stream, missing)
        if recorder is not None:
            self._take_requests(stream, recorder)
            recorder.end()

    def totals(self) -> Mapping[str, Any]:
        """By stream: `files`, `images`, `size_bytes`, and `gaps` where packets were missed."""
        return {stream: asdict(totals) for stream, totals in self._clip_store.totals.items()}

    def close(self) -> None:
        """Close all files."""
        for stream in list(self._streams):
            self.end_stream(stream)
        self._wanted.close()

    def _recorder(self, view: FrameView) -> StreamRecorder | None:
        """The recorder of a frame's stream; None when the frame's packet is not in memory."""
        stream = view.stream
        if view.frame.packet is None:
            self._miss(view, "its source hands on no encoded images: use `video`, which encodes")
            return None
        recorder = self._streams.get(stream)
        if recorder is None:
            ring, longest_ns = self._site.packets.of(stream), self._element.segment or self._element.longest
            recorder = StreamRecorder(stream, ring=ring, clip_store=self._clip_store, longest_ns=longest_ns)
        if not recorder.see(view.frame):
            self._miss(
                view,
                "packets were evicted before they could be recorded because the pipeline is behind: raise `memory`",
            )
            return None
        self._missing.pop(stream, None)
        if stream not in self._streams:
            self._streams[stream] = recorder
            if self._element.segment is not None:
                recorder.want(before_ns=_EVERYTHING_NS, after_ns=None, cause="")
        return recorder

    def _take_requests(self, stream: Stream, recorder: StreamRecorder) -> None:
        for _ in range(len(self._requests)):
            wanted = self._requests.popleft()
            if wanted.stream == stream.name:
                recorder.want(at=wanted.newest, before_ns=wanted.before_ns, after_ns=wanted.after_ns, cause=REQUEST)
            else:
                self._requests.append(wanted)

    def _miss(self, view: FrameView, text: str) -> None:
        """Note a frame without a packet, and warn when that lasts: at first packets may not be requested yet."""
        missing = self._missing.setdefault(view.stream, _Missing(view.pts_ns, text))
        if view.pts_ns - missing.since_ns >= _LONG_MISSING_NS:
            self._warn(view.stream, missing)

    def _warn(self, stream: Stream, missing: _Missing) -> None:
        if not missing.is_reported:
            missing.is_reported = True
            self._site.warn(missing.text, stream=stream.name)
