"""A lane: one GPU's share of a run. A run on the CPU, or on one GPU, has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sightline.devices.discovery import DeviceInUse
from sightline.graph import Site
from sightline.media import Batch, Stream
from sightline.runtime.scheduling.assembly import Assembly, Exits
from sightline.runtime.scheduling.batcher import Arrival, Batcher
from sightline.runtime.scheduling.link import Link, Outlet, WorkItem


@dataclass(frozen=True, slots=True)
class LaneExits:
    """Where things leave a lane: finished and lost parcels, errors, ends of streams, its own end.

    `on_trouble` is told of an error behind which a broken GPU may be, and says whether the lane is given up for it.
    """

    on_done: Callable[[WorkItem, Batch], None]
    on_lost: Callable[[Lane, WorkItem], None]
    on_trouble: Callable[[Lane, BaseException], bool]
    on_error: Callable[[BaseException], None]
    on_stream_end: Callable[[Stream], None]
    on_over: Callable[[Lane], None]
    outlet: Outlet | None = None


class Lane:
    """The gather, the stages and the operators of one GPU; `site` is what they are built for. From any thread.

    How it gathers is said by `Lanes.fit`.
    """

    def __init__(self, site: Site, *, exits: LaneExits) -> None:
        self.site = site
        self.is_lost = False
        """Whether its streams go on in other lanes, because its GPU is broken."""
        self.batcher = Batcher(size=1, timeout_ns=0, clock=site.clock)
        self._exits = exits
        own = Exits(
            on_done=exits.on_done,
            on_lost=lambda work_item: exits.on_lost(self, work_item),
            on_error=self._failed,
            on_stream_end=exits.on_stream_end,
            on_over=lambda: exits.on_over(self),
            outlet=exits.outlet,
        )
        self.assembly = Assembly(self.batcher, exits=own, clock=site.clock)

    def __str__(self) -> str:
        return str(self.site.device)

    @property
    def breakage(self) -> str | None:
        """Why its GPU cannot be used any more; None while it can."""
        return None if self.site.gpu is None else self.site.gpu.guard.cause

    def give_up_after(self, error: BaseException) -> bool:
        """Give the lane up where its GPU is what broke, so that its streams go on elsewhere; whether it is given up."""
        return self._exits.on_trouble(self, error)

    def _failed(self, error: BaseException) -> None:
        if not self.give_up_after(error):
            self._exits.on_error(error)


def sites_of(device: DeviceInUse, site: Site) -> list[Site]:
    """The site of each lane, like one of them."""
    gpus = device.gpus or (None,)
    return [replace(site, device=one, gpu=gpu) for one, gpu in zip(device.devices, gpus, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class StreamSlot:
    """Where the frames of a stream go: a link into a lane, and what its reader is built for."""

    link: Link[Arrival]
    site: Site
    lane: Lane | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the lane is, so that the stream gets another place, or comes to its end."""
        return self.lane is not None and self.lane.is_lost

    def give_up_after(self, error: BaseException) -> bool:
        """See `Lane.give_up_after`, for an error of the reader or of the link."""
        return self.lane is not None and self.lane.give_up_after(error)
