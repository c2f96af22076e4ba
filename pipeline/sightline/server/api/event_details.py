"""Routes about one event: where it happened, its images, and the recordings that show it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import Response

from sightline.api import EventClip, EventDetails, EventRecord, EventScene
from sightline.server.answers import Threads
from sightline.server.api.events import EVENTS
from sightline.server.api.recordings import info_of
from sightline.server.api.served import Served
from sightline.server.event_images import WHOLE, EventImage, EventImages
from sightline.server.guard import Refused

EVENT = f"{EVENTS}/{{event}}"
EventId = Annotated[str, Path(pattern=r"^[0-9]{1,18}-[0-9]{1,18}$", description="The `id` of an event.")]
_KEPT = {"Cache-Control": "private, max-age=604800, immutable"}


@dataclass(frozen=True, slots=True)
class _Event:
    """An event that the history has."""

    epoch: int
    record: dict[str, Any]
    scene: dict[str, Any] | None

    @property
    def track(self) -> int:
        """The track that it is about; -1 for none."""
        track = self.record["event"].get("track_id")
        return track if isinstance(track, int) else WHOLE

    def image(self, images: EventImages | None) -> EventImage | None:
        """The image of its frame, or of one near to it."""
        return (
            None if images is None else images.nearest(self.epoch, self.record["stream"], pts_ns=self.record["pts_ns"])
        )

    def crop(self, images: EventImages | None) -> bytes | None:
        """The image of its object."""
        if images is None or self.track == WHOLE:
            return None
        return images.crop(self.epoch, self.record["stream"], frame=self.record["frame"], track=self.track)


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["events"], dependencies=[Depends(served.known)])
    threads = Threads()

    @router.get(EVENT, summary="Show an event")
    async def show_event(event: EventId) -> EventDetails:
        """Return an event of the last week with where it happened and the recordings that show it."""
        return await to_thread.run_sync(partial(details, event))

    @router.get(
        f"{EVENT}/thumbnail.jpg",
        summary="Show an image of an event",
        response_class=Response,
        responses={HTTPStatus.OK: {"content": {"image/jpeg": {}}}},
    )
    async def show_thumbnail(
        event: EventId, crop: Annotated[bool, Query(description="Only the object, not the whole frame.")] = False
    ) -> Response:
        """Return the frame on which an event happened, at most 640x360, or its object, as JPEG. Images are taken behind
        the last step that changes images, a few a second: where many events come, a frame up to half a second away is
        shown, and not every object has an image.
        """
        jpeg = await threads.run(lambda: jpeg_of(known(event), crop=crop))
        if jpeg is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no image of this event")
        return Response(jpeg, media_type="image/jpeg", headers=_KEPT)

    def jpeg_of(one: _Event, *, crop: bool) -> bytes | None:
        images = served.event_images
        if crop or images is None:
            return one.crop(images)
        image = one.image(images)
        return None if image is None else images.body(image)

    def details(event: str) -> EventDetails:
        one = known(event)
        image = one.image(served.event_images)
        clips = served.recordings.of_event(one.epoch, one.record["stream"], one.record["pts_ns"])
        return EventDetails(
            record=EventRecord.model_validate(one.record),
            scene=None if one.scene is None else EventScene.model_validate(one.scene),
            image_seconds=None if image is None else image.later_ns / 1e9,
            crop=one.crop(served.event_images) is not None,
            clips=[
                EventClip(recording=info_of(clip), offset_seconds=(one.record["pts_ns"] - clip.first_pts_ns) / 1e9)
                for clip in clips
            ],
        )

    def known(event: str) -> _Event:
        """The event with that id. Raises Refused."""
        epoch, place = (int(one) for one in event.split("-"))
        found = served.history.store.record(epoch, place)
        record: dict[str, Any] = {"record": None} if found is None else msgspec.json.decode(found[1])
        if found is None or record["record"] != "event":
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no event {event}: it may be too old, or too new by a second")
        scene: dict[str, Any] | None = None if found[2] is None else msgspec.json.decode(found[2])
        return _Event(epoch, record, scene)

    return router
