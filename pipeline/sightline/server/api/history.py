"""Routes of the history: what is counted now, series of the last days, and what was reported in them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from sightline.api import (
    HistoryRecords,
    HistoryTable,
    LabelTotals,
    PresentCounts,
    RecordCounts,
    RecordValues,
    StreamCounts,
)
from sightline.media.time import Duration, format_time
from sightline.runtime.stats.snapshot import RunView
from sightline.server.api.events import Patterns, Wanted
from sightline.server.api.served import PIPELINE, Served
from sightline.server.api.turns import CSV, AsCsv, From, To, csv_answer, csv_time, seconds_of
from sightline.server.guard import Refused
from sightline.server.history import SeriesAnswer
from sightline.server.history_search import LONGEST_TEXT, MOST_ATTRIBUTES, RecordQuery
from sightline.server.history_series import SERIES

HISTORY = f"{PIPELINE}/history"
_RECORD = ("time", "record", "stream", "element", "label", "kind", "rule", "frame", "text", "data")


def _number_of_seconds(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else value


_NAMES = "; ".join(f"`{one.name}`: {one.meaning[0].lower()}{one.meaning[1:-1]}" for one in SERIES.values())
_Name = Literal[
    "fps",
    "latency_p50_ms",
    "latency_p95_ms",
    "dropped",
    "objects",
    "tracks",
    "counts",
    "events",
    "crossings",
    "occupancy",
    "occupancy_max",
    "cpu",
    "memory",
]
Names = Annotated[list[_Name], Query(min_length=1, max_length=len(SERIES), description=f"Series, by name. {_NAMES}.")]
Step = Annotated[
    Annotated[Duration, BeforeValidator(_number_of_seconds), Field(gt=0, le=31 * 86_400 * 10**9)] | None,
    Query(description="The time between two values, such as `10s` or `5m`, or a number of seconds."),
]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["history"], dependencies=[Depends(served.known)])
    turns, history = served.questions, served.history

    @router.get(f"{PIPELINE}/counts", summary="Show what is counted now")
    async def show_counts() -> PresentCounts:
        """Return the frames and objects of each stream since the run began, and the counts of its rules."""
        return _present(served.pipeline.view(), time=format_time(history.now_ns()))

    @router.get(HISTORY, summary="Show time series", response_model=HistoryTable, responses=CSV)
    async def show_history(
        series: Names,
        as_csv: AsCsv,
        stream: Annotated[Patterns, Query(description="Streams, by name or glob; all when not given.")] = [],  # noqa: B006
        start: From = None,
        to: To = None,
        step: Step = None,
        combine: Annotated[
            Literal["mean", "max", "sum"] | None,
            Query(description="How samples are combined to one value; as the series does it when not given."),
        ] = None,
    ) -> Response:
        """Return time series as columns: of the last hour unless `from` and `to` are given.

        There is a sample of each stream every 10 seconds for a day, every minute for a week and every ten minutes for a
        month. A step is made longer where there are none that short; an answer has at most 2,000 times and 100,000
        values.
        """
        question = partial(
            history.series,
            series,
            streams=stream,
            start_seconds=seconds_of(start),
            end_seconds=seconds_of(to),
            step_seconds=None if step is None else max(1, -(-step // 1_000_000_000)),
            combine=combine,
        )
        answer = await turns.ask(question)
        if as_csv:
            return csv_answer(("time", "series", "stream", "key", "unit", "value"), _values(answer))
        return Response(_table(answer), media_type="application/json")

    @router.get(f"{HISTORY}/records", summary="Show earlier events", response_model=HistoryRecords, responses=CSV)
    async def show_records(
        query: Asked,
        as_csv: AsCsv,
        start: From = None,
        to: To = None,
        after: Annotated[int, Query(ge=0, le=2**62, description="The `next` of the answer before.")] = 0,
        limit: Annotated[int, Query(ge=1, le=1_000, description="How many at most.")] = 100,
        order: Annotated[Literal["oldest", "newest"], Query(description="Which come first.")] = "oldest",
    ) -> Response:
        """Return events and messages of the last day, or of another time within the last week. The time is when they
        were reported, by the server's clock. As CSV, what to give as `after` is in the header `Sightline-Next`.
        """
        question = partial(
            history.records,
            query,
            start_seconds=seconds_of(start),
            end_seconds=seconds_of(to),
            after=after,
            limit=limit,
            newest_first=order == "newest",
        )
        answer = await turns.ask(question)
        if as_csv:
            table = csv_answer(_RECORD, map(_record, answer.records))
            if answer.next is not None:
                table.headers["Sightline-Next"] = str(answer.next)
            return table
        following = b"null" if answer.next is None else b"%d" % answer.next
        body = b'{"records":[%b],"next":%b}' % (b",".join(answer.records), following)
        return Response(body, media_type="application/json")

    @router.get(f"{HISTORY}/records/counts", summary="Count earlier events", response_model=RecordCounts)
    async def count_records(
        query: Asked,
        start: From = None,
        to: To = None,
        points: Annotated[int, Query(ge=1, le=1_000, description="How many intervals there are at most.")] = 120,
    ) -> Response:
        """Return how many events and messages each stream had in intervals of the last day, or of another time."""
        question = partial(
            history.record_counts,
            query,
            start_seconds=seconds_of(start),
            end_seconds=seconds_of(to),
            points=points,
        )
        answer = await turns.ask(question)
        plain = {"step": answer.step_seconds, "times": answer.times, "counts": answer.counts}
        return Response(msgspec.json.encode(plain), media_type="application/json")

    @router.get(f"{HISTORY}/records/values", summary="Show what earlier events can be filtered by")
    async def show_record_values() -> RecordValues:
        """Return the streams, kinds, rules, labels and steps of the records that the history has."""
        return RecordValues(**await turns.ask(history.store.record_values))

    return router


def asked_records(
    wanted: Wanted,
    text: Annotated[
        str,
        Query(max_length=LONGEST_TEXT, description="Words: one of the record's words begins with each of them."),
    ] = "",
    attribute: Annotated[
        list[Annotated[str, Field(max_length=LONGEST_TEXT)]],
        Query(max_length=MOST_ATTRIBUTES, description="What the event holds, such as `direction=in`; all must."),
    ] = [],  # noqa: B006
) -> RecordQuery:
    """The question about records that the parameters of a request make. Raises Refused."""
    try:
        return RecordQuery(wanted, text, tuple(attribute))
    except ValueError as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error


Asked = Annotated[RecordQuery, Depends(asked_records)]


def _present(view: RunView | None, *, time: str) -> PresentCounts:
    if view is None:
        return PresentCounts(time=time, running=False, streams={})
    streams = {
        one.stream.name: StreamCounts(
            frames=one.finished,
            objects={
                label: LabelTotals(objects=count.objects, tracks=count.tracks)
                for label, count in sorted(dict(one.labels).items())
            },
            rules={
                element: {rule: dict(counts) for rule, counts in by_stream[one.stream.name].items()}
                for element, by_stream in view.counts.items()
                if one.stream.name in by_stream
            },
        )
        for one in view.streams
    }
    return PresentCounts(time=time, running=view.is_running, streams=streams)


def _record(body: bytes) -> Iterable[object]:
    """A record as a row; what its kind adds is JSON in the last cell."""
    record = msgspec.json.decode(body)
    event = record.get("event", {})
    more = {name: value for name, value in (event or record.get("data") or {}).items() if name not in ("kind", "rule")}
    told = {**record, "kind": record.get("kind", event.get("kind")), "rule": event.get("rule")}
    return [*(told.get(name, "") for name in _RECORD[:-1]), msgspec.json.encode(more).decode() if more else ""]


def _values(answer: SeriesAnswer) -> Iterable[tuple[object, ...]]:
    """A row for each value that is known, by time."""
    for index, time in enumerate(map(csv_time, answer.times)):
        for one in answer.columns:
            value = one.values[index]
            if value is not None:
                yield time, one.name, one.stream, one.key, one.unit, value


def _table(answer: SeriesAnswer) -> bytes:
    return msgspec.json.encode(
        {
            "step": answer.step_seconds,
            "times": answer.times,
            "columns": [
                {
                    "series": one.name,
                    "stream": one.stream,
                    "key": one.key,
                    "unit": one.unit,
                    "combine": one.combine,
                    "values": one.values,
                }
                for one in answer.columns
            ],
        }
    )
