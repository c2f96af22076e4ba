"""Inspect one frame: what each step of the run makes of it, collected while it passes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from threading import Event, Lock
from zlib import crc32

import numpy as np

from sightline.graph import Element, Operator, Pending, PipelineDescription
from sightline.graph.hiding import branches_of, may_hide, shown_behind
from sightline.graph.inspection import ModelWork, ShowsWork
from sightline.media import Batch, Frame, Objects, Stream
from sightline.media import Event as FrameEvent
from sightline.media.surface import Memory, Surface
from sightline.redaction import redact
from sightline.runtime.scheduling.rule_findings import new_events


@dataclass(frozen=True, slots=True)
class InspectedFrame:
    """Which frame it is; without its image."""

    stream: Stream
    index: int
    pts_ns: int
    capture_ns: int | None
    size_wh: tuple[int, int]


@dataclass(slots=True, eq=False)
class StepInspection:
    """What one step made of the frame: `before` and `after` are its objects, `events` those of the step, `works` what
    its model did (`is_model`). `after` is None while the step has not returned, or has failed (`failure`).
    """

    element_id: str
    before: Objects
    after: Objects | None = None
    events: tuple[FrameEvent, ...] = ()
    is_model: bool = False
    works: list[ModelWork] = field(default_factory=list)
    failure: str = ""


class FrameInspection:
    """Collects what the steps make of the next frame of a stream, or of the one with an index. The threads of the run
    add to it, and one waits.

    It holds no frame: objects, and a copy of the image behind the last step that hides parts of it. Between branches
    that hide different parts there is no image that may be shown.
    """

    def __init__(self, description: PipelineDescription, stream: str, *, index: int | None = None) -> None:
        self.stream = stream
        self.index = index
        self.frame: InspectedFrame | None = None
        self.elements = {name: element for name, element in description.elements() if _takes(element, stream)}
        """The steps that work on the stream, by their ids."""
        self.steps: dict[str, StepInspection] = {}
        self._branches = branches_of(description)
        self._images: dict[str, Surface] = {}
        self._lock = Lock()
        self._left = set(self.elements)
        self._done = Event()
        self._is_closed = False
        self._failure = ""

    def wants(self, frame: Frame) -> bool:
        """Whether this is the frame."""
        return frame.stream.name == self.stream and self.index in (None, frame.index)

    def begin(self, batch: Batch) -> None:
        """Note the frame in a batch, before its first step."""
        frame = next(filter(self.wants, batch.frames))
        try:
            image = _copied(frame.surface)
        except Exception as error:  # noqa: BLE001  whoever looks must not stop the run; they are shown why
            self.stop_looking(error)
            return
        with self._lock:
            self.frame = InspectedFrame(frame.stream, frame.index, frame.pts_ns, frame.capture_ns, frame.size_wh)
            self._images[""] = image

    def enter(self, element_id: str, element: Element, given: Batch) -> StepWatch | None:
        """Note what a step is given; None when the frame is not among it."""
        known = self.frame
        if known is None or self._is_closed:
            return None
        for row, frame in enumerate(given.frames):
            if frame.index == known.index and frame.stream == known.stream:
                step = StepInspection(element_id, given.objects.of_frame(row))
                with self._lock:
                    self.steps[element_id] = step
                return StepWatch(self, element, given, row, step, _sum_of(frame.surface))
        return None

    def left(self, step: StepInspection, *, image: Surface | None = None) -> None:
        """Note that the frame has passed a step, and what its image is when that has made another one of it."""
        with self._lock:
            if image is not None:
                self._images[step.element_id] = image
            self._left.discard(step.element_id)
            is_done = not self._left
        if is_done:
            self._done.set()

    def stop_looking(self, error: BaseException) -> None:
        """Show no image and wait for nothing more, because looking at the frame has failed."""
        self._failure = redact(f"it could not be copied: {type(error).__name__}: {error}")
        self.close()
        self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait until the frame has passed all steps; return whether it has."""
        return self._done.wait(seconds)

    def close(self) -> None:
        """Collect nothing more."""
        self._is_closed = True

    @property
    def missing(self) -> list[str]:
        """The steps that the frame has not passed."""
        return [name for name in self.elements if name in self._left]

    def image(self) -> tuple[Surface | None, str]:
        """Return the image that may be shown, in host memory, or None and the reason."""
        with self._lock:
            images = {} if self._failure else dict(self._images)
        if not images:
            return None, self._failure or "no frame came"
        unknown = [name for name in self.missing if may_hide(self.elements[name])]
        if unknown:
            return None, f"the frame has not passed {', '.join(unknown)}, which may hide parts of it"
        last, apart = shown_behind((name for name in self.elements if name in images), self._branches)
        if apart is not None:
            return None, f"{last} and {apart} hide parts of it in different branches"
        return images[last or ""], ""


@dataclass(frozen=True, slots=True, eq=False)
class StepWatch:
    """Watches one step while it works on a batch with the frame, at `row`."""

    inspection: FrameInspection
    element: Element
    given: Batch
    row: int
    step: StepInspection
    sum_before: int | None

    def process(self, operator: Operator) -> Batch | Pending:
        """Let the operator process the batch; show what its model does if it can."""
        if not isinstance(operator, ShowsWork):
            return operator.process(self.given)
        self.step.is_model = True
        return operator.process_shown(self.given, row=self.row, show=self.show)

    def show(self, work: ModelWork) -> None:
        """Take what a model did."""
        self.step.works.append(work)

    def leave(self, result: Batch) -> None:
        """Take what the step made of the batch."""
        try:
            image = _copied(result.frames[self.row].surface) if self._may_have_hidden(result) else None
            events = [event for event in new_events(self.given.events, result.events) if event.frame == self.row]
            self.step.after, self.step.events = result.objects.of_frame(self.row), tuple(events)
        except Exception as error:  # noqa: BLE001  whoever looks must not stop the run; they are shown why
            self.inspection.stop_looking(error)
            return
        self.inspection.left(self.step, image=image)

    def _may_have_hidden(self, result: Batch) -> bool:
        """Whether the step gave another image, or wrote into this one, and that not only to show something."""
        if self.element.draws_only:
            return False
        surface = result.frames[self.row].surface
        is_same = surface is self.given.frames[self.row].surface and _sum_of(surface) == self.sum_before
        return self.element.changes_images or not is_same

    def fail(self, text: str) -> None:
        """Note that the step failed on the frame, which goes on without it."""
        self.step.failure = text
        self.inspection.left(self.step)


def _takes(element: Element, stream: str) -> bool:
    patterns = element.streams
    return patterns is None or any(fnmatchcase(stream, pattern) for pattern in patterns)


def _sum_of(surface: Surface) -> int | None:
    """A sum by which a change of pixels in host memory is noticed; those in a GPU's are never changed in place."""
    if surface.memory is not Memory.HOST:
        return None
    total = 0
    for plane in surface.planes:
        total = crc32(np.ascontiguousarray(plane).data, total)
    return total


def _copied(surface: Surface) -> Surface:
    return surface.shared().writable() if surface.memory is Memory.HOST else surface.to_host()
