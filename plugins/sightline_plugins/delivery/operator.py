"""The operator of every element that delivers: makes records of what passes, and puts them into its mailbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING

from sightline.graph import Message, Sink, Site
from sightline.graph.fields import matching
from sightline.graph.transport import Record
from sightline.media import Batch, Stream
from sightline_plugins.delivery.formats import Stamp, encoder
from sightline_plugins.delivery.images import ImageMaker
from sightline_plugins.delivery.kinds import (
    CountsBodies,
    Draft,
    EventBodies,
    FrameBodies,
    Kind,
    Maker,
    ObjectBodies,
    status_body,
)
from sightline_plugins.delivery.selection import Filter
from sightline_plugins.delivery.tracks import TrackBodies
from sightline_plugins.rules.shapes import anchor_fractions

if TYPE_CHECKING:
    from sightline_plugins.delivery.element import Delivery

_Make = Callable[["Delivery", ImageMaker | None], Maker]
_MAKERS: Mapping[Kind, _Make] = {
    "frames": lambda element, _: FrameBodies(empty=element.empty, max_rate=element.max_rate),
    "objects": lambda element, _: ObjectBodies(max_rate=element.max_rate),
    "events": lambda _, images: EventBodies(images),
    "tracks": lambda element, images: TrackBodies(
        timeout_ns=element.track_timeout,
        anchor=anchor_fractions([element.path_anchor])[0].tolist(),
        tolerance=element.path_tolerance,
        most_points=element.path_points,
        images=images,
    ),
    "counts": lambda element, _: CountsBodies(interval_ns=element.interval, labels=element.labels or ()),
}
"""Makers of kinds, but of `status`, which is not made from batches; in the order of the records of a frame."""


class DeliveryOperator(Sink):
    """Puts the records of a batch into the mailbox at once, in the order of their frames.

    States of streams come from other threads: records get their numbers and are put under one lock, so that the
    order of their numbers is the order in which they are kept.
    """

    def __init__(self, element: Delivery, site: Site) -> None:
        if site.outbox is None:
            raise ValueError("a site of an element that delivers needs an outbox")
        self._element = element
        self._site = site
        self._encoder = encoder(
            element.format, envelope=element.envelope, pipeline=site.pipeline, sensors=element.sensors
        )
        self._filter = Filter(labels=element.labels, rules=element.rules)
        self._images = None if element.image is None else ImageMaker(element, site)
        self._makers = [make(element, self._images) for kind, make in _MAKERS.items() if kind in element.send]
        self._addresses: dict[tuple[str, Kind], str] = {}
        self._lock = Lock()
        self._is_closed = False
        transport = element.transport(site)
        self._mailbox = site.outbox.mailbox(site.element_id, address=element.destination(), transport=transport)
        if "status" in element.send:
            self._mailbox.listen(self._heard)

    def consume(self, batch: Batch) -> None:
        """Put the records of a batch."""
        batch = self._filter.of(batch)
        made = [one for maker in self._makers for one in maker.make(batch)]
        if len(self._makers) > 1:
            made.sort(key=_row)
        self._put(made)

    def end_stream(self, stream: Stream) -> None:
        """Put the records that only the end of a stream makes."""
        self._put([one for maker in self._makers for one in maker.end(stream)])
        self._filter.end(stream)

    def close(self) -> None:
        """Close the mailboxes; what is in them is still delivered."""
        with self._lock:
            self._is_closed = True
            self._mailbox.close()
        if self._images is not None:
            self._images.close()

    def _heard(self, message: Message) -> None:
        body = status_body(message, pipeline=self._site.pipeline, now_ns=self._site.clock.epoch_ns())
        if body is not None and matching(self._element.streams, (body.stream,)):
            self._put([Draft(0, "status", body)])

    def _put(self, made: Iterable[Draft]) -> None:
        with self._lock:
            if not self._is_closed and (records := list(self._records(made))):
                self._mailbox.put(records)

    def _records(self, made: Iterable[Draft]) -> Iterator[Record]:
        """Number and encode bodies; the lock is held."""
        now_ns, content_type = self._site.clock.epoch_ns(), self._encoder.content_type
        for one in made:
            stream, kind = one.body.stream, one.kind
            epoch, seq = self._mailbox.stamp(stream)
            body = self._encoder.encode(one, Stamp(epoch, seq, now_ns))
            yield Record(stream, epoch, seq, kind, self._address(stream, kind), body, now_ns, content_type)

    def _address(self, stream: str, kind: Kind) -> str:
        key = (stream, kind)
        address = self._addresses.get(key)
        if address is None:
            address = self._addresses[key] = self._element.address(stream, kind, pipeline=self._site.pipeline)
        return address


def _row(made: Draft) -> int:
    return made.row
