"""Routes of recordings: what there is, and the files, of which any part can be asked for."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import FileResponse

from sightline.api import RecordingInfo
from sightline.media.time import format_time
from sightline.server.api.events import Patterns
from sightline.server.api.served import PIPELINE, Served
from sightline.server.api.turns import From, To, seconds_of
from sightline.server.guard import Refused
from sightline.server.recordings import MOST_LISTED, Recording

RECORDINGS = f"{PIPELINE}/recordings"
Number = Annotated[int, Path(ge=1, le=2**53, description="The `id` of a recording.")]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["recordings"], dependencies=[Depends(served.known)])
    recordings = served.recordings

    @router.get(RECORDINGS, summary="List the recordings")
    async def list_recordings(
        stream: Annotated[Patterns, Query(description="Streams, by name or glob; all when not given.")] = [],  # noqa: B006
        start: From = None,
        to: To = None,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED, description="How many at most.")] = 100,
    ) -> list[RecordingInfo]:
        """Return the files that `record` steps have written while the pipeline was served, newest first: those that
        have something of the time from `from` until `to`. What was removed is not among them.
        """
        begin, end = seconds_of(start), seconds_of(to)
        span = {"start_ms": 0 if begin is None else int(begin * 1000)}
        if end is not None:
            span["end_ms"] = int(end * 1000)
        found = await to_thread.run_sync(partial(recordings.find, streams=stream, limit=limit, **span))
        return [info_of(one) for one in found]

    @router.get(f"{RECORDINGS}/{{recording}}", summary="Show a recording")
    async def show_recording(recording: Number) -> RecordingInfo:
        return info_of(await _known(recording))

    @router.get(
        f"{RECORDINGS}/{{recording}}/file",
        summary="Get the file of a recording",
        response_class=FileResponse,
        responses={
            HTTPStatus.OK: {"content": {"video/mp4": {}, "video/x-matroska": {}}},
            HTTPStatus.PARTIAL_CONTENT: {"description": "The part that was asked for."},
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: {"description": "The file has no such part."},
        },
    )
    async def send_recording(recording: Number) -> FileResponse:
        """The file, or with `Range` a part of it. What is being written is sent as it is now."""
        one = await _known(recording)
        return FileResponse(
            one.path, media_type=one.media_type, filename=one.path.name, content_disposition_type="inline"
        )

    async def _known(number: int) -> Recording:
        found = await to_thread.run_sync(recordings.get, number)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no recording {number}; its file may have been removed")
        return found

    return router


def info_of(recording: Recording) -> RecordingInfo:
    """A recording as clients see it."""
    return RecordingInfo(
        id=recording.number,
        stream=recording.stream,
        element=recording.element,
        start=format_time(recording.start_ms * 1_000_000),
        end=format_time(recording.end_ms * 1_000_000),
        seconds=round((recording.end_ms - recording.start_ms) / 1000, 3),
        images=recording.images,
        size_bytes=recording.size_bytes,
        causes=list(recording.causes),
        recording=recording.is_open,
        media_type=recording.media_type,
        name=recording.path.name,
    )
