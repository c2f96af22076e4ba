"""What tests of recording share: a rule that fires on purpose, runs that record, and what is in the files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import av
from av.video.frame import VideoFrame

from sightline import Pipeline
from sightline.graph import Capability, Element, Message, MessageKind, Operator, Site
from sightline.media import Batch, Event
from sightline.runtime.stats.report import Report

INTERVAL_NS = 40_000_000


class Bell(Element):
    """A rule `ring` that fires on the frames with these numbers."""

    name: ClassVar[str] = "bell"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})

    at: tuple[int, ...]
    """Numbers of frames."""

    def found_rules(self) -> frozenset[str]:
        return frozenset({"ring"})

    def build(self, site: Site) -> Operator:
        return _BellRule(self.at, site.element_id)


class _BellRule(Operator):
    def __init__(self, at: Sequence[int], step: str) -> None:
        self._at = frozenset(at)
        self._step = step

    def process(self, batch: Batch) -> Batch:
        rows = [row for row, frame in enumerate(batch.frames) if frame.index in self._at]
        return batch.with_events([Event("line", "ring", row, {"direction": "in"}, self._step) for row in rows])


@dataclass(frozen=True, slots=True)
class Shown:
    """One image of a file: its time, whether it is a key frame, and what it looks like."""

    pts_ns: int
    is_key: bool
    look: str


def look_of(image: VideoFrame) -> str:
    """The sum of all pixels, without the padding of rows."""
    return hashlib.md5(image.to_ndarray().tobytes()).hexdigest()


def images(path: Path) -> list[Shown]:
    """All images of a file in the order in which they are shown."""
    with av.open(path) as container:
        return [
            Shown(
                round(frame.pts * frame.time_base * 1_000_000_000),
                frame.key_frame,
                look_of(frame),
            )
            for frame in container.decode(video=0)
            if frame.pts is not None and frame.time_base is not None
        ]


def packets(path: Path) -> list[bytes]:
    """The encoded images of a file, as they are."""
    with av.open(path) as container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A file that a message told of."""

    path: Path
    first_pts_ns: int
    last_pts_ns: int
    count: int
    data: Mapping[str, Any]

    @property
    def shown(self) -> list[Shown]:
        """Its images, at their times in the stream."""
        return [Shown(one.pts_ns + self.first_pts_ns, one.is_key, one.look) for one in images(self.path)]


@dataclass(slots=True)
class Told:
    """Messages as they come; give it to `on_message`."""

    messages: list[Message] = field(default_factory=list)

    def __call__(self, message: Message) -> None:
        self.messages.append(message)

    def kinds(self) -> list[MessageKind]:
        """Return the messages in order."""
        return [message.kind for message in list(self.messages)]

    def texts(self, kind: MessageKind) -> list[str]:
        """The sentences of one kind."""
        return [message.text for message in list(self.messages) if message.kind is kind]

    def elements(self, kind: MessageKind) -> set[str | None]:
        """The elements that told something of one kind."""
        return {message.element for message in list(self.messages) if message.kind is kind}

    def recorded(self) -> list[Recorded]:
        """The files that are finished, in that order."""
        found = [message.data for message in list(self.messages) if message.kind is MessageKind.RECORDING]
        return [
            Recorded(
                Path(str(data["path"])),
                int(data["first_pts_ns"]),
                int(data["last_pts_ns"]),
                int(data["images"]),
                data,
            )
            for data in found
        ]


def record(
    source: object, *, outputs: Path, at: Sequence[int] = (), steps: Sequence[Any] = (), **options: Any
) -> tuple[list[Recorded], Told, Report]:
    """Run a pipeline over one source that records it; what it recorded, told and reported."""
    told = Told()
    path = {"path": "{stream}-{time}.mp4"}
    pipeline = Pipeline(
        sources={"cam": source},  # type: ignore[dict-item]
        steps=[Bell(at=tuple(at)), *steps, {"record": {**path, **options}}],
        outputs=outputs,
    )
    pipeline.on_message(told)
    report = pipeline.run()
    return told.recorded(), told, report
