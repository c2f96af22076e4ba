"""Routes that take something of a stream: its newest image, a recording, a snapshot."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Response
from pydantic import AfterValidator, BaseModel, Field

from sightline.media.time import parse_duration_ns
from sightline.server.api.served import Operator, Served
from sightline.server.api.streams import STREAM, check_stream
from sightline.server.guard import Refused
from sightline.server.images import LARGEST_WH


def _checked(text: str) -> str:
    parse_duration_ns(text)
    return text


Width = Annotated[int, Query(ge=32, le=LARGEST_WH[0], description="Its width at most, in pixels.")]
DurationText = Annotated[str, Field(max_length=32), AfterValidator(_checked)]


class RecordRequest(BaseModel):
    """How much of the past and the future to record; by default as the step says."""

    before: DurationText | None = Field(None, description="How much before now, such as `10s`.")
    after: DurationText | None = Field(None, description="How much after now.")
    step: str | None = Field(None, description="The `record` step; all of them when not given.", max_length=128)


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["streams"], dependencies=[Depends(served.known)])
    pipeline = served.pipeline

    @router.get(
        f"{STREAM}/image.jpg",
        summary="Show the newest image",
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}}},
    )
    async def show_image(stream: str, width: Width = LARGEST_WH[0]) -> Response:
        """The next frame as a small JPEG, as it leaves the last step that changes images, for a wall of cameras. It
        is made at most four times a second, however many ask. When none comes within a second, it is the last one that
        was shown; where none was, the first may take five seconds before the answer is 503.
        """
        check_stream(served, stream)
        if served.images is None:
            raise Refused(HTTPStatus.CONFLICT, "no installed package encodes images")
        served.images.keep(pipeline.description.sources)
        return _image(await served.images.newest(stream, width=width))

    @router.post(f"{STREAM}/record", summary="Record a stream", status_code=HTTPStatus.ACCEPTED)
    async def record(stream: str, actor: Operator, request: RecordRequest | None = None) -> dict[str, str]:
        """The steps `record` write a clip; an event `recording` names the file."""
        check_stream(served, stream)
        asked = request or RecordRequest(before=None, after=None, step=None)

        def ask() -> None:
            changes = [{"path": name, "after": value} for name, value in asked.model_dump(exclude_none=True).items()]
            with served.audit.change(actor, "record", target=stream, changes=changes):
                pipeline.record(stream, before=asked.before, after=asked.after, step=asked.step)

        await to_thread.run_sync(ask)
        return {"stream": stream}

    @router.post(
        f"{STREAM}/snapshot",
        summary="Take an image",
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}}},
    )
    async def take_snapshot(stream: str, actor: Operator) -> Response:
        """The next frame as JPEG in its full size, as it leaves the last step that changes images; 503 when none comes
        within five seconds.
        """
        del actor
        check_stream(served, stream)
        if served.snapshots is None:
            raise Refused(HTTPStatus.CONFLICT, "no installed package encodes images")
        return _image(await served.snapshots.following(stream))

    return router


def _image(jpeg: bytes | None) -> Response:
    """Answer with an image. Raises Refused when there is none."""
    if jpeg is None:
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "no frame came by", {"Retry-After": "1"})
    return Response(jpeg, media_type="image/jpeg")
