"""What Rerun's SDK makes of frames, in bytes that can be appended to one file.

Only what has rerun-sdk imports this module. The SDK can write files itself, but when a disk is full it reports nothing
and waits for ever; so it encodes into memory, and our own files take it.

Each time it is asked, it gives a whole file: a header of 12 bytes, messages with their kind and length, and an index.
Messages of several such files may follow each other behind one header; their indexes would be wrong and are left out.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import rerun as rr

from sightline.errors import ConfigurationError
from sightline.media import FrameView, Objects, Overlay, Stream

_APPLICATION = "sightline"
_MAGIC = b"RRF2"
_HEADER_BYTES = 12
_MESSAGE = struct.Struct("<QQ")
_END = 0
_MOST_CLASSES = 1 << 16
_MOST_TRAIL = 512
"""Points of the way of one track."""


def messages_of(data: bytes) -> bytes:
    """The messages of an RRD file, without its header and its index. Raises ConfigurationError for another format."""
    if not data:
        return b""
    if data[: len(_MAGIC)] != _MAGIC:
        raise ConfigurationError(f"rerun-sdk {rr.__version__} writes a format that is not known here: install another")
    at = _HEADER_BYTES
    while at + _MESSAGE.size <= len(data):
        kind, size = _MESSAGE.unpack_from(data, at)
        if kind == _END:
            break
        at += _MESSAGE.size + size
    return data[_HEADER_BYTES:at]


@dataclass(slots=True)
class _StreamState:
    """What the recording knows of a stream: ways of tracks (pts_ns, x, y), and what was shown last."""

    path: str
    trails: dict[int, deque[tuple[int, float, float]]] = field(default_factory=dict)
    overlays: tuple[Overlay, ...] = ()
    counted: set[str] = field(default_factory=set)
    had_keypoints: bool = False


class Recording:
    """A recording of one stream or several. Used by one thread; the SDK has threads of its own.

    `header` is what a file begins with.
    """

    def __init__(self, *, trail_ns: int) -> None:
        self._trail_ns = trail_ns
        self._stream = rr.RecordingStream(_APPLICATION)
        self._stream.set_log_tick_enabled(False)
        self._stream.set_log_time_enabled(False)
        self._encoded = self._stream.binary_stream()
        self._classes: dict[str, int] = {}
        self._states: dict[Stream, _StreamState] = {}
        first = self._encoded.read() or b""
        self.header = first[:_HEADER_BYTES] + messages_of(first)

    def take(self) -> bytes:
        """Return the messages of all that was logged since the last call."""
        return messages_of(self._encoded.read() or b"")

    def forget(self, stream: Stream) -> None:
        """The stream has ended; what is known of it goes."""
        self._states.pop(stream, None)

    def close(self) -> None:
        """End the SDK's threads; what was not taken is lost."""
        self._stream.disconnect()

    def log(self, view: FrameView, *, image: bytes | None) -> int:
        """Log a frame, with its image as JPEG if there is one; return roughly how many bytes that takes."""
        state = self._states.get(view.stream)
        if state is None:
            state = self._states[view.stream] = _StreamState(rr.escape_entity_path_part(view.stream.name))
        self._set_time(view)
        if image is not None:
            self._log(state, "image", rr.EncodedImage(contents=image, media_type="image/jpeg"))
        objects = view.objects
        labels = objects.labels()
        numbers = self._numbers(labels)
        self._log_objects(state, objects, labels=labels, numbers=numbers)
        self._log_trails(state, view, numbers=numbers)
        self._log_keypoints(state, objects, numbers=numbers)
        self._log_rules(state, view)
        for event in view.events:
            data = ", ".join(f"{key} {value}" for key, value in event.data.items())
            self._log(state, "events", rr.TextLog(f"{event.rule}: {event.kind} {data}".rstrip(), level="INFO"))
        return 512 + len(image or b"") + 96 * len(objects)

    def _log(self, state: _StreamState, name: str, what: Any) -> None:
        self._stream.log(f"{state.path}/{name}", what)

    def _set_time(self, view: FrameView) -> None:
        self._stream.set_time("frame", sequence=view.index)
        self._stream.set_time("pts", duration=np.timedelta64(view.pts_ns, "ns"))
        if view.capture_ns is not None:
            self._stream.set_time("time", timestamp=np.datetime64(view.capture_ns, "ns"))

    def _numbers(self, labels: list[str]) -> npt.NDArray[np.uint16]:
        """The class number (N,) of each label, which colours go by; new labels are logged with their numbers."""
        new = [label for label in dict.fromkeys(labels) if label not in self._classes]
        if new:
            self._classes |= {label: len(self._classes) + place for place, label in enumerate(new)}
            known = [
                rr.AnnotationInfo(id=number, label=label)
                for label, number in self._classes.items()
                if number < _MOST_CLASSES
            ]
            self._stream.log("/", rr.AnnotationContext(known), static=True)
        return np.array([self._classes[label] % _MOST_CLASSES for label in labels], np.uint16)

    def _log_objects(
        self, state: _StreamState, objects: Objects, *, labels: list[str], numbers: npt.NDArray[np.uint16]
    ) -> None:
        tracks, confidences = objects.track_id.tolist(), objects.confidence.tolist()
        texts = [
            f"{label}{'' if track < 0 else f' #{track}'} {confidence:.2f}"
            for label, track, confidence in zip(labels, tracks, confidences, strict=True)
        ]
        boxes = rr.Boxes2D(array=objects.xyxy, array_format=rr.Box2DFormat.XYXY, labels=texts, class_ids=numbers)
        self._log(state, "image/objects", boxes)
        present = {label: labels.count(label) for label in dict.fromkeys(labels)}
        for label in state.counted | present.keys():
            self._log(state, f"count/{rr.escape_entity_path_part(label)}", rr.Scalars(present.get(label, 0)))
        state.counted |= present.keys()

    def _log_trails(self, state: _StreamState, view: FrameView, *, numbers: npt.NDArray[np.uint16]) -> None:
        """Log where the middle of the lower edge of each track was lately; others are forgotten after that time."""
        objects = view.objects
        if not self._trail_ns or (not state.trails and not (objects.track_id >= 0).any()):
            return
        since_ns = view.pts_ns - self._trail_ns
        here: dict[int, int] = {}
        feet_x, feet_y = (objects.xyxy[:, 0] + objects.xyxy[:, 2]) / 2, objects.xyxy[:, 3]
        for track, x, y, number in zip(
            objects.track_id.tolist(), feet_x.tolist(), feet_y.tolist(), numbers.tolist(), strict=True
        ):
            if track >= 0:
                here[track] = number
                state.trails.setdefault(track, deque(maxlen=_MOST_TRAIL)).append((view.pts_ns, x, y))
        for track, points in list(state.trails.items()):
            while points and points[0][0] < since_ns:
                points.popleft()
            if not points:
                del state.trails[track]
        shown = {track: number for track, number in here.items() if len(state.trails.get(track, ())) > 1}
        strips = [np.array(state.trails[track], np.float64)[:, 1:].astype(np.float32) for track in shown]
        self._log(state, "image/tracks", rr.LineStrips2D(strips, class_ids=list(shown.values())))

    def _log_keypoints(self, state: _StreamState, objects: Objects, *, numbers: npt.NDArray[np.uint16]) -> None:
        points = objects.extra.get("keypoints")
        if points is None and not state.had_keypoints:
            return
        state.had_keypoints = points is not None
        flat = np.empty((0, 2), np.float32)
        classes = numbers[:0]
        if points is not None:
            there = ~np.isnan(points[..., 0])
            flat, classes = points[there][:, :2], np.repeat(numbers, there.sum(axis=1))
        self._log(state, "image/keypoints", rr.Points2D(flat, class_ids=classes))

    def _log_rules(self, state: _StreamState, view: FrameView) -> None:
        """Log lines and zones when they, or their counts, are others than before."""
        by_frame = view.batch.columns.overlays
        overlays = by_frame[view.row] if by_frame else ()
        if overlays == state.overlays:
            return
        state.overlays = overlays
        by_kind: dict[str, list[Any]] = defaultdict(list)
        for one in overlays:
            ring = one.points if one.kind == "line" else (*one.points, one.points[0])
            by_kind["strips"].append(np.array(ring, np.float32))
            by_kind["labels"].append(" ".join([one.name, *(f"{name} {count}" for name, count in one.counts)]))
        self._log(state, "image/rules", rr.LineStrips2D(by_kind["strips"], labels=by_kind["labels"]))
