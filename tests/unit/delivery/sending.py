"""An element that delivers to nowhere, scenes to send, and what it put into its mailbox."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sightline.graph import Operator, Site
from sightline.graph.transport import Record, Transport
from sightline.media import Batch, Event, Objects, Origin, Overlay
from sightline.testing import MemoryOutbox, make_frames, run_element
from sightline.testing.run import site_for
from sightline_plugins.delivery.element import Delivery

LABELS = ("person", "car")


class NoTransport(Transport):
    """Never called: records stay in the mailbox in memory."""

    def connect(self) -> None:
        raise AssertionError

    def deliver(self, records: Sequence[Record]) -> None:
        raise AssertionError

    def close(self) -> None:
        pass


class Post(Delivery):
    """Delivers to nowhere.

    ```yaml
    - post: {url: "post://127.0.0.1"}
    ```
    """

    name: ClassVar[str] = "post"
    schemes: ClassVar[tuple[str, ...]] = ("post",)
    address_key: ClassVar[str | None] = "topic"

    url: Annotated[str, Field(repr=False)] = "post://127.0.0.1"
    topic: str = "site/{stream}/{kind}"

    def transport(self, site: Site) -> Transport:
        return NoTransport()


def walk(frames: int = 8, *, stream: str = "gate") -> list[Batch]:
    """Batches of one frame: a person (track 1) walks to the right, a car (track 2) is there on the first half, an event
    on frame 3 about the person, and one on frame 6 about the car that has gone; a line and a zone are drawn.
    """
    return [_step(frame, row, frames) for row, frame in enumerate(make_frames(frames, stream=stream))]


def _step(frame: Any, row: int, frames: int) -> Batch:
    count = 2 if row < frames // 2 else 1
    objects = Objects.from_columns(
        frame=[0] * count,
        xyxy=[[4 + row, 10, 14 + row, 40], [30, 20, 60, 40]][:count],
        confidence=[0.9, 0.6][:count],
        class_id=[0, 1][:count],
        track_id=np.array([1, 2][:count]),
        source=Origin("detect-1", LABELS),
        extra={"color": np.array(["red", "blue"][:count])},
    )
    events = {
        3: Event("line", "gate_in", 0, {"direction": "in", "track_id": 1}, "lines-1"),
        6: Event("zone", "plaza", 0, {"direction": "leave", "track_id": 2, "dwell_seconds": 0.2}, "zones-1"),
    }
    overlays = (
        Overlay("line", "gate_in", ((0, 0), (9, 9)), (("in", int(row >= 3)), ("out", 0))),
        Overlay("zone", "plaza", ((0, 0), (9, 0), (9, 9)), (("inside", count - 1), ("visitors", 1))),
    )
    own = (events[row],) if row in events else ()
    return Batch((frame,), objects, own).with_overlays([overlays])


def joined(batches: Sequence[Batch]) -> Batch:
    """One batch of all."""
    objects = [
        batch.objects.with_columns(frame=batch.objects.frame + np.int32(row)) for row, batch in enumerate(batches)
    ]
    events = [
        Event(event.kind, event.rule, row, event.data, event.step)
        for row, batch in enumerate(batches)
        for event in batch.events
    ]
    overlays = [overlay for batch in batches for overlay in batch.columns.overlays]
    frames = tuple(frame for batch in batches for frame in batch.frames)
    return Batch(frames, Objects.concat(objects)).with_events(events).with_overlays(overlays)


def sent(batches: Iterable[Batch], **options: Any) -> list[Record]:
    """The records that an element with those options makes of batches and the end of their streams."""
    outbox = MemoryOutbox()
    run_element(Post(**options), batches, outbox=outbox)
    return outbox.records


def bodies(batches: Iterable[Batch], **options: Any) -> list[dict[str, Any]]:
    """The JSON of those records."""
    return [json.loads(record.body) for record in sent(batches, **options)]


def operator(outbox: MemoryOutbox, **options: Any) -> Operator:
    """The operator of such an element."""
    return Post(**options).build(site_for("post-1", None, outbox=outbox))
