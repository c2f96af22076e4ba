"""The files of recordings: names, messages, retention and full disks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sightline.errors import OutputError
from sightline.graph import EncodedPacket, Message, MessageKind, Site
from sightline.media import Stream
from sightline.media.events import Scalar
from sightline_plugins.encode.muxer import PacketFile
from sightline_plugins.sinks.files import Degradation
from sightline_plugins.sinks.retention import FileNames, Keep, Retention, facts_of

TIME = "{time}"
_TIMES = r"(?:\d{8}T\d{6}\.\d{3}Z|\d{2,}h\d{2}m\d{2}\.\d{3}s)"
_TIDY_BYTES = 1_000_000


@dataclass(slots=True)
class Clip:
    """An open recording: times in the stream's clock, `key` the last key frame in it."""

    file: PacketFile
    stream: Stream
    first: EncodedPacket
    key: EncodedPacket
    latest: EncodedPacket
    first_pts_ns: int
    last_pts_ns: int
    first_capture_ns: int | None
    images: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Totals:
    """Counters of one stream."""

    files: int = 0
    images: int = 0
    size_bytes: int = 0
    gaps: int = 0


class ClipStore:
    """The files of one step. A file that cannot be written is closed, a message reports the failure once, and
    recording tries again after two seconds; another message reports that it continues. Used by one thread.
    """

    def __init__(self, template: str, *, keep: Keep | None, site: Site) -> None:
        self._template = template
        self._site = site
        names = FileNames(template, {TIME: _TIMES})
        self._retention = Retention(keep, names=names, outputs=site.outputs, clock=site.clock, warn=site.warn)
        self._open: dict[Path, Clip] = {}
        self._degradation = Degradation(site)
        self._untidied_bytes = 0
        self.totals: dict[str, Totals] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a failure is so recent that recording does not try yet."""
        return self._degradation.is_waiting

    def begin(
        self, first: EncodedPacket, *, stream: Stream, first_pts_ns: int, first_capture_ns: int | None
    ) -> Clip | None:
        """Begin a new file with this key frame; None when it cannot be opened now."""
        self._tidy()
        try:
            path = self._free_path(stream, pts_ns=first_pts_ns, capture_ns=first_capture_ns)
            file = PacketFile(path, first=first, outputs=self._site.outputs)
        except OutputError as error:
            self._failed(error, stream)
            return None
        clip = Clip(file, stream, first, first, first, first_pts_ns, first_pts_ns, first_capture_ns)
        self._open[path] = clip
        self._report_start(clip)
        return clip

    def write(self, clip: Clip, packet: EncodedPacket, *, pts_ns: int) -> bool:
        """Append a packet; False when that failed and the file was closed."""
        try:
            clip.file.write(packet)
        except OutputError as error:
            self._failed(error, clip.stream)
            self._count(clip)
            return False
        if packet.is_key:
            clip.key = packet
        if packet.pts >= clip.latest.pts:
            clip.latest, clip.last_pts_ns = packet, pts_ns
        clip.images += 1
        clip.size_bytes += len(packet.data)
        self._untidied_bytes += len(packet.data)
        if clip.file.whole_bytes:
            self._degradation.succeeded(stream=clip.stream.name)
        if self._untidied_bytes >= _TIDY_BYTES:
            self._tidy()
        return True

    def finish(self, clip: Clip, *, causes: str) -> None:
        """Close a file and report it."""
        try:
            clip.file.finish()
        except OutputError as error:
            self._failed(error, clip.stream)
        else:
            self._degradation.succeeded(stream=clip.stream.name)
        if self._count(clip):
            self._report(clip, causes)
        self._tidy()

    def count_gap(self, stream: Stream) -> None:
        """Count a gap where packets were missed."""
        self.totals.setdefault(stream.name, Totals()).gaps += 1

    def _count(self, clip: Clip) -> bool:
        """Count a closed file; False when nothing is left of it."""
        path = clip.file.path
        self._open.pop(path, None)
        facts = facts_of(path)
        if facts is None:
            return False
        clip.size_bytes = facts.st_size
        totals = self.totals.setdefault(clip.stream.name, Totals())
        totals.files += 1
        totals.images += clip.images
        totals.size_bytes += facts.st_size
        self._retention.add(path, size_bytes=facts.st_size)
        return True

    def _tidy(self) -> None:
        self._untidied_bytes = 0
        self._retention.tidy(open_bytes=sum(clip.size_bytes for clip in self._open.values()))

    def _free_path(self, stream: Stream, *, pts_ns: int, capture_ns: int | None) -> Path:
        template = self._template.replace(TIME, _time_text(pts_ns=pts_ns, capture_ns=capture_ns))
        path = wanted = self._site.outputs.path(template, stream=stream.name)
        number = 1
        while path.exists() or path.is_symlink():
            number += 1
            path = wanted.with_stem(f"{wanted.stem}-{number}")
        return path

    def _report_start(self, clip: Clip) -> None:
        self._post(MessageKind.RECORDING_STARTED, f"recording to {clip.file.path}", clip, _begin_of(clip))

    def _report(self, clip: Clip, causes: str) -> None:
        data = _begin_of(clip) | {
            "last_pts_ns": clip.last_pts_ns,
            "images": clip.images,
            "size_bytes": clip.size_bytes,
        }
        if causes:
            data["causes"] = causes
        seconds = (clip.last_pts_ns - clip.first_pts_ns) / 1e9
        text = f"recorded {clip.images} images, {seconds:.1f} s, to {clip.file.path}{f' ({causes})' if causes else ''}"
        self._post(MessageKind.RECORDING, text, clip, data)

    def _post(self, kind: MessageKind, text: str, clip: Clip, data: dict[str, Scalar]) -> None:
        self._site.post(Message(kind, text, stream=clip.stream.name, element=self._site.element_id, data=data))

    def _failed(self, error: OutputError, stream: Stream) -> None:
        self._degradation.failed(error, stream=stream.name, at_once=self._retention.make_room())


def _begin_of(clip: Clip) -> dict[str, Scalar]:
    """The file of a recording, and when it begins."""
    data: dict[str, Scalar] = {"path": str(clip.file.path), "first_pts_ns": clip.first_pts_ns}
    return data if clip.first_capture_ns is None else data | {"first_capture_ns": clip.first_capture_ns}


def _time_text(*, pts_ns: int, capture_ns: int | None) -> str:
    """The UTC time of day if known, else the time in the stream; names sort by time."""
    if capture_ns is not None:
        moment = datetime.fromtimestamp(capture_ns // 1_000_000 / 1_000, UTC)
        return f"{moment:%Y%m%dT%H%M%S}.{capture_ns // 1_000_000 % 1_000:03d}Z"
    milliseconds = max(pts_ns, 0) // 1_000_000
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}h{minutes % 60:02d}m{rest // 1_000:02d}.{rest % 1_000:03d}s"
