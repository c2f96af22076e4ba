"""Routes about sources that are not part of the pipeline yet: try one, find cameras, ask one for its streams."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict
from http import HTTPStatus
from ipaddress import ip_address
from itertools import count
from typing import Annotated, Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from sightline.api import Discovery, FoundCameraInfo, FoundStreamInfo, SourceSample
from sightline.config import source_from
from sightline.graph import SourceElement
from sightline.graph.discovery import CameraDiscovery, camera_discovery
from sightline.graph.networks import Networks
from sightline.redaction import redact
from sightline.server.api.changing import admitted, check_text, unmasked
from sightline.server.api.served import PIPELINE, Admin, Served
from sightline.server.api.streams import SourceBody, check_stream
from sightline.server.audit import Actor
from sightline.server.guard import Refused
from sightline.server.judging import url_problem

_Answer = TypeVar("_Answer")
SOURCES = f"{PIPELINE}/sources"
_NAME = "test"
_THREADS = 4


class DiscoveryRequest(BaseModel):
    """Where to ask for cameras, and how long to wait for answers."""

    interfaces: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=16)] | None = Field(
        None, description="Names of network interfaces; all that may be asked on when not given."
    )
    seconds: float = Field(3, ge=0.5, le=10)


class CameraRequest(BaseModel):
    """A camera to ask for its streams."""

    service: str = Field(
        max_length=512, description="The address of its ONVIF service, `http://HOST/onvif/device_service`."
    )
    user: str = Field("", max_length=128)
    password: str = Field("", max_length=128)


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
                return served.tests.run(judged, stream=name, client=_client(actor))

        return await in_thread(run)

    @router.post(f"{SOURCES}/discover", summary="Find cameras on the network")
    async def discover_cameras(actor: Admin, request: DiscoveryRequest | None = None) -> Discovery:
        """Asks for ONVIF cameras by multicast (WS-Discovery), and answers with those that have answered in time."""
        asked = request or DiscoveryRequest(interfaces=None, seconds=3)

        def run() -> Discovery:
            finder, networks = _finder(), _networks(served)
            known = {name: one for name, one in finder.interfaces().items() if not networks.refusal(ip_address(one))}
            wrong = [name for name in asked.interfaces or () if name not in known]
            if wrong:
                text = (
                    f"there is no interface {wrong[0]!r} that may be asked on; there are {', '.join(known) or 'none'}"
                )
                raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, text)
            chosen = {name: one for name, one in known.items() if name in (asked.interfaces or known)}
            with (
                served.audit.change(actor, "discover cameras", target=", ".join(chosen)),
                served.tests.turn(_client(actor)),
            ):
                found = finder.discover(list(chosen.values()), networks=networks, seconds=asked.seconds)
            return Discovery(cameras=[FoundCameraInfo(**asdict(one)) for one in found], interfaces=list(chosen))

        return await in_thread(run)

    @router.post(f"{SOURCES}/onvif", summary="Ask a camera for its streams")
    async def ask_camera(actor: Admin, request: CameraRequest) -> list[FoundStreamInfo]:
        """Asks the ONVIF service of a camera, with its user and password, for the addresses of its streams."""
        if problem := url_problem(request.service):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, problem)

        def run() -> list[FoundStreamInfo]:
            finder = _finder()
            with served.audit.change(actor, "ask camera", target=request.service), served.tests.turn(_client(actor)):
                found = finder.streams(
                    request.service, user=request.user, password=request.password, networks=_networks(served)
                )
            return [
                FoundStreamInfo(name=one.name, uri=redact(one.uri), codec=one.codec, size=one.size_wh, fps=one.fps)
                for one in found
            ]

        return await in_thread(run)

    async def in_thread(run: Callable[[], _Answer]) -> _Answer:
        if not limiter:
            limiter.append(CapacityLimiter(_THREADS))
        return await to_thread.run_sync(run, limiter=limiter[0])

    return router


def _finder() -> CameraDiscovery:
    found = camera_discovery()
    if found is None:
        raise Refused(HTTPStatus.CONFLICT, "no installed package finds cameras")
    return found


def _networks(served: Served) -> Networks:
    """Where cameras may be, as for sources by RTSP."""
    return Networks(served.policy.networks_for("rtsp"))


def _client(actor: Actor) -> str:
    return f"{actor.name} {actor.address}"


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
