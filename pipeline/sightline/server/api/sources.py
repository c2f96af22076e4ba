"""Routes about sources that are not part of the pipeline yet: try one."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Query

from sightline.api import SourceSample
from sightline.config import source_from
from sightline.graph import SourceElement
from sightline.server.api.changing import admitted, check_text, unmasked
from sightline.server.api.served import PIPELINE, Admin, Served
from sightline.server.api.streams import SourceBody, check_stream

SOURCES = f"{PIPELINE}/sources"
_NAME = "test"
_THREADS = 4


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["streams"], dependencies=[Depends(served.known)])
    limiter: list[CapacityLimiter] = []  # made in the event loop

    @router.post(f"{SOURCES}/test", summary="Try a source before it is added")
    async def test_source(
        source: SourceBody,
        actor: Admin,
        stream: Annotated[
            str | None, Query(description="The stream that it is to replace; `***` is what that has.", max_length=64)
        ] = None,
    ) -> SourceSample:
        """Connects once, in a process of its own, and answers with an image and facts, or with the reason. It is judged
        as a change would be, takes 20 s at most, and changes nothing. One test at a time for each client.
        """
        if stream is not None:
            check_stream(served, stream)

        def run() -> SourceSample:
            name, judged = _judged(served, source, stream)
            target = str(getattr(judged, "uri", judged.name))
            with served.audit.change(actor, "test source", target=target):
                return served.tests.run(judged, stream=name, client=f"{actor.name} {actor.address}")

        if not limiter:
            limiter.append(CapacityLimiter(_THREADS))
        return await to_thread.run_sync(run, limiter=limiter[0])

    return router


def _judged(served: Served, given: str | dict[str, Any], stream: str | None) -> tuple[str, SourceElement]:
    """Return a source as it may be read, with the name that messages call it. Raises InvalidConfiguration."""
    present = served.pipeline.description
    known = None if stream is None else present.sources[stream]
    options = None if known is None else known.model_dump(mode="json", by_alias=True, exclude_unset=True)
    name = stream or _free(present.sources)
    whole = {"uri": given} if isinstance(given, str) else unmasked(given, options)
    check_text(served, whole, key=("sources", name))
    read = source_from(whole, registry=served.registry, name=name)
    wanted = present.model_copy(update={"sources": {**present.sources, name: read}})
    return name, admitted(served, wanted, changed_from=present).sources[name]


def _free(taken: Collection[str]) -> str:
    """A name that no stream has."""
    return next(name for number in count() if (name := f"{_NAME}-{number}" if number else _NAME) not in taken)
