"""`record`: record clips of streams around events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from sightline.graph import (
    Capability,
    ChangesLive,
    CheckContext,
    Element,
    EncodedPacket,
    OutputPath,
    Problem,
    Sink,
    Site,
    Threading,
    Wanted,
)
from sightline.graph.described import Described
from sightline.graph.fields import Fraction, Size, matching
from sightline.graph.references import Named
from sightline.media import Batch, FrameView, Stream
from sightline.media.time import Duration
from sightline_plugins.encode.settings import CONTAINERS
from sightline_plugins.rules.names import RuleName, is_of_rule
from sightline_plugins.sinks.files import STREAM, path_problems
from sightline_plugins.sinks.retention import KEEPS_FOR_ALL, Keep

if TYPE_CHECKING:
    from sightline_plugins.record.stream_recorder import StreamRecorder

_TIME = "{time}"
_BEHIND_NS = 5_000_000_000
"""How far a pipeline may be behind its source without missing a packet."""
_EVERYTHING_NS = 1 << 62
_LONG_MISSING_NS = 20_000_000_000
REQUEST = "request"
_MOST_REQUESTS = 1_000
"""Older ones, for streams that never come, are dropped."""


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str | dict | LabelTrigger) else value


class LabelTrigger(Described):
    """Records while there are objects with a label in the image, and for `after` from then on."""

    label: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    """Label, or labels of which one is enough."""
    confidence: Fraction = 0.0
    """Minimum confidence of the detector."""


Trigger = RuleName | LabelTrigger


def causes(view: FrameView, triggers: Sequence[Trigger]) -> Iterator[str]:
    """Yield the rules and labels for which a frame starts a recording."""
    for trigger in triggers:
        if not isinstance(trigger, LabelTrigger):
            if any(is_of_rule(event, trigger) for event in view.events):
                yield trigger
        elif len(objects := view.objects):
            found = objects.has_label(trigger.label) & (objects.confidence >= np.float32(trigger.confidence))
            yield from dict.fromkeys(objects.select(found).labels())


class Record(Element):
    """Record streams as their cameras send them, without re-encoding: clips around events, or with `segment`
    everything.

    The packets of the last seconds stay in memory, so a clip begins `before` the event, at the last key frame before
    that time, and ends `after` it. Later events extend the clip. When no event can extend it, it is closed, and a
    message `recording` reports its path and its exact first and last timestamps. `pipeline.record("gate")` does the
    same from Python. A clip longer than `longest`, and a segment, are cut at the next key frame; another connection,
    codec or size begins a new file.

    The position of the step and the speed of the pipeline do not matter: packets are recorded before they are decoded.
    Drawn frames are not recorded; use `video` for them. A file is playable at every moment: a kill loses a second. When
    the disk is full, the step reports `sink_degraded`, removes the oldest recordings if `keep` allows it, and continues
    when there is room; nothing else stops.

    ```yaml
    - record: {path: "out/{stream}-{time}.mp4", before: 10s, after: 20s, on: lines.gate_in}
    - record: {path: "archive/{stream}/{time}.mp4", segment: 60s, keep: {age: 7d, size: 20GB}}
    ```
    """

    name: ClassVar[str] = "record"
    sink: ClassVar[bool] = True
    takes_packets: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: OutputPath
    """The files, `.mp4` or `.mkv`. `{time}` is the time of day (UTC) of the first image, or its time in the stream
    where that is not known, and `{stream}` the stream's name. No file is ever overwritten."""
    on: ChangesLive[Annotated[tuple[Trigger, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None] = None
    """What starts a recording, one or several: an event (`lines.gate_in`, `lines.gate_in.in`), or objects in the
    image (`{label: person}`). When neither this nor `segment` is given, only Python does."""
    before: ChangesLive[Duration] = 10_000_000_000
    """Time before the event that is recorded."""
    after: ChangesLive[Duration] = 20_000_000_000
    """Time after the last event that is recorded."""
    longest: Annotated[Duration, Field(gt=0)] = 300_000_000_000
    """A longer clip continues in another file."""
    segment: Annotated[Duration, Field(gt=0)] | None = None
    """Record everything, in files of this length."""
    keep: Keep | None = None
    """Limits on the files that are kept; default: keep all."""
    memory: ChangesLive[Annotated[Size, Field(ge=1_000_000)]] = 64_000_000
    """Bytes of encoded images kept for each stream at most; a clip begins later where they are not enough."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.segment is not None and self.on is not None:
            raise ValueError("give on or segment, not both: two steps record clips and everything")
        return self

    def required(self) -> frozenset[Capability]:
        """Events for rules, objects for labels."""
        triggers = self.on or ()
        wants = {Capability.OBJECTS if isinstance(one, LabelTrigger) else Capability.EVENTS for one in triggers}
        return frozenset(wants)

    def wanted_labels(self) -> Named:
        """The labels that start a recording."""
        for number, trigger in enumerate(self.on or ()):
            if isinstance(trigger, LabelTrigger):
                for label in trigger.label:
                    yield ("on", number, "label"), label

    def wanted_rules(self) -> Named:
        """The rules whose events start a recording."""
        for number, trigger in enumerate(self.on or ()):
            if isinstance(trigger, str):
                yield ("on", number), trigger

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the suffix, that files do not share a name, and that they can be written."""
        if PurePath(self.path).suffix.lower() not in CONTAINERS:
            yield Problem(f"{self.path!r} must end in {' or '.join(CONTAINERS)}", ("path",))
        if _TIME not in self.path:
            yield Problem("recordings would have one name: put {time} into the path", ("path",))
        yield from path_problems(self, self.path, context=context, shareable=False, known=(STREAM, _TIME))

    def reason_against_processes(self) -> str | None:
        """Recordings are files of one stream, which its worker writes; what `keep` limits are those of all streams."""
        return None if self.keep is None else KEEPS_FOR_ALL

    def build(self, site: Site) -> Recorder:
        """Make the recorder; sources keep their packets from now on."""
        return Recorder(self, site)


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
        from sightline_plugins.record.clip_store import ClipStore

        self._element = element
        self._site = site
        self._clip_store = ClipStore(element.path, keep=element.keep, site=site)
        self._streams: dict[Stream, StreamRecorder] = {}
        self._requests: deque[_Request] = deque(maxlen=_MOST_REQUESTS)
        self._missing: dict[Stream, _Missing] = {}
        self._wanted = self._want(element)

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

    def change(self, element: Record) -> None:
        """Take over other options; recordings that are under way go on."""
        self._element, former = element, self._wanted
        self._wanted = self._want(element)
        former.close()

    def pause_stream(self, stream: Stream) -> None:
        """Finish the recordings of a camera, whose connection is closed. A file goes on where it stopped."""
        if stream.live:
            self.end_stream(stream)

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

    def _want(self, element: Record) -> Wanted:
        return self._site.packets.want(
            element.streams, duration_ns=element.before + _BEHIND_NS, limit_bytes=element.memory
        )

    def _recorder(self, view: FrameView) -> StreamRecorder | None:
        """The recorder of a frame's stream; None when the frame's packet is not in memory."""
        stream = view.stream
        if view.frame.packet is None:
            self._miss(view, "its source hands on no encoded images: use `video`, which encodes")
            return None
        recorder = self._streams.get(stream)
        if recorder is None:
            from sightline_plugins.record.stream_recorder import StreamRecorder

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
