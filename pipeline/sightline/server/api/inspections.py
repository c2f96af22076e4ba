"""Routes of the frame inspector: what each step makes of one frame, with the images of the models."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from anyio import to_thread
from fastapi import APIRouter, Depends, Response

from sightline.api import Inspection
from sightline.server.answers import Threads
from sightline.server.api.served import PIPELINE, Operator, Served
from sightline.server.api.streams import STREAM, check_stream
from sightline.server.guard import Refused
from sightline.server.images import png_encoder
from sightline.server.inspections import Inspections

INSPECTION = f"{PIPELINE}/inspections/{{inspection}}"
_INSPECT_SECONDS = 10.0
_FORGOTTEN = "there is no such inspection: each is kept for a minute"


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["streams"], dependencies=[Depends(served.known)])
    pipeline, inspections, encode, threads = served.pipeline, Inspections(), png_encoder(), Threads()

    @router.post(f"{STREAM}/inspect", summary="Inspect the next frame of a stream")
    async def inspect_frame(stream: str, actor: Operator) -> Inspection:
        """What each step makes of it, and what models got and gave. Images never show what a step hides."""
        del actor
        check_stream(served, stream)
        return await to_thread.run_sync(partial(_inspected, stream))

    @router.get(INSPECTION, summary="Show an inspection")
    def show_inspection(inspection: str, actor: Operator) -> Inspection:
        """As it was answered when the frame was inspected."""
        del actor
        found = inspections.get(inspection)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, _FORGOTTEN)
        return found

    @router.get(
        f"{INSPECTION}/{{image}}",
        summary="Show an image of an inspection",
        response_class=Response,
        responses={200: {"content": {"image/png": {}}}},
    )
    async def show_inspection_image(inspection: str, image: str, actor: Operator) -> Response:
        """The frame (`frame.png`), or what a network got (`input-0.png`), level by level."""
        del actor
        pixels = inspections.image(inspection, image)
        if pixels is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"{_FORGOTTEN}, with the images that it names")
        if encode is None:
            raise Refused(HTTPStatus.CONFLICT, "no installed package encodes PNG")
        data = await threads.run(partial(encode, pixels))
        return Response(data, media_type="image/png", headers={"Cache-Control": "private, max-age=60"})

    def _inspected(stream: str) -> Inspection:
        if not inspections.turn.acquire(blocking=False):
            raise Refused(HTTPStatus.CONFLICT, "another frame is being inspected: one at a time", {"Retry-After": "1"})
        try:
            found = pipeline.inspect(stream, timeout=_INSPECT_SECONDS)
            if found.frame is None:
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "no frame came by", {"Retry-After": "1"})
            return inspections.add(found)
        finally:
            inspections.turn.release()

    return router
