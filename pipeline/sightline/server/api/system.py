"""Routes about the machine and the process: what is used, what runs where, the log, and who changed what."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from sightline.api import (
    AuditEntry,
    CpuUse,
    DeviceInfo,
    LogLines,
    MemoryState,
    PlacedPart,
    SystemState,
)
from sightline.devices import survey
from sightline.libraries import OPENCV, installed_versions
from sightline.pipeline import Pipeline
from sightline.redaction import redact
from sightline.runtime.stats.snapshot import RunView
from sightline.server.answers import Kept
from sightline.server.api.served import PIPELINE, Admin, Served
from sightline.server.resources import usable_cores

_LIBRARIES = (
    "sightline",
    "av",
    "numpy",
    *OPENCV,
    "openvino",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnx",
    "pynvvideocodec",
    "tensorrt-cu13",
    "tensorrt-cu12",
)
_Level = Literal["debug", "info", "warning", "error", "critical"]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["system"], dependencies=[Depends(served.known)])
    state = Kept(lambda: to_thread.run_sync(_state_json, served))

    @router.get(f"{PIPELINE}/system", summary="Show the machine and the process", response_model=SystemState)
    async def show_system() -> Response:
        """Return processor time, memory, GPUs, disks with what limits each output, and what runs where and why.

        Processor time is measured since somebody last asked, a second at least; what is on disk, every 15 seconds.
        """
        return Response(await state.get(), media_type="application/json")

    @router.get(f"{PIPELINE}/logs", summary="Show the newest lines of the log")
    def show_logs(
        level: Annotated[_Level, Query(description="Lines of this level and above.")] = "debug",
        after: Annotated[int, Query(ge=0, le=2**62, description="The `newest` of the answer before.")] = 0,
        limit: Annotated[int, Query(ge=1, le=2_000, description="How many at most: the newest.")] = 200,
    ) -> LogLines:
        """Return what the process has logged since it is served, and the messages of the run, without credentials.

        The last 2,000 lines are kept. What is logged at all is the choice of who started it (`--verbose`): `level` of
        the answer.
        """
        return served.logs.newest(level=level, after=after, limit=limit)

    @router.get(f"{PIPELINE}/audit", summary="Show who changed what")
    def show_audit(
        actor: Admin, limit: Annotated[int, Query(ge=1, le=500, description="How many at most: the newest.")] = 50
    ) -> list[AuditEntry]:
        """Return the newest changes that were asked for by the API, the last one first, and how they ended."""
        del actor
        return [AuditEntry.model_validate(one) for one in served.audit.newest(limit=limit)]

    return router


def _state_json(served: Served) -> bytes:
    return _state(served).model_dump_json().encode()


def _state(served: Served) -> SystemState:
    pipeline = served.pipeline
    now, before = served.cpu.read()
    view = pipeline.view()
    return SystemState(
        time=round(time.time(), 3),
        versions=_versions(),
        device=None if view is None else view.device,
        device_reason="" if view is None else redact(view.device_reason),
        devices=_devices(),
        cpu=CpuUse(
            over_seconds=round(now.at - before.at, 3),
            process=round(now.cpu_since(before)["process"], 3),
            cores=None if (shares := now.shares_since(before)) is None else [round(one, 3) for one in shares],
            usable=usable_cores(),
        ),
        memory=MemoryState(process=now.process_bytes, used=now.used_bytes, total=now.total_bytes),
        gpus={} if view is None else {use.gpu: use.to_json() for use in view.gpu_memory},
        disks=served.disks.look(pipeline.description),
        places=[] if view is None else [*_streams(view), *_steps(pipeline)],
    )


def _streams(view: RunView) -> Iterator[PlacedPart]:
    for one in view.streams:
        size = None if one.size_wh is None else "x".join(map(str, one.size_wh))
        details = {"codec": one.codec, "size": size, "reason": one.decoder_reason}
        shown = {name: redact(value) for name, value in details.items() if value is not None}
        yield PlacedPart(part="stream", name=one.stream.name, runs_on=one.decoder, details=shown)


def _steps(pipeline: Pipeline) -> Iterator[PlacedPart]:
    places, engines = pipeline.layout().places, pipeline.engines()
    for name, element in pipeline.description.elements():
        place, report = places.get(name), dict(engines.get(name, {}))
        engine = report.pop("engine", None)
        yield PlacedPart(
            part="step",
            name=name,
            element=element.name,
            runs_on=None if place is None else redact(place),
            engine=None if engine is None else _shown(engine),
            details={key: _shown(value) for key, value in report.items() if value is not None},
        )


def _shown(value: Any) -> str:
    """A value of the run report as text."""
    return redact(", ".join(map(str, value)) if isinstance(value, list | tuple) else value)


@cache
def _versions() -> dict[str, str]:
    own = {"python": platform.python_version(), "system": platform.platform()}
    return {**installed_versions(_LIBRARIES[:1]), **own, **installed_versions(_LIBRARIES[1:])}


@cache
def _devices() -> list[DeviceInfo]:
    """The devices of the machine, which do not change while the process runs."""
    return [DeviceInfo(name=one.name, usable=one.usable, detail=redact(one.detail)) for one in survey()]
