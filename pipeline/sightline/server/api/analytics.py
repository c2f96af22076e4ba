"""Routes of what the history adds up: how long stays in zones lasted, and heat maps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import Field
from starlette.responses import Response

from sightline.api import DwellTable, HeatMapTable
from sightline.media.heat import GRID_WH
from sightline.server.api.events import Patterns
from sightline.server.api.history import HISTORY
from sightline.server.api.served import Served
from sightline.server.api.turns import CSV, AsCsv, From, To, csv_answer, seconds_of
from sightline.server.heat import HeatMap, Kind
from sightline.server.history_rules import DWELL_LIMITS, DwellHistogram

_Name = Annotated[str, Field(max_length=1_000)]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["history"], dependencies=[Depends(served.known)])
    turns, history = served.questions, served.history

    @router.get(
        f"{HISTORY}/dwell", summary="Show how long stays in zones lasted", response_model=DwellTable, responses=CSV
    )
    async def show_dwell(
        as_csv: AsCsv,
        stream: Annotated[Patterns, Query(description="Streams, by name or glob; all when not given.")] = [],  # noqa: B006
        start: From = None,
        to: To = None,
    ) -> Response:
        """Return, for each zone, how many stays that ended within the last hour, or between `from` and `to`, lasted for
        how long: a histogram with the same limits everywhere. The ends of the time are exact to a hundredth of it.
        """
        span = {"start_seconds": seconds_of(start), "end_seconds": seconds_of(to)}
        zones = await turns.ask(partial(history.dwell, streams=stream, **span))
        if as_csv:
            return csv_answer(("stream", "zone", "from_seconds", "to_seconds", "stays"), _buckets(zones))
        plain = {
            "limits": DWELL_LIMITS,
            "zones": [
                {"stream": one.stream, "key": one.name, "stays": one.stays, "seconds": one.seconds} for one in zones
            ],
        }
        return Response(msgspec.json.encode(plain), media_type="application/json")

    @router.get(f"{HISTORY}/heatmap", summary="Show a heat map", response_model=HeatMapTable, responses=CSV)
    async def show_heat_map(
        as_csv: AsCsv,
        stream: Annotated[_Name, Query(description="The stream.")],
        kind: Annotated[
            Kind, Query(description="`feet`: how long objects stood in a cell; `paths`: how many tracks passed it.")
        ] = "feet",
        label: Annotated[Patterns, Query(description="Labels, by name or glob; all when not given.")] = [],  # noqa: B006
        start: From = None,
        to: To = None,
    ) -> Response:
        """Return where objects were on the frames of a stream in the last hour, or between `from` and `to`: the values
        of a grid over the frame, row by row from the top left. Whole hours (UTC) are counted; they are kept for a
        month.
        """
        question = partial(
            history.heat_map, stream, kind, labels=label, start_seconds=seconds_of(start), end_seconds=seconds_of(to)
        )
        found = await turns.ask(question)
        if as_csv:
            return csv_answer(("x", "y", "value"), _cells(found))
        width, height = GRID_WH
        plain = {
            "stream": stream,
            "kind": kind,
            "unit": "s" if kind == "feet" else "tracks",
            "columns": width,
            "rows": height,
            "labels": found.labels,
            "values": [round(value, 3) for value in found.values.ravel().tolist()],
        }
        return Response(msgspec.json.encode(plain), media_type="application/json")

    return router


def _buckets(zones: Iterable[DwellHistogram]) -> Iterable[tuple[object, ...]]:
    for one in zones:
        for low, high, stays in zip((0, *DWELL_LIMITS), (*DWELL_LIMITS, ""), one.stays, strict=True):
            yield one.stream, one.name, low, high, stays


def _cells(found: HeatMap) -> Iterable[tuple[object, ...]]:
    """The centre of each cell in fractions of the frame, and its value."""
    width, height = GRID_WH
    for row, values in enumerate(found.values.tolist()):
        for column, value in enumerate(values):
            yield round((column + 0.5) / width, 5), round((row + 0.5) / height, 5), round(value, 3)
