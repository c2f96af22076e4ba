"""`track`: assign each object an id that is stable from frame to frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, GetJsonSchemaHandler, PrivateAttr, ValidationInfo, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, ValidationError

from sightline.graph import Capability, Clock, Element, Operator, Problem, Saved, Site
from sightline.graph.chosen import ChosenValue
from sightline.graph.tracker import NO_TRACK, Predictions, Tracker, TrackerOptions, Vectors
from sightline.media import Batch, Event, Frame, Memory, Objects, Origin, Stream
from sightline.media.boxes import Boxes, area, clip
from sightline.media.convert import luma_from_surface
from sightline_plugins.flow.luma import HalvedLuma
from sightline_plugins.track.algorithms import TRACKERS, merged_schema, tracker_options
from sightline_plugins.track.class_votes import CLASS_BITS, ClassVotes, vote_together
from sightline_plugins.track.following import FollowedTracks, ReducedImage
from sightline_plugins.track.frames_together import FramesTogether, TrackedRows
from sightline_plugins.track.past_frames import RULE, PastFrames
from sightline_plugins.track.resumed import SPARE_IDS, OldTracks, RecentTracks, ResumedTracks, SavedTracks

Ids = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]

CLASSES_OF_ONE_ORIGIN = 1 << CLASS_BITS
"""A tracker knows a class by its number plus this times the number of the element that detected it."""


class Track(Element):
    """Track objects across frames, and assign each a stable `track_id`.

    `algorithm` names the tracker, whose options stand beside it:

    - `adaptive`, the default, for any frame rate and detector. It counts in time, weighs evidence by confidence, and
      keeps classes apart.
    - `bytetrack` matches high-confidence detections first and lower ones then, which keeps tracks of half-hidden
      objects. For sure detectors at 15 frames a second or more. [Zhang et al. 2022](https://arxiv.org/abs/2110.06864).
    - `botsort` adds overlap weighted by confidence, and noise by size. For crowds.
      [Aharon et al. 2022](https://arxiv.org/abs/2206.14651), without appearance.
    - `cbiou` is `botsort` with enlarged boxes. For objects that move irregularly, or far between frames.
      [Yang et al. 2023](https://arxiv.org/abs/2211.14317).
    - `ocsort` prefers pairs that keep their direction, and repairs its filter after a gap. For dancers and players. It
      does not use low-confidence detections. [Cao et al. 2023](https://arxiv.org/abs/2203.14360).
    - `deepocsort` is `ocsort` that compares embeddings. For crowds whose people look different.
      [Maggiolino et al. 2023](https://arxiv.org/abs/2302.11813).
    - `sort` has one assignment by overlap. The plain baseline, for detectors with few false alarms.
      [Bewley et al. 2016](https://arxiv.org/abs/1602.00763).
    - `deepstream` counts the life of targets as DeepStream does, in frames: probation, early termination, the time in
      the shadow. To compare numbers; it follows nothing in images.
    - `iou` has no motion at all. For detectors that miss little, at high frame rates.
      [Bochinski et al. 2017](https://doi.org/10.1109/AVSS.2017.8078516).

    All but `adaptive` and `deepstream` give the ids of their reference implementations (`trackers` 2.6.1; for `iou`,
    the authors' code, from the detection on that confirms a track; for `deepocsort`, its authors' code): they count in
    frames, and ignore classes.

    With `camera_motion: true`, `adaptive`, `botsort`, `cbiou` and `deepocsort` measure how the camera moves, and expect
    objects where that puts them: for cameras in vehicles and drones, and for those that pan.

    With `appearance: true`, `adaptive` compares objects by their embeddings too, as `deepocsort` always does. Put
    `embed` before `track` then: the model runs on each detection of each frame. What a similarity says is measured
    while it runs. An object that comes back within `reidentify_within` gets its id again, after a long occlusion or
    when the camera was gone, if it clearly looks like one that is out of view. People in uniform may be taken for each
    other. Identities across cameras, and for longer, are [another step's](../guide/multi-camera.md).

    With `visual: true`, `adaptive` follows objects in the images by correlation filters, as DeepStream's NvDCF does:
    on frames that no detector looked at (`detect` with `every`), and for up to a second where no detection finds an
    object. It is for objects that stop, turn or are missed; what moves on steadily is predicted as well without it
    ([measured](../benchmarks/tracking.md)). Where an object is not recognised, it is where the motion model expects it,
    and `tracker_confidence` sinks. Sizes are those that the motion model expects.

    After a restart, a new track of a camera whose first box overlaps that of a track of before (an IoU of 0.3 with
    where that was, or was going, at most 30 seconds ago, with the same label) has its id. All others get ids that were
    not given before; a hundred or so are left out.

    While a camera is gone, the stream's clock goes on, so a reconnection that takes less than `max_lost` keeps the ids.

    Ids count from 1 in each stream and are not given to another object. With `adaptive`, a track is confirmed after
    `min_hits` detections in a row with at least `high_threshold`, or more detections with less (with 2: 3 at a
    certainty of 0.65, 4 at 0.5). This keeps false alarms out and costs the first frames of an object, except on the
    first image with objects. Until a track is confirmed, and where nothing matches, the id is -1. A longer `max_lost`
    bridges longer occlusions and confuses different objects more often.

    A detector that calls one object a van, then a truck, then a van does not change what is written: detections of a
    track vote (`class_votes`).

    Objects inside other objects (a plate on a car) are not tracked. Detectors should pass low-confidence boxes on:
    those from `low_confidence` on keep hold of objects that are half hidden. Everything detected steadily from
    `new_track_threshold` on is tracked; raise that to ignore a detector's weak detections.

    On frames that no detector looked at (`detect` with `every`), objects go where optical flow sees them go (`follow`),
    and grow as the tracker expects.

    ```yaml
    - track: {max_lost: 1.5s}
    ```
    """

    model_config = ConfigDict(extra="allow")

    name: ClassVar[str] = "track"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.TRACKS})

    algorithm: str = "adaptive"
    """The tracker; further options are its own."""
    untracked: Literal["keep", "drop"] = "keep"
    """What happens to objects that belong to no track."""
    class_votes: bool = True
    """Whether an object has the class that most of its track's latest detections have, weighted by confidence; false
    leaves each the class that the detector gave."""
    tracker_confidence: bool = False
    """Whether objects have the attribute `tracker_confidence`: how well a detection overlaps the box that the tracker
    expected, and on frames without a detector, how sure the tracker is of the box that it expects."""
    follow: Literal["auto"] | bool = "auto"
    """Whether objects are followed by optical flow on frames that no detector looked at (`detect` with `every`); false
    leaves them where the tracker expects them. `auto` follows them in frames in host memory: on a GPU it costs a copy
    of each frame's luma. A tracker that follows objects itself (`visual`) is left alone."""
    past_frames: bool = False
    """Whether a track, when it is confirmed, comes with an event `past_frame` for each frame before on which its object
    was seen without an id."""

    _options: TrackerOptions = PrivateAttr()

    @model_validator(mode="after")
    def _validate_tracker_options(self, info: ValidationInfo) -> Self:
        extra = self.__pydantic_extra__
        assert extra is not None
        self._options = tracker_options(self.algorithm, extra, info=info, element=type(self))
        self._check_matches()
        extra.clear()
        extra.update(self._options.model_dump(mode="json", exclude_defaults=True))
        return self

    def _check_matches(self) -> None:
        """Refuse options that need `Tracker.matches` with a tracker that has none."""
        asking = [name for name in ("tracker_confidence", "past_frames") if getattr(self, name)]
        if asking and not self._options.tells_matches:
            text = f"the tracker {self.algorithm} does not say what that needs (`Tracker.matches`): leave it out"
            error = PydanticCustomError("tracker_tells_nothing", "{text}", {"text": text})
            raise ValidationError.from_exception_data(
                "track", [InitErrorDetails(type=error, loc=(name,), input=True) for name in asking]
            )

    def check_given(self, given: Mapping[str, frozenset[Capability]]) -> Iterator[Problem]:
        """Report streams without embeddings, where the tracker compares them."""
        lacking = [stream for stream, present in given.items() if Capability.EMBEDDINGS not in present]
        if self._options.needs_appearance and lacking:
            where = "" if len(lacking) == len(given) else f" on the stream {lacking[0]!r}"
            yield Problem(
                f"the tracker compares embeddings, and no step before it gives any{where}: put "
                "embed: {model: ..., on: ...} before track, or leave appearance out",
                ("appearance",),
            )

    def provided(self) -> frozenset[Capability]:
        """Return tracks, and events with `past_frames`."""
        return self.gives | ({Capability.EVENTS} if self.past_frames else frozenset())

    def found_rules(self) -> frozenset[str]:
        """Return the rule of events of past frames."""
        return frozenset({RULE})

    @property
    def options(self) -> TrackerOptions:
        return self._options

    def chosen_values(self) -> Mapping[str, ChosenValue]:
        """Return the options of the tracker."""
        values = self._options.model_dump(mode="json", by_alias=True)
        return {name: ChosenValue(value, f"default of {self.algorithm}") for name, value in values.items()}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema with the options of every installed tracker."""
        schema = handler.resolve_ref_schema(super().__get_pydantic_json_schema__(core_schema, handler))
        own = schema["properties"]
        options = {"algorithm": own.pop("algorithm") | {"enum": list(TRACKERS)}} | merged_schema(handler)
        schema["properties"] = options | own
        schema["additionalProperties"] = False
        return schema

    def serves_all_gpus(self) -> bool:
        """Return True: tracks are kept when a GPU is lost."""
        return True

    def build(self, site: Site) -> Operator:
        """Make the operator; each stream gets a tracker of its own at its first frame."""
        return TrackOperator(self, clock=site.clock)


@dataclass(slots=True, eq=False)
class _StreamState:
    """What is kept of a stream."""

    tracker: Tracker
    size_wh: tuple[int, int]
    latest_id: int = 0
    votes: ClassVotes = field(default_factory=ClassVotes)
    past: PastFrames = field(default_factory=PastFrames)
    recent: RecentTracks = field(default_factory=RecentTracks)
    resumed: ResumedTracks | None = None
    followed: FollowedTracks | None = None
    """From the first frame on that no detector looked at, where objects are followed."""
    pts_ns: int = 0
    at_ns: int = 0
    """The time of day of the last frame."""
    is_waiting: bool = False
    """Whether detections of the stream wait to be tracked."""
    width: int = 0
    """Numbers in an embedding; 0 until there was one."""

    def vectors(self, objects: Objects, own: slice | Indices) -> Vectors:
        """Return the embeddings of the objects in the rows `own`, NaN for those that have none."""
        column = objects.extra.get("embedding")
        if column is not None:
            self.width = column.shape[1]
            found: Vectors = column[own].astype(np.float32, copy=False)
            return found
        return np.full((len(objects.xyxy[own]), self.width), np.nan, np.float32)


class _OutputColumns:
    """What changes of the objects of a batch (N,): ids, classes and certainties."""

    def __init__(self, objects: Objects, classes: npt.NDArray[np.int64], *, has_certainty: bool) -> None:
        self.objects = objects
        self.classes = classes
        """Numbers that are unique across detecting elements."""
        self._track_id: npt.NDArray[np.int64] | None = None
        self.certainty = np.full(len(objects) if has_certainty else 0, np.nan, np.float32)
        self._is_settled = False

    def rows(self, own: slice | Indices) -> Indices:
        """Return the rows `own` as numbers."""
        return np.arange(len(self.objects))[own]

    def put_ids(self, own: slice | Indices, track_id: npt.NDArray[np.int64]) -> None:
        """Write the ids of the rows `own`; the array is kept where these are all rows."""
        if len(track_id) == len(self.objects):
            self._track_id = track_id
            return
        if self._track_id is None:
            self._track_id = np.full(len(self.objects), NO_TRACK, np.int64)
        self._track_id[own] = track_id

    def settle(self, own: slice | Indices, leading: Ids) -> None:
        """Write the classes that votes have settled for the rows `own`."""
        self.classes[own] = leading
        self._is_settled = True

    def table(self, *, with_certainty: bool) -> Objects:
        """Return the objects with these columns."""
        if not len(self.objects):
            return self.objects
        track_id = np.full(len(self.objects), NO_TRACK, np.int64) if self._track_id is None else self._track_id
        columns: dict[str, npt.NDArray[Any]] = {"track_id": track_id}
        if self._is_settled:
            columns["class_id"] = (self.classes % CLASSES_OF_ONE_ORIGIN).astype(np.int32)
        if with_certainty:
            columns["tracker_confidence"] = np.round(self.certainty, 3)
        return self.objects.with_columns(**columns)


class TrackOperator(Operator):
    """One tracker for each stream, fed with its frames in order.

    When the size of the frames changes, boxes cannot be compared any more: all tracks end, and new ones get new ids.
    Ids go on over a restart (`KeepsState`), for all algorithms alike.
    """

    def __init__(self, element: Track, *, clock: Clock) -> None:
        self._element = element
        self._clock = clock
        self._left: dict[str, SavedTracks] = {}
        self._options = element.options
        self._asks = element.tracker_confidence or element.past_frames
        self._needs_images, self._needs_appearance = self._options.needs_images, self._options.needs_appearance
        self._goes_frame_by_frame = self._asks or self._needs_images or self._needs_appearance
        self._streams: dict[Stream, _StreamState] = {}
        self._tracks: dict[str, Counter[str]] = {}
        self._origins: list[Origin] = []

    def process(self, batch: Batch) -> Batch:
        """Write track ids into the objects; add the objects expected on frames without a detector run.

        Detections of all streams are tracked together. Those before a frame are tracked first where it asks for what
        they leave behind: for what its stream expects, and where the tracker looks at one frame after another.
        """
        objects, detected = batch.objects, batch.columns.detected
        columns = _OutputColumns(objects, self._classes(objects), has_certainty=self._asks)
        tracked = TrackedRows(batch)
        expected: list[tuple[int, Predictions]] = []
        events: list[Event] = []
        together: FramesTogether[_StreamState] = FramesTogether()
        for number, frame in enumerate(batch.frames):
            is_detected = not detected or detected[number]
            state = self._streams.get(frame.stream)
            begins = state is None or state.size_wh != frame.size_wh
            if state is not None and state.is_waiting and (begins or not is_detected or self._is_alone(state)):
                events += self._track(together, columns, tracked)
                together = FramesTogether()
            if state is None or begins:
                state = self._streams[frame.stream] = self._begun(frame, state)
            if not is_detected and state.followed is None and self._follows(frame):
                state.followed = FollowedTracks()
            if self._needs_images:
                state.tracker.look(luma_from_surface(frame.surface))
            if frame.stream.live:
                state.pts_ns, state.at_ns = frame.pts_ns, self._clock.epoch_ns()
            if is_detected:
                state.is_waiting = True
                together.add(number, frame, state)
            else:
                expected.append((number, self._predicted(state, frame)))
        events += self._track(together, columns, tracked)
        found = self._without_untracked(columns.table(with_certainty=self._element.tracker_confidence))
        if expected:
            found = Objects.concat([found, self._expected(batch, expected)])
        return batch.with_objects(found).with_events(events)

    def _is_alone(self, state: _StreamState) -> bool:
        """Whether each frame of a stream must be tracked before the next one."""
        return self._goes_frame_by_frame or state.followed is not None

    def _predicted(self, state: _StreamState, frame: Frame) -> Predictions:
        """Return the objects expected on a frame, with the ids and the classes that they have."""
        known = state.tracker.predict(pts_ns=frame.pts_ns)
        if state.followed is not None:
            _show(state.followed, known, frame)
            known = state.followed.follow(known)
        if state.resumed is not None:
            known = replace(known, track_id=state.resumed.old_ids(known.track_id))
        return replace(known, class_id=state.votes.leading(known.track_id, known.class_id))

    def _follows(self, frame: Frame) -> bool:
        """Return whether objects of a frame's stream are followed."""
        if self._options.follows_objects:
            return False
        follow = self._element.follow
        return frame.surface.memory is Memory.HOST if follow == "auto" else follow

    def _track(
        self, together: FramesTogether[_StreamState], columns: _OutputColumns, tracked: TrackedRows
    ) -> Iterable[Event]:
        """Track the objects that a detector found on these frames, and return events of past frames."""
        states, frames = together.states, together.frames
        if not states:
            return ()
        own, ends = together.rows(tracked)
        objects, pts_ns = columns.objects, [frame.pts_ns for frame in frames]
        xyxy, confidence, classes = objects.xyxy[own], objects.confidence[own], columns.classes[own]
        bounds = [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]
        if self._needs_appearance:
            for state, rows in zip(states, bounds, strict=True):
                state.tracker.compare_by(state.vectors(objects, columns.rows(own)[rows]))
        trackers = [state.tracker for state in states]
        given = type(trackers[0]).update_batch(trackers, xyxy, confidence, classes, ends=ends, pts_ns=pts_ns)
        for state, frame, number, rows in zip(states, frames, together.numbers, bounds, strict=True):
            if state.followed is not None:
                known = state.tracker.predict(pts_ns=frame.pts_ns)
                if tracked.begins_gap(number):
                    _show(state.followed, known, frame)
                state.followed.begin(known, given[rows], xyxy[rows])
        track_id = self._resumed(together, bounds, given, xyxy, classes)
        self._count(together, bounds, given, classes)
        columns.put_ids(own, track_id)
        if self._element.class_votes:
            votes = [state.votes for state in states]
            leading = vote_together(votes, track_id, classes, confidence, ends=ends, pts_ns=pts_ns)
            if leading.tobytes() != classes.tobytes():
                columns.settle(own, leading)
                classes = leading
        for state, frame, rows in zip(states, frames, bounds, strict=True):
            state.is_waiting = False
            if frame.stream.live:
                state.recent.add(frame.pts_ns, track_id[rows], xyxy[rows], classes[rows])
        return self._matched(together, bounds, columns.rows(own), columns, track_id) if self._asks else ()

    def _resumed(
        self, together: FramesTogether[_StreamState], bounds: Sequence[slice], given: Ids, xyxy: Boxes, classes: Ids
    ) -> Ids:
        """Return the ids of objects, with those that they had before a restart."""
        if not [state for state in together.states if state.resumed is not None]:
            return given
        track_id = given.copy()
        for state, frame, rows in zip(together.states, together.frames, bounds, strict=True):
            if state.resumed is not None:
                own = classes[rows].tolist()
                track_id[rows] = state.resumed.resume(
                    given[rows], xyxy[rows], own, pts_ns=frame.pts_ns, label=self._label
                )
        return track_id

    def _matched(
        self,
        together: FramesTogether[_StreamState],
        bounds: Sequence[slice],
        own: Indices,
        columns: _OutputColumns,
        track_id: Ids,
    ) -> list[Event]:
        """Write how well detections match, and return events of past frames."""
        events: list[Event] = []
        for state, frame, number, rows in zip(together.states, together.frames, together.numbers, bounds, strict=True):
            matches = state.tracker.matches()
            columns.certainty[own[rows]] = matches.certainty
            if self._element.past_frames:
                events += state.past.events(frame, number, columns.objects, own[rows], track_id[rows], matches)
        return events

    def end_stream(self, stream: Stream) -> None:
        self._streams.pop(stream, None)

    def save(self, stream: Stream) -> Saved | None:
        """Return the highest id, the tracks of the last two seconds, and what was counted."""
        state = self._streams.get(stream)
        if state is None:
            return None
        tracks = state.recent.tracks(self._label)
        if state.resumed is not None:
            tracks = tracks.with_others(state.resumed.left(pts_ns=state.pts_ns))
        return {
            "at_ns": state.at_ns,
            "size_wh": list(state.size_wh),
            "latest_id": state.latest_id,
            "totals": dict(self._tracks[stream.name]),
            **tracks.columns(),
        }

    def restore(self, stream: str, saved: Saved) -> None:
        """Let tracks go on with the ids that they had in an earlier process. Raises ValueError."""
        self._left[stream] = left = SavedTracks.model_validate(saved)
        self._tracks[stream] = Counter(left.totals)

    def totals(self) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """Return the number of different objects: stream, label (as first detected), `tracks`."""
        return {
            stream: {label: {"tracks": number} for label, number in sorted(counts.items())}
            for stream, counts in self._tracks.items()
        }

    def _begun(self, frame: Frame, known: _StreamState | None) -> _StreamState:
        """Return the state of a stream that begins, goes on after a restart, or (`known`) with another size."""
        if known is not None:
            tracker = self._options.build(first_id=known.latest_id + 1)
            return _StreamState(tracker, frame.size_wh, known.latest_id)
        self._tracks.setdefault(frame.stream.name, Counter())
        left = self._left.pop(frame.stream.name, None)
        if left is None:
            return _StreamState(self._options.build(), frame.size_wh)
        latest_id = left.latest_id + SPARE_IDS
        state = _StreamState(self._options.build(first_id=latest_id + 1), frame.size_wh, latest_id)
        if tuple(left.size_wh) == frame.size_wh:
            since_ns = max(0, self._clock.epoch_ns() - left.at_ns)
            state.resumed = ResumedTracks(OldTracks.of(left), since_ns=since_ns, pts_ns=frame.pts_ns)
        return state

    def _label(self, own_class: int) -> str:
        """Return the label of a class number that is unique across detecting elements."""
        origin, class_id = divmod(own_class, CLASSES_OF_ONE_ORIGIN)
        return self._origins[origin].label(class_id)

    def _classes(self, objects: Objects) -> npt.NDArray[np.int64]:
        """Return the class of each object as a number that is unique across detecting elements."""
        if len(objects):
            self._origins += [origin for origin in objects.origins if origin not in self._origins]
        classes = objects.class_id.astype(np.int64)
        if len(self._origins) > 1 and len(objects):
            numbers = np.array([self._origins.index(origin) for origin in objects.origins], np.int64)
            classes += numbers[objects.origin] * CLASSES_OF_ONE_ORIGIN
        return classes

    def _count(self, together: FramesTogether[_StreamState], bounds: Sequence[slice], given: Ids, classes: Ids) -> None:
        """Count the tracks that begin, of the ids that trackers gave, and forget old tracks that none can go on."""
        ids = given.tolist()
        for state, frame, rows in zip(together.states, together.frames, bounds, strict=True):
            if max(ids[rows], default=0) > state.latest_id:
                self._count_begun(state, frame.stream, ids[rows], classes[rows].tolist())
            if state.resumed is not None and state.resumed.is_over:
                state.resumed = None

    def _count_begun(self, state: _StreamState, stream: Stream, ids: list[int], classes: list[int]) -> None:
        for track_id, own_class in zip(ids, classes, strict=True):
            if track_id > state.latest_id and not (state.resumed and state.resumed.was_resumed(track_id)):
                self._tracks[stream.name][self._label(own_class)] += 1
        state.latest_id = max(ids)

    def _without_untracked(self, objects: Objects) -> Objects:
        if self._element.untracked == "keep":
            return objects
        wanted = objects.track_id >= 0
        children = objects.parent >= 0
        wanted[children] = wanted[objects.parent[children]]
        return objects if wanted.all() else objects.select(wanted)

    def _expected(self, batch: Batch, expected: list[tuple[int, Predictions]]) -> Objects:
        """Return objects at the boxes that the tracker expects, clipped to the frame, without those outside it."""
        classes = np.concatenate([known.class_id for _, known in expected])
        rows, count = [row for row, _ in expected], len(classes)
        extra = {}
        if self._element.tracker_confidence:
            certainties = [
                np.full(len(known.class_id), np.nan, np.float32) if known.certainty is None else known.certainty
                for _, known in expected
            ]
            extra["tracker_confidence"] = np.round(np.concatenate(certainties), 3)
        xyxy = np.concatenate([clip(known.xyxy, size_wh=batch.frames[row].size_wh) for row, known in expected])
        table = Objects(
            frame=np.repeat(np.array(rows, np.int32), [len(known.track_id) for _, known in expected]),
            xyxy=xyxy,
            confidence=np.concatenate([known.confidence for _, known in expected]),
            class_id=(classes % CLASSES_OF_ONE_ORIGIN).astype(np.int32),
            track_id=np.concatenate([known.track_id for _, known in expected]),
            parent=np.full(count, -1, np.int32),
            origin=(classes // CLASSES_OF_ONE_ORIGIN).astype(np.int16),
            origins=tuple(self._origins),
            extra=extra,
        )
        return table.select(area(xyxy) > 0)


def _show(followed: FollowedTracks, known: Predictions, frame: Frame) -> None:
    """Show a frame to what follows objects; without any, the image before is not needed."""
    if len(known.track_id):
        followed.look(ReducedImage.of(HalvedLuma(luma_from_surface(frame.surface))))
