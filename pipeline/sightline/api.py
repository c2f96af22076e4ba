"""What the API of a server answers, as types: one definition for the server and for its client.

The OpenAPI document is made of them. Everything here is data: importing it brings neither the server nor the pipeline.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, WithJsonSchema

Scalar = str | int | float | bool


def _numbers(kind: str, count: int) -> WithJsonSchema:
    """So many numbers as an array: programs that read OpenAPI documents trip over tuples (`prefixItems`)."""
    return WithJsonSchema({"type": "array", "items": {"type": kind}, "minItems": count, "maxItems": count})


SizeWh = Annotated[tuple[int, int], _numbers("integer", 2)]
PointXy = Annotated[tuple[float, float], _numbers("number", 2)]
TimedPoint = Annotated[tuple[float, float, float], _numbers("number", 3)]
BoxXyxy = Annotated[tuple[float, float, float, float], _numbers("number", 4)]


class SessionInfo(BaseModel):
    """Who asks: the name of the token, and its role (viewer, operator or admin)."""

    name: str
    role: str


class CpuUse(BaseModel):
    """Processor time over the last seconds, in cores: 1 is one core that is busy all the time."""

    over_seconds: float = Field(description="The time that it was measured over.")
    process: float = Field(description="Cores that this process uses.")
    cores: list[float] | None = Field(description="How busy each core of the machine is, 0 to 1; None if unknown.")
    usable: int = Field(description="Cores that this process may use.")


class MemoryState(BaseModel):
    """Memory in bytes; None where the machine does not tell."""

    process: int | None
    used: int | None = Field(description="What cannot be had for other programs, in the whole machine.")
    total: int | None


class OutputState(BaseModel):
    """What a step, the outbox or the history keeps on disk."""

    id: str = Field(description="The id of the step; `outbox` or `history`.")
    path: str = Field(description="The files, as in YAML.")
    files: int = Field(description="Files with such names, earlier runs included.")
    size_bytes: int
    complete: bool = Field(description="False where there are too many files to count: then there are more.")
    limits: dict[str, Any] = Field(description="What limits them, as in YAML: `keep`, `rotate`, `limit`...")


class DiskState(BaseModel):
    """A disk that outputs are on."""

    path: str = Field(description="A folder on it.")
    total_bytes: int
    free_bytes: int = Field(description="What this process may still write.")
    outputs: list[OutputState]


class PlacedPart(BaseModel):
    """Where a stream is decoded, or a step works, and why there."""

    part: Literal["stream", "step"]
    name: str
    element: str | None = Field(None, description="The name of the element of a step.")
    runs_on: str | None = Field(description="The decoder, or the device; None before a stream has begun.")
    engine: str | None = Field(None, description="The engine of a step that runs a model.")
    details: dict[str, Any] = Field(description="More about it, as in the run report: precision, reasons, format.")


class DeviceInfo(BaseModel):
    """A device of the machine: usable, or why not."""

    name: str
    usable: bool
    detail: str


class SystemState(BaseModel):
    """The machine and the process that a pipeline runs in."""

    time: float
    versions: dict[str, str] = Field(description="Of Sightline, Python, the system and the libraries.")
    device: str | None = Field(description="Where the pipeline runs; None before it has begun.")
    device_reason: str
    devices: list[DeviceInfo]
    cpu: CpuUse
    memory: MemoryState
    gpus: dict[str, dict[str, Any]] = Field(description="What the run holds of each GPU's memory.")
    disks: list[DiskState]
    places: list[PlacedPart]


class LogLine(BaseModel):
    """A line of the log."""

    number: int = Field(description="Counts all lines of the process, from 1.")
    time: float
    level: Literal["debug", "info", "warning", "error", "critical"]
    logger: str = Field(description="The module that logged it; `message` for messages of the run.")
    text: str


class LogLines(BaseModel):
    """The newest lines of the log, oldest first."""

    lines: list[LogLine]
    newest: int = Field(description="The number of the newest line of all: `after` it, everything is new.")
    level: str = Field(description="The lowest level that is logged at all.")


class AuditEntry(BaseModel):
    """A change that somebody asked for, and how it ended."""

    id: str
    time: str
    actor: str
    role: str
    address: str
    action: str
    target: str
    changes: Any = Field(None, description="Each value with its `path`, `before` and `after`.")
    result: str | None = Field(None, description="`done`, `refused` or `failed`; None while it goes on.")
    error: str | None = None
    seconds: float | None = None


class PipelineState(BaseModel):
    """A pipeline of this server."""

    name: str
    running: bool
    ready: bool = Field(description="Whether every stream is live, or has been read.")
    streams: int | None = Field(description="None while the pipeline does not answer the server in front of it.")
    etag: str = Field(description="The tag of its configuration; empty while the pipeline does not answer.")
    saved: bool = Field(description="Whether the configuration is that of its file.")


class StreamInfo(BaseModel):
    """A stream: its source as in YAML without secrets, and how it is; None when the pipeline does not run."""

    name: str
    source: dict[str, Any]
    status: dict[str, Any] | None


SampleReason = Literal["credentials", "refused", "unreachable", "silent", "unreadable", "late"]


class SourceSample(BaseModel):
    """What a source gives: an image and facts, or why there is none."""

    image: str | None = Field(None, description="The first image, as JPEG in base64; None when there is none.")
    codec: str | None = Field(None, description="What it is encoded with, such as `h264`.")
    size: SizeWh | None = Field(None, description="Width and height of its images.")
    fps: float | None = Field(None, description="Images a second, as they came; None when too few came.")
    audio: str | None = Field(None, description="What its sound is encoded with; None without sound.")
    seconds: float = Field(description="How long it took until the image came, or it failed.")
    reason: SampleReason | None = Field(
        None,
        description="Why there is no image: wrong `credentials`; the server `refused` (there is nothing at that path);"
        " it is `unreachable`, `silent`, sends what is `unreadable` (no video, unknown codec), or is too `late`.",
    )
    message: str | None = Field(None, description="The same in a sentence, with what to do.")


class FoundCameraInfo(BaseModel):
    """A camera on the network that has answered."""

    address: str
    name: str
    hardware: str
    service: str = Field(description="Where it is asked for its streams.")


class Discovery(BaseModel):
    """The cameras that have answered, and where was asked."""

    cameras: list[FoundCameraInfo]
    interfaces: list[str] = Field(description="The network interfaces that were asked on.")


class FoundStreamInfo(BaseModel):
    """A stream of a camera, as the camera describes it."""

    name: str
    uri: str = Field(description="Its address, without credentials.")
    codec: str | None
    size: tuple[int, int] | None
    fps: float | None


class ElementInfo(BaseModel):
    """A step: what it is, the options that were given to it without secrets, and those that change live."""

    id: str
    element: str = Field(description="The name of the element, such as `zones`.")
    purpose: str
    options: dict[str, Any]
    changes_live: list[str] = Field(description="Options whose change keeps the state; others build the step anew.")
    json_schema: dict[str, Any] = Field(description="JSON Schema of the options, as of the YAML file.")
    labels: list[str] | None = Field(
        description="Labels of the objects that reach it; null when they are not known before they come."
    )


class NewSteps(BaseModel):
    """Steps to add, and where."""

    steps: list[str | dict[str, Any]] = Field(
        description="The steps as in YAML, in their order.",
        examples=[["track", {"zones": {"plaza": {"polygon": [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9]]}}}]],
        min_length=1,
        max_length=64,
    )
    after: str | None = Field(
        None,
        description="The id of the step that they follow, in the same branch; null puts them before all others.",
        max_length=128,
    )


class RuleKind(BaseModel):
    """An element whose rules are drawn: what a new step can be."""

    kind: str = Field(description="The name of the element, such as `zones`.")
    outline: str = Field(description="How it is drawn: as an open `line` or a closed `zone`.")
    purpose: str
    json_schema: dict[str, Any] = Field(description="JSON Schema of the options, as of the YAML file.")


class GraphStep(BaseModel):
    """A step, and where it runs. `elements` of the pipeline's status has its figures, by the same id."""

    id: str
    element: str = Field(description="The name of the element, such as `detect`.")
    purpose: str
    streams: list[str] | None = Field(description="The streams that it works on, as names or globs; None for all.")
    is_sink: bool = Field(description="Whether it only taps what passes.")
    stage: str | None = Field(description="The thread that runs it; None before the pipeline has begun.")
    device: str | None = Field(description="`cpu` or `cuda:N`; None where that is not known yet.")
    device_reason: str = Field("", description="Why it runs there, when that is not what one expects.")
    engine: str = Field("", description="What computes its model, with the precision; empty without a model.")
    destinations: list[str] = Field(description="Where it delivers records: the ids of `deliveries` in the status.")


class GraphLink(BaseModel):
    """The way of frames from one step to the next."""

    start: str | None = Field(description="The id of a step or join; None where frames come from the sources.")
    end: str = Field(description="The id of a step or join.")
    link: str | None = Field(
        description="The link between two threads that frames wait in, by its name in `links` of the status (with"
        " several GPUs `cuda:N/` stands in front); None where the same thread goes on."
    )
    branch: str | None = Field(description="The branch of a `tee` or `parallel` that begins here.")


class GraphStage(BaseModel):
    """What one thread runs."""

    name: str
    link: str | None = Field(description="The link that it takes frames from; None for the sources.")
    steps: list[str]
    waits_for: str | None = Field(description="The step before it whose pending results it awaits, such as a model.")
    is_join: bool = Field(description="Whether it first merges the branches of a `parallel`; it is named as the join.")


class PipelineGraph(BaseModel):
    """How the steps of a pipeline run: `links` and `stages` are empty before it has begun."""

    streams: list[str]
    steps: list[GraphStep]
    links: list[GraphLink]
    stages: list[GraphStage]


class InspectedObject(BaseModel):
    """An object on an inspected frame."""

    label: str
    confidence: float
    box: list[float] = Field(description="Left, top, right, bottom in pixels of the frame.")
    track_id: int | None
    attributes: dict[str, Any]


class InspectedBox(BaseModel):
    """A box as a network gave it, before suppression."""

    label: str
    confidence: float
    box: list[float] = Field(description="Left, top, right, bottom in pixels of the frame.")
    survives: bool = Field(description="Whether no more certain box of the network suppresses it.")
    kept: bool = Field(description="Whether it became an object: it survives, and is above the threshold.")


class InspectedScore(BaseModel):
    """How likely a class is by a network that classifies."""

    output: str
    label: str
    value: float


class InspectedTarget(BaseModel):
    """A part of the frame that a model was for: all of it, a region or tile, or an object of an earlier step."""

    object: int | None = Field(description="The object in it, by its place in `before`; None for a part of the frame.")
    corners: list[list[float]] = Field(description="Its corners, clockwise from the top left, in pixels of the frame.")
    input: str | None = Field(description="The network's input as an image of the inspection, such as `input-0.png`.")
    note: str = Field(description="Why less is known than usual; empty otherwise.")
    threshold: float | None = Field(description="The confidence from which boxes become objects.")
    boxes: list[InspectedBox] = Field(description="The boxes of the network, the most certain first.")
    scores: list[InspectedScore]


class InspectedStep(BaseModel):
    """What a step made of the frame."""

    id: str
    element: str
    state: Literal["done", "failed", "missing"]
    failure: str = Field("", description="Why it failed; the frame went on without it.")
    before: list[InspectedObject]
    after: list[InspectedObject]
    events: list[dict[str, Any]] = Field(description="Events of the step on this frame.")
    is_model: bool = Field(description="Whether it shows what its model did, in `targets`.")
    targets: list[InspectedTarget] = Field(description="Empty where the model did not run on this frame.")


class Inspection(BaseModel):
    """What each step of the pipeline made of one frame; it is forgotten after a minute."""

    id: str
    stream: str
    frame: int = Field(description="The number of the frame in its stream, from 0.")
    pts_ns: int
    size: list[int] = Field(description="Width and height of the frame.")
    image: str | None = Field(description="The frame as an image of the inspection; None when it may not be shown.")
    image_note: str = Field("", description="Why the frame is not shown, or behind which step it was taken.")
    steps: list[InspectedStep] = Field(description="The steps that work on the stream, in their order.")


class RuleInfo(BaseModel):
    """A rule: the step that has it, its options as in YAML, and what it has counted by stream."""

    element: str = Field(description="The id of the step, such as `zones-1`.")
    kind: str = Field(description="The name of the element, such as `zones`.")
    outline: str = Field(description="How it is drawn: as an open `line` or a closed `zone`.")
    name: str
    options: dict[str, Any]
    counts: dict[str, Any]


class Changed(BaseModel):
    """What became of a change."""

    etag: str = Field(description="The tag of the configuration now.")
    version: int = Field(description="The number of this version of the configuration.")
    proven: bool = Field(description="Whether its probation is over, or it needed none.")


class Version(BaseModel):
    """A version of the configuration that was applied."""

    version: int
    etag: str
    time: float = Field(description="When it was applied, in seconds since the epoch.")
    by: str = Field(description="Who asked for it.")
    proven: bool


class Saved(BaseModel):
    """What became of writing the configuration to its file."""

    written: bool = Field(description="Whether the file differs from what it was.")


class ConfigurationFileInfo(BaseModel):
    """The file that a pipeline comes from."""

    path: str
    text: str = Field(description="What it described when it was read or written last, written as the configuration.")
    saved: bool = Field(description="Whether the configuration is that of the file.")
    changed: bool = Field(description="Whether somebody else has changed the file since; then it is not written over.")


class ConfigurationProblem(BaseModel):
    """A mistake in a configuration, with its place in the text."""

    path: str = Field(description="The key path of the value, such as `pipeline.0.detect.confidence`; may be empty.")
    message: str = Field(description="What is wrong, what is allowed, and what to do.")
    line: int = Field(description="From 1; 0 when it is about no place of the text.")
    column: int = Field(description="From 1, in characters.")
    length: int = Field(description="How many characters of the line it is about.")


class Verdict(BaseModel):
    """What is wrong with a configuration; nothing when `valid`."""

    valid: bool
    problems: list[ConfigurationProblem] = Field(description="In the order of the text.")


class EventRecord(BaseModel):
    """An event of a rule."""

    id: str = Field(description="Its place in the feed, `EPOCH-NUMBER`.")
    record: Literal["event"]
    time: str = Field(description="When the image was taken, where that is known, else when the event was reported.")
    time_source: str | None = Field(None, description="Whose clock the time of the image is from.")
    stream: str
    element: str | None = Field(None, description="The id of the step that reported it.")
    label: str | None = Field(None, description="The label of the object that it is about.")
    frame: int = Field(description="The number of the frame in its stream, from 0.")
    pts_ns: int = Field(description="The time of the frame in its stream, in nanoseconds.")
    event: dict[str, Any] = Field(
        description="The event as JSON lines hold it: `kind`, `rule`, and what the kind adds."
    )


class MessageRecord(BaseModel):
    """A message of the run."""

    id: str = Field(description="Its place in the feed, `EPOCH-NUMBER`.")
    record: Literal["message"]
    time: str
    stream: str | None = None
    element: str | None = None
    kind: str = Field(description="What it is about, such as `stream_lost`.")
    text: str = Field(description="A sentence for a person.")
    state: str | None = Field(None, description="The state that the stream is in from now on.")
    data: dict[str, Scalar] | None = Field(None, description="The numbers and names of the sentence.")


class LostRecords(BaseModel):
    """A note where records are missing, because the client was too slow or too long away."""

    record: Literal["lost"]
    count: int


FeedRecords = list[Annotated[EventRecord | MessageRecord, Field(discriminator="record")]]


class RecentRecords(BaseModel):
    """The last records."""

    records: FeedRecords = Field(description="The records, oldest first.")
    newest: str = Field(description="The id of the newest record of all: `after` it, everything is new.")


class LabelTotals(BaseModel):
    """How often a label was seen since the run began."""

    objects: int = Field(description="Detections on all frames.")
    tracks: int = Field(description="Distinct tracks.")


class StreamCounts(BaseModel):
    """What is counted of a stream."""

    frames: int = Field(description="Frames processed since the run began.")
    objects: dict[str, LabelTotals] = Field(description="Objects by label.")
    rules: dict[str, dict[str, dict[str, int]]] = Field(
        description="The counts of rules as `draw` shows them, by element, rule and name."
    )


class PresentCounts(BaseModel):
    """What is counted now."""

    time: str
    running: bool
    streams: dict[str, StreamCounts]


class HistoryColumn(BaseModel):
    """A series of one stream and key."""

    series: str
    stream: str
    key: str = Field(description="The label, reason or rule; empty where the series has one value.")
    unit: str
    combine: str = Field(description="How samples were combined to the values.")
    values: list[float | None] = Field(description="A value for each time; null where nothing is known.")


class HistoryTable(BaseModel):
    """Series at regular times."""

    step: int = Field(description="The time between two values, in seconds.")
    times: list[int] = Field(description="When the intervals begin, in seconds since 1970.")
    columns: list[HistoryColumn]


class ZoneDwell(BaseModel):
    """How long the stays in a zone lasted."""

    stream: str
    key: str = Field(description="The zone, as `element.rule`.")
    stays: list[int] = Field(description="Stays by duration: below the first limit, between each two, above the last.")
    seconds: float = Field(description="The sum of all stays.")


class DwellTable(BaseModel):
    """Histograms of how long objects stayed in zones."""

    limits: list[int] = Field(description="The limits between the numbers of `stays`, in seconds.")
    zones: list[ZoneDwell]


class HeatMapTable(BaseModel):
    """A grid over the frames of a stream."""

    stream: str
    kind: Literal["feet", "paths"]
    unit: str = Field(description="`s` for `feet`, `tracks` for `paths`.")
    columns: int
    rows: int
    labels: list[str] = Field(description="All labels in this time, also those that were not asked for.")
    values: list[float] = Field(description="A value for each cell, row by row from the top left of the frame.")


class HistoryRecords(BaseModel):
    """Records of the feed."""

    records: FeedRecords = Field(description="The records, oldest first unless `order` is `newest`.")
    next: int | None = Field(description="What to give as `after` to get more; null when these are all.")


class RecordCounts(BaseModel):
    """Numbers of records at regular times."""

    step: int = Field(description="The time between two values, in seconds.")
    times: list[int] = Field(description="When the intervals begin, in seconds since 1970.")
    counts: dict[str, list[int]] = Field(
        description="A number for each time by stream; those of no stream stand under the empty name."
    )


class RecordValues(BaseModel):
    """What there is to filter records by, among those that the history has."""

    type: list[str]
    stream: list[str]
    kind: list[str]
    rule: list[str]
    label: list[str]
    element: list[str]


class RecordingInfo(BaseModel):
    """A file that a `record` step has written, or is writing."""

    id: int
    stream: str
    element: str = Field(description="The id of the step.")
    start: str = Field(description="When it begins: RFC 3339 in UTC.")
    end: str
    seconds: float
    images: int | None = Field(description="How many frames it has; null while it is being written.")
    size_bytes: int
    causes: list[str] = Field(description="The rules and labels that started it, or `request`.")
    recording: bool = Field(description="Whether it is being written; its file can be played all the same.")
    media_type: str
    name: str = Field(description="The name of the file, without its folder.")


class EventClip(BaseModel):
    """A recording that shows an event, and where in it."""

    recording: RecordingInfo
    offset_seconds: float = Field(description="From the first frame of the recording to that of the event.")


class EventScene(BaseModel):
    """Where an event happened. Coordinates are fractions of the frame."""

    size: SizeWh = Field(description="Width and height of the frame in pixels.")
    box: BoxXyxy | None = Field(None, description="The box of the object: x1, y1, x2, y2.")
    path: list[TimedPoint] = Field(
        [], description="Where the foot of the object was before, oldest first: seconds before the event, x, y."
    )
    outline: Literal["line", "zone"] | None = Field(None, description="How the rule is drawn.")
    points: list[PointXy] = Field([], description="The line or zone of the rule at that time.")


class EventDetails(BaseModel):
    """An event with all that is kept of it."""

    record: EventRecord
    scene: EventScene | None
    image_seconds: float | None = Field(
        description="By how much the image is later than the event, mostly 0; null where there is none."
    )
    crop: bool = Field(description="Whether there is an image of the object.")
    clips: list[EventClip]


class Understood(BaseModel):
    """What the words of a search were understood as; null where any will do."""

    words: str = Field(description="What is compared with how tracks look.")
    streams: list[str] | None
    labels: list[str] | None
    since: str | None = Field(description="RFC 3339.")
    until: str | None
    daily: list[str] | None = Field(description="A part of every day: two times such as `22:00`.")
    direction: str | None = Field(
        description="`away`, `towards`, `left` or `right`, as the camera sees it: tracks that are known to head"
        " elsewhere are left out."
    )
    text: str = Field(description="All of it in one line.")


class TrackFound(BaseModel):
    """A track that was found."""

    id: int = Field(description="In the index; what `like` takes.")
    score: float | None = Field(
        description="The cosine of the track and what was searched for: it orders the tracks of one search. Null where"
        " only filters were given."
    )
    stream: str
    track_id: int
    label: str
    attributes: dict[str, Scalar]
    confidence: float
    start: str | None = Field(description="The time of day, RFC 3339 in UTC; null where it is not known.")
    end: str | None
    start_seconds: float = Field(description="In the time of the stream.")
    end_seconds: float
    frame: int = Field(description="The frame with the best image of it, from 0.")
    box: BoxXyxy = Field(description="Its box on that frame, in pixels.")
    direction: str | None = Field(
        description="Where it headed as the camera sees it: `away`, `towards`, `left` or `right`; null where it stood,"
        " or was seen whole too seldom."
    )
    image: str | None = Field(description="Where its image is (JPEG); null where there is none, or it is withheld.")


class SearchAnswer(BaseModel):
    """The tracks that fit best, the best first."""

    step: str = Field(description="The id of the step whose index was searched.")
    understood: Understood
    fitting: int = Field(description="How many tracks fit the filters.")
    without_time: int = Field(description="How many were left out because their time of day is not known.")
    images_withheld: bool = Field(
        description="Whether images are not shown because a later step hides something, as `privacy` does."
    )
    tracks: list[TrackFound]


class TrackDetails(BaseModel):
    """A track of an index, and what else shows it."""

    track: TrackFound
    clips: list[EventClip] = Field(description="Recordings that have some of it, and where in them it begins.")
    events: list[EventRecord] = Field(description="Events that are about it, the newest first.")
