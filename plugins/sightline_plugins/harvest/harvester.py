"""The operator of `harvest`: what frames are candidates, which of these are kept, and the folder that holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import OutputError
from sightline.graph import Site
from sightline.graph.operator import Sink
from sightline.graph.outputs import safe_name
from sightline.media import Batch, Frame, FrameView, Objects, Origin, Stream
from sightline.media.convert import luma_from_surface
from sightline.media.frame import Altered
from sightline_plugins.encode.images import encode_rgb
from sightline_plugins.flow.luma import LumaReducer
from sightline_plugins.harvest.dataset import Dataset
from sightline_plugins.harvest.harvest import OF_TRACKS, Harvest
from sightline_plugins.harvest.manifest import HarvestRecord, ReasonRecord, written_vectors
from sightline_plugins.harvest.selection import BY_CLOCK, RANDOM, Candidate, Content, Kept, Selection
from sightline_plugins.harvest.signals import (
    FoundReason,
    TrackSignals,
    disagreement,
    joined_score,
    low_margin,
)
from sightline_plugins.harvest.similarity import SIDE, KeptContents, fractions, perceptual_hash
from sightline_plugins.infer.embed import LABEL
from sightline_plugins.rules.names import is_of_rule
from sightline_plugins.sinks.files import Degradation
from sightline_plugins.sinks.records import frame_records

Mask = npt.NDArray[np.bool_]

_MOST_VECTORS_OF_A_FRAME = 32
_DIGITS = 4
_STRONG = 0.5
"""A frame is kept for the rarest of its reasons whose score is at least this share of the highest."""
_OF_FRAMES = (LABEL,)
"""The labels of objects that stand for frames and have only an embedding."""


@dataclass(slots=True)
class _StreamState:
    """What is known of a stream; `timeline` is None until it is asked for the first time."""

    signals: TrackSignals
    timeline: str | None = None


@dataclass(slots=True)
class _Counts:
    """What became of the frames of a stream in this run."""

    frames: int = 0
    candidates: int = 0
    duplicates: int = 0
    kept: int = 0
    replaced: int = 0
    lost: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Found:
    """The objects of a frame that count, their embeddings, and the reasons for labelling it."""

    objects: Objects
    vectors: npt.NDArray[np.float32]
    reasons: list[FoundReason]


class Harvester(Sink):
    """Keeps the frames that are worth labelling. What it compares with is restored from the folder."""

    def __init__(self, element: Harvest, site: Site) -> None:
        self._element = element
        self._site = site
        self._reasons = element.active_reasons
        self._dataset = Dataset(element, outputs=site.outputs, clock=site.clock)
        self._selection = Selection(
            quota=element.quota,
            per_ns=element.per,
            random=element.random,
            apart_ns=element.apart,
            limit=element.limit,
        )
        self._contents = KeptContents(distance=element.duplicate_distance)
        self._earlier: dict[str, list[Kept]] = {}
        self._streams: dict[Stream, _StreamState] = {}
        self._counts: dict[str, _Counts] = {}
        self._search_steps: set[str] = set()
        self._luma = LumaReducer()
        self._degradation = Degradation(site)
        self._warned: set[str] = set()

    def consume(self, batch: Batch) -> None:
        """Keep the frames of the batch that are worth it."""
        for view in batch:
            self._consume(view)
        if self._dataset.is_open and not self._degradation.is_waiting:
            self._write(self._dataset.export_if_due, stream="")

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream."""
        self._streams.pop(stream, None)

    def close(self) -> None:
        """Write the pre-labels, and release the folder."""
        try:
            self._dataset.close()
        except OutputError as error:
            self._degradation.failed(error, stream="")

    def totals(self) -> Mapping[str, Any]:
        """For each stream its `frames`, how many had a reason (`candidates`), were `duplicates` of others, and were
        `kept`; how many of the folder were `replaced` by better ones; and how many were `lost`, by reason.
        """
        return {
            stream: {
                "frames": one.frames,
                "candidates": one.candidates,
                "duplicates": one.duplicates,
                "kept": one.kept,
                "replaced": one.replaced,
                **({"lost": dict(one.lost)} if one.lost else {}),
            }
            for stream, one in self._counts.items()
        }

    def _consume(self, view: FrameView) -> None:
        stream = view.stream
        counts = self._counts.setdefault(stream.name, _Counts())
        counts.frames += 1
        if view.frame.altered & Altered.DRAWN:
            self._warn_once("drawn", "frames are drawn on before they are harvested: put the step before `draw`")
        state = self._streams.get(stream)
        if state is None:
            state = self._streams[stream] = _StreamState(TrackSignals(self._reasons & OF_TRACKS))
        found = self._examine(view, state)
        is_written = not self._degradation.is_waiting and self._write(
            lambda: self._offer(view, found, state, counts), stream=stream.name
        )
        if found.reasons and not is_written and self._degradation.is_degraded:
            counts.lost[self._degradation.reason] += 1

    def _examine(self, view: FrameView, state: _StreamState) -> _Found:
        """Return what counts on a frame, and the reasons for labelling it, but `novelty`."""
        element, objects = self._element, view.objects
        stands_for_frame = _of_origins(objects, lambda one: one.labels == _OF_FRAMES)
        second = None if element.between is None else _of_step(objects, element.between[1])
        counts = ~stands_for_frame if second is None else ~stands_for_frame & ~second
        if element.classes is not None:
            counts &= objects.has_label(element.classes)
        own = objects if counts.all() else objects.select(counts)
        reasons: list[FoundReason | None] = []
        if self._was_detected(view):
            if "low_margin" in self._reasons:
                reasons.append(low_margin(own, threshold=element.threshold, margin=element.margin))
            if second is not None and "disagreement" in self._reasons and self._ran_both(view):
                reasons.append(self._disagreement(objects, own, second))
            if self._reasons & OF_TRACKS:
                reasons += state.signals.observe(own, size_wh=view.size_wh, time_ns=view.pts_ns)
        if "event" in self._reasons:
            reasons += self._events(view)
        return _Found(own, _vectors_of(objects, counts | stands_for_frame), [one for one in reasons if one is not None])

    def _offer(self, view: FrameView, found: _Found, state: _StreamState, counts: _Counts) -> bool:
        """Keep a frame if it has a reason and a place, or if chance wants it; return whether it is kept.

        Raises OutputError.
        """
        if not self._dataset.is_open:
            self._open()
        timeline, time_ns = self._time_of(view.frame, state)
        reasons = list(found.reasons)
        if "novelty" in self._reasons and len(found.vectors) and self._was_detected(view):
            distances = self._contents.distances(found.vectors)
            if distances.max() >= self._element.novelty:
                reasons.append(FoundReason("novelty", min(float(distances.max()), 1.0)))
        reasons.sort(key=lambda one: -one.score)
        candidates = []
        if reasons:
            counts.candidates += 1
            score = round(joined_score(reasons), _DIGITS)
            candidate = Candidate(view.stream.name, timeline, time_ns, reasons[0].reason, score)
            strong = [one.reason for one in reasons if one.score >= reasons[0].score * _STRONG]
            candidates.append(replace(candidate, reason=self._selection.rarest(candidate, strong)))
        if self._was_detected(view):
            chance = _chance(view.stream.name, timeline, time_ns)
            candidates.append(Candidate(view.stream.name, timeline, time_ns, RANDOM, chance))
        content: Content | None = None
        for candidate in candidates:
            if self._selection.replaced_by(candidate) is None:
                continue
            content = content or self._content(view, found)
            like = self._contents.duplicates(content, stream=view.stream.name)
            gone = self._selection.replaced_by(candidate, like=like)
            if gone is None:
                counts.duplicates += bool(like)
                continue
            if candidate.reason == RANDOM:
                reasons.insert(0, FoundReason(RANDOM, candidate.score))
            main_first = [one for one in reasons if one.reason == candidate.reason]
            main_first += [one for one in reasons if one.reason != candidate.reason]
            self._keep(view, replace(found, reasons=main_first), candidate, content, gone=gone)
            counts.kept += 1
            return True
        if self._selection.is_full:
            text = f"{self._selection.count} frames are kept, which is the limit: label them, and name another folder"
            self._warn_once("limit", text)
        return False

    def _keep(
        self, view: FrameView, found: _Found, candidate: Candidate, content: Content, *, gone: list[Kept]
    ) -> None:
        """Write a frame, then take back those that it replaces. Raises OutputError; then nothing is written."""
        image = encode_rgb(view.rgb(), suffix=".jpg", quality=self._element.quality)
        name = self._dataset.free_name(_name_of(view.frame, candidate))
        single = view.batch.select_frames([view.row]).with_objects(_on_first_frame(found.objects))
        (record,) = frame_records(single)
        kept = Kept(name, candidate, content)
        harvested = HarvestRecord(
            record.stream,
            record.frame,
            record.pts_ns,
            record.time,
            record.time_source,
            record.size,
            record.objects,
            record.events,
            image=name,
            score=candidate.score,
            reasons=[ReasonRecord(one.reason, round(one.score, _DIGITS), dict(one.about)) for one in found.reasons],
            timeline=candidate.timeline,
            time_ns=candidate.time_ns,
            phash=f"{content.phash:016x}",
            vectors=written_vectors(content),
        )
        self._dataset.add(harvested, image, replaced=[one.image for one in gone])
        for one in gone:
            self._selection.remove(one)
            self._contents.remove(one)
            self._counts.setdefault(one.candidate.stream, _Counts()).replaced += 1
        self._selection.add(kept)
        self._contents.add(kept)

    def _open(self) -> None:
        """Open the folder, and go on with what it holds. Raises OutputError."""
        for kept in self._dataset.open():
            self._contents.add(kept)
            self._earlier.setdefault(kept.candidate.timeline, []).append(kept)
            self._selection.reserve(1)
        self._go_on_with(BY_CLOCK)

    def _go_on_with(self, timeline: str) -> None:
        """Count the frames of a timeline that earlier runs have kept."""
        for kept in self._earlier.pop(timeline, []):
            self._selection.reserve(-1)
            self._selection.add(kept)

    def _time_of(self, frame: Frame, state: _StreamState) -> tuple[str, int]:
        """Return the timeline of a frame and its time there.

        A video without times of day has a timeline of its own, which its first frame identifies: when it is run again,
        quota and distances go on.
        """
        if frame.capture_ns is not None:
            return BY_CLOCK, frame.capture_ns
        if frame.stream.live:
            return BY_CLOCK, self._site.clock.epoch_ns()
        if state.timeline is None:
            about = f"{frame.stream.name}/{frame.index}/{frame.pts_ns}/{frame.size_wh}".encode()
            state.timeline = blake2b(about + self._reduced(frame).tobytes(), digest_size=8).hexdigest()
            self._go_on_with(state.timeline)
        return state.timeline, frame.pts_ns

    def _content(self, view: FrameView, found: _Found) -> Content:
        objects, labels = found.objects, self._dataset.labels
        labels.learn_origins([objects.origins[number] for number in np.unique(objects.origin).tolist()])
        labels.learn(objects.labels())
        numbers = [labels.number(label) for label in objects.labels()]
        class_id = np.array([-1 if number is None else number for number in numbers], np.int64)
        boxes = fractions(objects.xyxy, size_wh=view.size_wh)
        return Content(perceptual_hash(self._reduced(view.frame)), boxes, class_id, found.vectors)

    def _reduced(self, frame: Frame) -> npt.NDArray[np.uint8]:
        return self._luma.reduced(luma_from_surface(frame.surface), (SIDE, SIDE))

    def _events(self, view: FrameView) -> list[FoundReason]:
        for event in view.events:
            for rule in self._element.on or ():
                if is_of_rule(event, rule):
                    return [FoundReason("event", 1.0, {"rule": event.rule, "kind": event.kind})]
        return []

    def _disagreement(self, objects: Objects, own: Objects, second: npt.NDArray[np.bool_]) -> FoundReason | None:
        assert self._element.between is not None
        others = second if self._element.classes is None else second & objects.has_label(self._element.classes)
        return disagreement(own.select(_of_step(own, self._element.between[0])), objects.select(others))

    def _ran_both(self, view: FrameView) -> bool:
        """Whether both of the steps that are compared ran on a frame, as far as they say so."""
        searched = view.batch.columns.searched_by
        by = searched[view.row] if searched else frozenset[str]()
        self._search_steps |= by
        return all(step in by for step in self._element.between or () if step in self._search_steps)

    def _was_detected(self, view: FrameView) -> bool:
        """Whether a detector ran on a frame; so it is where no step says."""
        detected = view.batch.columns.detected
        return not detected or detected[view.row]

    def _write(self, work: Callable[[], bool], *, stream: str) -> bool:
        """Do what may write, and return whether it has; a failure is reported once, and it goes on in two seconds."""
        try:
            is_written = work()
        except OutputError as error:
            self._degradation.failed(error, stream=stream)
            return False
        if is_written:
            self._degradation.succeeded(stream=stream)
        return is_written

    def _warn_once(self, key: str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            self._site.warn(text)


def _of_origins(objects: Objects, fits: Callable[[Origin], bool]) -> Mask:
    return np.isin(objects.origin, [number for number, one in enumerate(objects.origins) if fits(one)])


def _of_step(objects: Objects, step: str) -> Mask:
    """Mask (N,) of the objects that a step found."""
    return _of_origins(objects, lambda one: one.element == step)


def _vectors_of(objects: Objects, counts: Mask) -> npt.NDArray[np.float32]:
    """Return the embeddings (K, D) of the objects that count and have one, of at most 32 of them."""
    column = objects.extra.get("embedding")
    if column is None:
        return np.empty((0, 0), np.float32)
    there: npt.NDArray[np.float32] = column[counts & ~np.isnan(column).any(axis=1)][:_MOST_VECTORS_OF_A_FRAME]
    return there


def _on_first_frame(objects: Objects) -> Objects:
    return objects.with_columns(frame=np.zeros(len(objects), np.int32))


def _chance(stream: str, timeline: str, time_ns: int) -> float:
    """Return a random number (0..1) that is the same for the same frame in every run."""
    digest = blake2b(f"{stream}/{timeline}/{time_ns}".encode(), digest_size=6).digest()
    return round(int.from_bytes(digest, "big") / 2**48, 9)


def _name_of(frame: Frame, candidate: Candidate) -> str:
    """Return the name of an image: stream, and time of day or frame."""
    if candidate.timeline == BY_CLOCK:
        moment = datetime.fromtimestamp(candidate.time_ns // 1_000_000 / 1_000, UTC)
        return f"{safe_name(frame.stream.name)}-{moment:%Y%m%dT%H%M%S}{candidate.time_ns // 1_000_000 % 1_000:03d}"
    return f"{safe_name(frame.stream.name)}-{candidate.timeline[:8]}-{frame.index:06d}"
