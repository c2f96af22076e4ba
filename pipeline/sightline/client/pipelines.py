"""A pipeline of a server, as an object: what can be read of it, and what can be changed."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec
from pydantic import TypeAdapter, ValidationError

from sightline.api import (
    AuditEntry,
    Changed,
    ConfigurationFileInfo,
    Discovery,
    DwellTable,
    ElementInfo,
    EventDetails,
    EventRecord,
    FoundCameraInfo,
    FoundStreamInfo,
    HeatMapTable,
    HistoryRecords,
    HistoryTable,
    Inspection,
    LogLines,
    MessageRecord,
    PipelineGraph,
    PipelineState,
    PresentCounts,
    RecentRecords,
    RecordingInfo,
    RuleInfo,
    Saved,
    SearchAnswer,
    SourceSample,
    StreamInfo,
    SystemState,
    TrackDetails,
    Verdict,
    Version,
)
from sightline.client.connection import Answer, Connection, Query
from sightline.client.errors import NotFound, UnexpectedAnswer
from sightline.client.events import Record, follow

PIPELINES = "/api/v1/pipelines"
_MOST_RECORDS = 1_000
"""Of an answer."""
_Type = TypeVar("_Type")


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration as YAML, with secrets as `***`, and its tag: what a change made from it gives as `if_match`."""

    text: str
    etag: str


class PipelineClient:
    """One pipeline of a server; made by `Client.pipeline`.

    What changes something takes `if_match`, the tag of the configuration that the change was made from: when the
    configuration is another one by now, the change is refused (`Stale`). With `prove`, seconds of probation, the call
    returns when the change has worked for that time, and raises `Reverted` when it has not. Without, it returns when
    the change is applied; a change that fails soon is reverted all the same.

    All methods raise ClientError: see `sightline.client.errors`.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self.name = name
        self._connection = connection
        self._path = f"{PIPELINES}/{_segment(name)}"

    def state(self) -> PipelineState:
        """Whether it runs and is ready, and the tag of its configuration."""
        for one in pipelines_of(self._connection):
            if one.name == self.name:
                return one
        raise NotFound(f"there is no pipeline {self.name!r}", status=404)

    def status(self) -> dict[str, Any]:
        """Streams, steps, queues, deliveries and messages with all counters."""
        return self._read(dict[str, Any])

    def system(self) -> SystemState:
        """The machine and the process: processor, memory, disks and retention, what runs where and why."""
        return self._read(SystemState, "system")

    def logs(self, *, level: str = "debug", after: int = 0, limit: int = 200) -> LogLines:
        """The newest lines of the log from a level on, oldest first; `after` is the `newest` of the answer before."""
        query: Query = {"level": level, "after": after, "limit": limit}
        return _typed(LogLines, self._connection.read(self._below("logs"), query=query))

    def audit(self, *, limit: int = 50) -> list[AuditEntry]:
        """Who changed what by the API, the newest change first, and how each ended; for admins."""
        return _typed(list[AuditEntry], self._connection.read(self._below("audit"), query={"limit": limit}))

    def report(self) -> dict[str, Any]:
        """The report of the last run, in the form of `sightline run --report`; NotFound before the run is over."""
        return self._read(dict[str, Any], "report")

    def streams(self) -> list[StreamInfo]:
        """All streams: sources without secrets, and how they are."""
        return self._read(list[StreamInfo], "streams")

    def stream(self, name: str) -> StreamInfo:
        """One stream."""
        return self._read(StreamInfo, "streams", name)

    def put_stream(
        self, name: str, source: str | Mapping[str, Any], *, if_match: str | None = None, prove: float | None = None
    ) -> Changed:
        """Add a stream, or replace its source: a URL, or options as in YAML. Values shown as `***` stay as they are."""
        return self._write("PUT", "streams", name, json=source, if_match=if_match, prove=prove)

    def remove_stream(self, name: str, *, if_match: str | None = None) -> Changed:
        """Remove a stream; its last frames pass all steps."""
        return self._write("DELETE", "streams", name, if_match=if_match)

    def test_source(self, source: str | Mapping[str, Any], *, stream: str | None = None) -> SourceSample:
        """Try a source before it is added: connect once, and return an image and facts, or the reason why there is
        none. In a source that is to replace `stream`, `***` is what that has. Nothing changes.
        """
        answer = self._connection.write("POST", self._below("sources", "test"), json=source, query={"stream": stream})
        return _typed(SourceSample, answer)

    def discover(self, *, interfaces: Sequence[str] | None = None, seconds: float = 3.0) -> list[FoundCameraInfo]:
        """Find ONVIF cameras on the networks of the server, on all of its interfaces or some."""
        asked = {"interfaces": None if interfaces is None else list(interfaces), "seconds": seconds}
        return _typed(Discovery, self._connection.write("POST", self._below("sources", "discover"), json=asked)).cameras

    def streams_of(self, service: str, *, user: str = "", password: str = "") -> list[FoundStreamInfo]:
        """Ask a camera that `discover` found, by its `service`, for its streams."""
        asked = {"service": service, "user": user, "password": password}
        return _typed(
            list[FoundStreamInfo], self._connection.write("POST", self._below("sources", "onvif"), json=asked)
        )

    def pause(self, stream: str) -> StreamInfo:
        """Disconnect a camera, or stop a file where it is; returns when the last frame has passed all steps."""
        return _typed(StreamInfo, self._connection.write("POST", self._below("streams", stream, "pause")))

    def resume(self, stream: str) -> StreamInfo:
        """Go on with a paused stream."""
        return _typed(StreamInfo, self._connection.write("POST", self._below("streams", stream, "resume")))

    def graph(self) -> PipelineGraph:
        """The graph as it runs: steps, the threads that run them, and the links that frames wait in."""
        return self._read(PipelineGraph, "graph")

    def elements(self) -> list[ElementInfo]:
        """All steps with the options that were given to them."""
        return self._read(list[ElementInfo], "elements")

    def element(self, element_id: str) -> ElementInfo:
        """One step, such as `zones-1`."""
        return self._read(ElementInfo, "elements", element_id)

    def change_element(
        self,
        element_id: str,
        options: Mapping[str, Any],
        *,
        if_match: str | None = None,
        prove: float | None = None,
    ) -> Changed:
        """Change options of a step: they are merged into the present ones, and None takes one out."""
        return self._write("PATCH", "elements", element_id, json=options, if_match=if_match, prove=prove)

    def add_elements(
        self,
        steps: Sequence[str | Mapping[str, Any]],
        *,
        after: str | None,
        if_match: str | None = None,
        prove: float | None = None,
    ) -> Changed:
        """Add steps, as in YAML, behind the one with the id `after`, in its branch; None: before all others."""
        body = {"steps": steps, "after": after}
        return self._write("POST", "elements", json=body, if_match=if_match, prove=prove)

    def remove_element(self, element_id: str, *, if_match: str | None = None, prove: float | None = None) -> Changed:
        """Remove a step."""
        return self._write("DELETE", "elements", element_id, if_match=if_match, prove=prove)

    def rules(self) -> list[RuleInfo]:
        """All rules with what they have counted."""
        return self._read(list[RuleInfo], "rules")

    def rule(self, element_id: str, name: str) -> RuleInfo:
        """One rule of a step."""
        return self._read(RuleInfo, "rules", element_id, name)

    def put_rule(
        self,
        element_id: str,
        name: str,
        options: Mapping[str, Any],
        *,
        if_match: str | None = None,
        prove: float | None = None,
    ) -> Changed:
        """Add a rule to a step, or replace it, while it counts."""
        return self._write("PUT", "rules", element_id, name, json=options, if_match=if_match, prove=prove)

    def change_rules(
        self,
        rules: Mapping[str, Mapping[str, Mapping[str, Any] | None]],
        *,
        if_match: str | None = None,
        prove: float | None = None,
    ) -> Changed:
        """Change several rules at once, by step and name: add or replace them, None removes one. All or none.

        A rule that goes while an equal one comes in the same step is renamed: its counts go along.
        """
        return self._write("PATCH", "rules", json=rules, if_match=if_match, prove=prove)

    def remove_rule(
        self, element_id: str, name: str, *, if_match: str | None = None, prove: float | None = None
    ) -> Changed:
        """Remove a rule of a step."""
        return self._write("DELETE", "rules", element_id, name, if_match=if_match, prove=prove)

    def configuration(self) -> Configuration:
        """The present configuration, with what has changed since the start."""
        answer = self._connection.read(self._below("configuration"))
        if answer.etag is None:
            raise UnexpectedAnswer("the configuration has no tag; is this a server of Sightline?")
        return Configuration(answer.content.decode("utf-8", "replace"), answer.etag)

    def check(self, text: str) -> Verdict:
        """Say what is wrong with a configuration (YAML); nothing changes."""
        answer = self._connection.write("POST", self._below("configuration", "check"), yaml=text)
        return _typed(Verdict, answer)

    def apply(self, text: str, *, if_match: str, prove: float = 5.0) -> Changed:
        """Replace the configuration by a text (YAML) in which `***` stays what it is; `if_match="*"` replaces any.

        Returns when it has worked for `prove` seconds.
        """
        path = self._below("configuration")
        return _typed(Changed, self._connection.write("PUT", path, yaml=text, if_match=if_match, prove_seconds=prove))

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a configuration, with everything that is installed on the server."""
        return self._read(dict[str, Any], "configuration", "schema")

    def version(self, tag: str) -> Configuration:
        """An earlier configuration, by its tag."""
        answer = self._connection.read(self._below("configuration", "versions", tag))
        return Configuration(answer.content.decode("utf-8", "replace"), tag)

    def file(self) -> ConfigurationFileInfo:
        """What the pipeline's file describes; NotFound when it comes from none."""
        return self._read(ConfigurationFileInfo, "configuration", "file")

    def versions(self) -> list[Version]:
        """The last hundred versions of the configuration, the present one last."""
        return self._read(list[Version], "configuration", "versions")

    def roll_back(self, to: str | None = None, *, prove: float = 5.0) -> Changed:
        """Go back to the last configuration that worked, or to the one with the tag `to`."""
        path = self._below("configuration", "rollback")
        return _typed(Changed, self._connection.write("POST", path, query={"to": to}, prove_seconds=prove))

    def save(self) -> bool:
        """Write the configuration to its YAML file, with its comments; return whether the file has changed."""
        return _typed(Saved, self._connection.write("POST", self._below("configuration", "save"))).written

    def reset_counts(self, element: str, *, stream: str | None = None) -> None:
        """Let the counts of the rules of a step begin anew: those of one stream, or of all."""
        query = {} if stream is None else {"stream": stream}
        self._connection.write("POST", self._below("rules", element, "reset"), json=query)

    def record(
        self, stream: str, *, before: str | None = None, after: str | None = None, step: str | None = None
    ) -> None:
        """Let the `record` steps (or one, by its id) write a clip: from `before` (`10s`) until `after`."""
        wanted = {"before": before, "after": after, "step": step}
        given = {name: value for name, value in wanted.items() if value is not None}
        self._connection.write("POST", self._below("streams", stream, "record"), json=given)

    def image(self, stream: str, *, width: int | None = None) -> bytes:
        """The newest frame of a stream as JPEG, no wider than about `width` (160, 320, 640, 960)."""
        return self._connection.read(self._below("streams", stream, "image.jpg"), query={"width": width}).content

    def snapshot(self, stream: str) -> bytes:
        """The next frame of a stream in full size, as JPEG."""
        return self._connection.write("POST", self._below("streams", stream, "snapshot")).content

    def inspect(self, stream: str) -> Inspection:
        """What each step makes of the next frame of a stream, and what models got and gave."""
        return _typed(Inspection, self._connection.write("POST", self._below("streams", stream, "inspect")))

    def inspection_image(self, inspection: Inspection, name: str) -> bytes:
        """An image that an inspection of the last minute names (`image`, or `input` of a target), as PNG."""
        return self._connection.read(self._below("inspections", inspection.id, name)).content

    def counts(self) -> PresentCounts:
        """Frames, objects and the counts of rules of each stream, now."""
        return self._read(PresentCounts, "counts")

    def history(
        self,
        *series: str,
        streams: Sequence[str] = (),
        start: datetime | None = None,
        to: datetime | None = None,
        step: str | None = None,
        combine: str | None = None,
    ) -> HistoryTable:
        """Time series (`fps`, `tracks`, ...) as columns: of the last hour, or from `start` until `to`, with a value for
        each `step` (`5m`).
        """
        query: Query = {
            "series": series,
            "stream": streams,
            **_span(start, to),
            "step": step,
            "combine": combine,
        }
        return _typed(HistoryTable, self._connection.read(self._below("history"), query=query))

    def dwell(
        self, *, streams: Sequence[str] = (), start: datetime | None = None, to: datetime | None = None
    ) -> DwellTable:
        """How long the stays in zones lasted that ended in the last hour, or from `start` until `to`: histograms."""
        query: Query = {"stream": streams, **_span(start, to)}
        return _typed(DwellTable, self._connection.read(self._below("history", "dwell"), query=query))

    def heat_map(
        self,
        stream: str,
        *,
        kind: Literal["feet", "paths"] = "feet",
        labels: Sequence[str] = (),
        start: datetime | None = None,
        to: datetime | None = None,
    ) -> HeatMapTable:
        """Where objects stood (`feet`, in seconds) or went (`paths`, in tracks) on the frames of a stream, in the last
        hour or from `start` until `to`: a grid.
        """
        query: Query = {"stream": stream, "kind": kind, "label": labels, **_span(start, to)}
        return _typed(HeatMapTable, self._connection.read(self._below("history", "heatmap"), query=query))

    def recent_events(self, *, limit: int = 100) -> list[EventRecord | MessageRecord]:
        """The last events and messages, oldest first."""
        return self._recent({}, limit=limit).records

    def search(
        self,
        text: str = "",
        *,
        attributes: Mapping[str, object] | None = None,
        types: Sequence[str] = (),
        streams: Sequence[str] = (),
        kinds: Sequence[str] = (),
        rules: Sequence[str] = (),
        labels: Sequence[str] = (),
        elements: Sequence[str] = (),
        start: datetime | None = None,
        to: datetime | None = None,
        most: int = 1_000,
    ) -> Iterator[EventRecord | MessageRecord]:
        """Yield earlier events and messages, newest first: of the last day, or from `start` until `to` within the last
        week; `most` at most.

        A word of the record begins with each word of `text`; the event holds all `attributes` (`{"direction": "in"}`);
        the other arguments choose by names or globs.
        """
        query: dict[str, Any] = {
            "text": text,
            "attribute": [f"{name}={value}" for name, value in (attributes or {}).items()],
            "type": types,
            "stream": streams,
            "kind": kinds,
            "rule": rules,
            "label": labels,
            "element": elements,
            "from": None if start is None else start.isoformat(),
            "to": None if to is None else to.isoformat(),
            "order": "newest",
        }
        after, left = 0, most
        while left > 0:
            asked = {**query, "after": after, "limit": min(left, _MOST_RECORDS)}
            answer = _typed(HistoryRecords, self._connection.read(self._below("history", "records"), query=asked))
            yield from answer.records
            left -= len(answer.records)
            if answer.next is None:
                return
            after = answer.next

    def event(self, event_id: str) -> EventDetails:
        """An event of the last week by its `id`: where it happened, and the recordings that show it."""
        return self._read(EventDetails, "events", event_id)

    def thumbnail(self, event_id: str, *, crop: bool = False) -> bytes:
        """The frame on which an event happened, or a crop of its object, as JPEG. Raises NotFound without one."""
        query: Query = {"crop": "true" if crop else "false"}
        return self._connection.read(self._below("events", event_id, "thumbnail.jpg"), query=query).content

    def recordings(
        self,
        *,
        streams: Sequence[str] = (),
        start: datetime | None = None,
        to: datetime | None = None,
        limit: int = 100,
    ) -> list[RecordingInfo]:
        """The files that `record` steps have written, newest first; those that have something of a span of time."""
        query: Query = {
            "stream": streams,
            "from": None if start is None else start.isoformat(),
            "to": None if to is None else to.isoformat(),
            "limit": limit,
        }
        return _typed(list[RecordingInfo], self._connection.read(self._below("recordings"), query=query))

    def recording(self, recording_id: int) -> bytes:
        """The file of a recording, as it is now."""
        return self._connection.read(self._below("recordings", str(recording_id), "file")).content

    def find_tracks(
        self,
        text: str = "",
        *,
        like: int | bytes | None = None,
        streams: Sequence[str] = (),
        labels: Sequence[str] = (),
        start: datetime | None = None,
        to: datetime | None = None,
        timezone: str | None = None,
        limit: int = 20,
        threshold: float | None = None,
        step: str | None = None,
    ) -> SearchAnswer:
        """The tracks of `search_index` that fit words best ("red car yesterday evening"), the best first.

        `like` is the `id` of a track that others shall look like, or an encoded image (JPEG, PNG), which needs the role
        operator. `streams`, `labels`, `start` and `to` go before what the text says; `timezone` is that of times in it.
        Tracks with a lower score than `threshold` are left out. `step` is the id of the step, where there are several.
        """
        query: Query = {
            "text": text,
            "like": like if isinstance(like, int) else None,
            "stream": streams,
            "label": labels,
            **_span(start, to),
            "timezone": timezone,
            "limit": limit,
            "threshold": threshold,
            "step": step,
        }
        if isinstance(like, bytes):
            answer = self._connection.write("POST", self._below("search"), query=query, image=like)
        else:
            answer = self._connection.read(self._below("search"), query=query)
        return _typed(SearchAnswer, answer)

    def track(self, track_id: int, *, step: str | None = None) -> TrackDetails:
        """A track that was found, by its `id`, with the recordings and events that show it."""
        answer = self._connection.read(self._below("search", "tracks", str(track_id)), query={"step": step})
        return _typed(TrackDetails, answer)

    def track_image(self, track_id: int, *, step: str | None = None) -> bytes:
        """The image of a track, by its `id`, as JPEG. Raises NotFound without one."""
        below = self._below("search", "tracks", str(track_id), "image.jpg")
        return self._connection.read(below, query={"step": step}).content

    def events(
        self,
        *,
        types: Sequence[str] = (),
        streams: Sequence[str] = (),
        kinds: Sequence[str] = (),
        rules: Sequence[str] = (),
        labels: Sequence[str] = (),
        elements: Sequence[str] = (),
        after: str | None = None,
        reconnect_seconds: float = 60.0,
    ) -> Generator[Record, None, None]:
        """Events and messages from this call on, or behind the record with the id `after`, as they come, without end.

        Each argument chooses by names or globs (`gate*`). When the connection breaks off, it is made again, and the
        records that came meanwhile follow; a `LostRecords` stands where some are missing. After `reconnect_seconds`
        without an answer, Unreachable is raised. Close the iterator, or leave the loop, to end it.
        """
        wanted = {
            "type": types,
            "stream": streams,
            "kind": kinds,
            "rule": rules,
            "label": labels,
            "element": elements,
        }
        begin = self._recent(wanted, limit=1).newest if after is None else after
        return follow(
            self._connection,
            self._below("events"),
            query=wanted,
            after=begin,
            reconnect_seconds=reconnect_seconds,
        )

    def _recent(self, wanted: Mapping[str, Sequence[str]], *, limit: int) -> RecentRecords:
        query: Query = {**wanted, "limit": limit}
        return _typed(RecentRecords, self._connection.read(self._below("events", "recent"), query=query))

    def _below(self, *names: str) -> str:
        return "/".join([self._path, *map(_segment, names)])

    def _read(self, kind: type[_Type], *names: str) -> _Type:
        return _typed(kind, self._connection.read(self._below(*names)))

    def _write(
        self,
        method: str,
        *names: str,
        json: object = msgspec.UNSET,
        if_match: str | None = None,
        prove: float | None = None,
    ) -> Changed:
        path = self._below(*names)
        answer = self._connection.write(method, path, json=json, if_match=if_match, prove_seconds=prove)
        return _typed(Changed, answer)


def pipelines_of(connection: Connection) -> list[PipelineState]:
    """The pipelines of a server. Raises ClientError."""
    return _typed(list[PipelineState], connection.read(PIPELINES))


def _span(start: datetime | None, to: datetime | None) -> Query:
    return {"from": None if start is None else start.isoformat(), "to": None if to is None else to.isoformat()}


def _typed(kind: type[_Type], answer: Answer) -> _Type:
    try:
        return TypeAdapter(kind).validate_python(answer.json())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        text = f"the answer is not as this version knows it: {where}: {first['msg']}; is the server of another version?"
        raise UnexpectedAnswer(text) from error


def _segment(name: str) -> str:
    """A part of a path. Dots alone would be taken out of the path on the way."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
