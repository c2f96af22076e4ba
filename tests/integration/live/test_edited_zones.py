"""A zone that is edited a hundred times while four streams are watched."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sightline import Pipeline
from sightline.graph import Capability, Element, Message, MessageKind, Operator, PipelineDescription, Site, Step
from sightline.media import Batch, Objects, Origin
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins import Zones
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.waiting import wait_until

EDITS = 100
LIMIT_SECONDS = 300
MOVING = {"pattern": "counter", "frames": None, "realtime": True, "fps": 50}


def place(index: int) -> float:
    """Where the object of a frame is, in fractions of its width: back and forth, never on an edge of a zone."""
    return abs(index % 40 - 20) / 20.5 + 0.011


class Walker(Element):
    """One tracked object on each frame, where `place` says."""

    name: ClassVar[str] = "walker"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS, Capability.TRACKS})

    def build(self, site: Site) -> Operator:
        del site
        return _Walking()


class _Walking(Operator):
    def process(self, batch: Batch) -> Batch:
        boxes = []
        for frame in batch.frames:
            width, height = frame.size_wh
            x = place(frame.index) * width
            boxes.append([x - 2, height / 2 - 8, x + 2, height / 2])
        count = len(boxes)
        found = Objects.from_columns(
            frame=np.arange(count),
            xyxy=boxes,
            confidence=np.ones(count),
            class_id=np.zeros(count),
            track_id=np.full(count, 7),
            source=Origin("walker", ("person",)),
        )
        return batch.with_objects(found)


@dataclass
class Shown:
    """What the frames of one stream showed: index, right edge of the zone, events, and the numbers drawn."""

    frames: list[tuple[int, float, list[str], dict[str, int]]] = field(default_factory=list)

    @property
    def has_entered(self) -> bool:
        """Whether the object has entered by itself: an edit that puts it inside makes no visitor of it."""
        return any("enter" in directions for _, _, directions, _ in self.frames)


def edited(edge: float) -> Step:
    polygon = [[0, 0], [edge, 0], [edge, 1], [0, 1]]
    return Zones.model_validate({"id": "z", "left": {"polygon": polygon, "margin": 0}})


def test_a_zone_is_edited_a_hundred_times_and_counts_are_right(clip: Clip) -> None:
    with ExitStack() as stack:
        cameras = {name: stack.enter_context(FakeCamera(clip)) for name in ("north", "south")}
        sources: dict[str, Any] = {name: camera.url for name, camera in cameras.items()}
        sources |= dict.fromkeys(("east", "west"), MOVING)
        pipeline = Pipeline(sources=sources, steps=[Walker(), edited(0.5)], state=False)
        shown, order = {name: Shown() for name in sources}, FrameOrder()
        told: list[Message] = []
        pipeline.probe("z", lambda batch: note(batch, shown))
        pipeline.probe("z", order)
        pipeline.on_message(told.append)
        with pipeline:
            wait_until(lambda: all(one.frames for one in shown.values()))
            for number in range(EDITS):
                edge = round(0.1 + 0.8 * (number * 37 % EDITS) / EDITS, 3)
                pipeline.reload(described(pipeline, edge), prove=0).wait(LIMIT_SECONDS)
                wait_until(lambda edge=edge: all(one.frames[-1][1] == edge for one in shown.values()))  # type: ignore[misc]
            # With a frame or two between two edits, it may be that only edits have put the object inside.
            wait_until(lambda: all(one.has_entered for one in shown.values()))
            pipeline.stop()
            report = pipeline.wait()

    assert_accounted(report, stopped=True)
    order.check(report)
    assert [message.text for message in told if message.kind is MessageKind.RELOADED] == [
        "reloaded: changed z; kept walker-1"
    ] * EDITS
    for stream in report.streams:
        name = stream.stream.name
        totals, wanted = report.totals["z"][name]["left"], plain(shown[name])
        assert (totals["entered"], totals["left"]) in wanted, name
        assert totals["visitors"] == 1
        if not stream.stream.live:
            assert (stream.dropped.total(), stream.received) == (0, stream.processed)


def described(pipeline: Pipeline, edge: float) -> PipelineDescription:
    return pipeline.description.model_copy(update={"steps": (Walker(), edited(edge))})


def note(batch: Batch, shown: dict[str, Shown]) -> None:
    for row, frame in enumerate(batch.frames):
        (overlay,) = batch.columns.overlays[row]
        edge = round(max(x for x, _ in overlay.points) / frame.size_wh[0], 3)
        directions = [str(event.data["direction"]) for event in batch.events if event.frame == row]
        shown[frame.stream.name].frames.append((frame.index, edge, directions, dict(overlay.counts)))


def plain(shown: Shown) -> list[tuple[int, int]]:
    """Compute events and counts from the places and from the zone that each frame showed; return how many entered and
    left, without and with the stay that the end of the stream ends.
    """
    entered = left = 0
    before: float | None = None
    is_inside = False
    for index, edge, directions, counts in shown.frames:
        was_inside = before is not None and before < edge
        is_inside = place(index) < edge
        assert directions == ([] if was_inside == is_inside else ["enter" if is_inside else "leave"]), index
        assert counts["inside"] == is_inside
        entered += directions == ["enter"]
        left += directions == ["leave"]
        before = place(index)
    return [(entered, left), (entered, left + is_inside)]
