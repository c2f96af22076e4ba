"""Routes about streams: list, add, replace, remove, pause."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Body, Depends, Response

from sightline.api import Changed, StreamInfo
from sightline.config import source_from
from sightline.graph import PipelineDescription
from sightline.graph.masked import masked
from sightline.server.api.changing import change, check_text, unmasked
from sightline.server.api.served import PIPELINE, Admin, IfMatch, Operator, Prove, Served, tag_in
from sightline.server.audit import Actor
from sightline.server.guard import Refused
from sightline.server.status import stream_json

STREAMS = f"{PIPELINE}/streams"
STREAM = f"{STREAMS}/{{stream}}"
_PAUSE_SECONDS = 30.0
SourceBody = Annotated[
    str | dict[str, Any],
    Body(
        description="The source as in YAML: a URL, or its options with `uri`. Values shown as `***` stay as they are.",
        examples=["rtsp://192.168.1.20/main", {"uri": "rtsp://192.168.1.20/main", "max_fps": 5}],
    ),
]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["streams"], dependencies=[Depends(served.known)])
    pipeline = served.pipeline

    def infos() -> dict[str, StreamInfo]:
        view = pipeline.view()
        states = {} if view is None else {one.stream.name: stream_json(one, view) for one in view.streams}
        return {
            name: StreamInfo(name=name, source=masked(source), status=states.get(name))
            for name, source in pipeline.description.sources.items()
        }

    @router.get(STREAMS, summary="List the streams")
    def list_streams(response: Response) -> list[StreamInfo]:
        response.headers["ETag"] = f'"{pipeline.configuration.etag}"'
        return list(infos().values())

    @router.get(STREAM, summary="Show a stream")
    def show_stream(stream: str, response: Response) -> StreamInfo:
        response.headers["ETag"] = f'"{pipeline.configuration.etag}"'
        check_stream(served, stream)
        return infos()[stream]

    @router.put(STREAM, summary="Add a stream, or replace its source")
    async def put_stream(
        stream: str, source: SourceBody, actor: Admin, if_match: IfMatch = None, prove: Prove = None
    ) -> Changed:
        """Other streams go on. Without `prove`, a camera that does not answer is added, and tried again and again."""

        def edit(description: PipelineDescription) -> PipelineDescription:
            known = description.sources.get(stream)
            options = None if known is None else known.model_dump(mode="json", by_alias=True, exclude_unset=True)
            given = {"uri": source} if isinstance(source, str) else unmasked(source, options)
            check_text(served, given, key=("sources", stream))
            read = source_from(given, registry=served.registry, name=stream)
            return description.model_copy(update={"sources": {**description.sources, stream: read}})

        return await change(
            served, actor, "put stream", stream, edit, expected=tag_in(if_match), prove=prove, probation=0
        )

    @router.delete(STREAM, summary="Remove a stream")
    async def remove_stream(stream: str, actor: Admin, if_match: IfMatch = None) -> Changed:
        """Its last frames pass all steps, and its files are closed; its counts stay in the report."""

        def edit(description: PipelineDescription) -> PipelineDescription:
            check_stream(served, stream)
            kept = {name: one for name, one in description.sources.items() if name != stream}
            return description.model_copy(update={"sources": kept})

        return await change(served, actor, "remove stream", stream, edit, expected=tag_in(if_match), probation=0)

    @router.post(f"{STREAM}/pause", summary="Pause a stream")
    async def pause_stream(stream: str, actor: Operator) -> StreamInfo:
        """A camera is let go, a file stops where it is; the answer comes when the last frame has passed all steps."""
        return await rest(stream, actor, "pause stream", lambda: pipeline.pause(stream).wait(_PAUSE_SECONDS))

    @router.post(f"{STREAM}/resume", summary="Go on with a paused stream")
    async def resume_stream(stream: str, actor: Operator) -> StreamInfo:
        """A camera is connected again, a file goes on where it stopped."""
        return await rest(stream, actor, "resume stream", lambda: pipeline.resume(stream))

    async def rest(stream: str, actor: Actor, action: str, carry_out: Callable[[], None]) -> StreamInfo:
        check_stream(served, stream)

        def ask() -> None:
            with served.audit.change(actor, action, target=stream):
                carry_out()

        await to_thread.run_sync(ask)
        return infos()[stream]

    return router


def check_stream(served: Served, stream: str) -> None:
    """Raises Refused when there is no stream of that name."""
    names = served.pipeline.description.sources
    if stream not in names:
        raise Refused(HTTPStatus.NOT_FOUND, f"there is no stream {stream!r}; streams: {', '.join(names) or 'none'}")
