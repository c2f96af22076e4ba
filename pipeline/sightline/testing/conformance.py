"""The contract of elements, as checks that any element can be put through.

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_my_element_keeps_the_contract(check, tmp_path):
        check(conformance.Case(MyElement(), make_batches(make_frames(8)), outputs=tmp_path))

A check raises AssertionError with a sentence that says which promise was broken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Element, Pending, Site
from sightline.media import Batch, Frame, Memory, Objects, Surface
from sightline.media.batch import FrameColumns
from sightline.testing.run import run_element, site_for


@dataclass(frozen=True)
class Case:
    """An element and the batches, of one frame each, that it is to be checked with: on the CPU, or on `gpu`."""

    element: Element
    batches: Sequence[Batch]
    outputs: Path = field(default_factory=Path)
    gpu: CudaDevice | None = None

    def site(self) -> Site:
        """A site below the case's output folder."""
        return site_for(self.element.name, self.outputs, gpu=self.gpu)

    def run(self, batches: Sequence[Batch] | None = None) -> list[Batch]:
        """What the element makes of the batches, from build to close."""
        given = self.batches if batches is None else batches
        return run_element(self.element, given, outputs=self.outputs, gpu=self.gpu)


def is_a_value(case: Case) -> None:
    """An element is immutable, and what it is written as reads back equal."""
    element = case.element
    written = element.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert type(element).model_validate(written) == element, f"{element.name}: does not read back equal from {written}"
    assert element.model_config.get("frozen"), f"{element.name}: an element must be frozen"


def frames_pass_unchanged(case: Case) -> None:
    """Frames are neither added, removed, reordered nor renumbered; they keep their size unless pixels move."""
    for given, made in zip(case.batches, case.run(), strict=True):
        before = [_identity(frame, case.element) for frame in given.frames]
        after = [_identity(frame, case.element) for frame in made.frames]
        assert before == after, f"{case.element.name}: changed the frames {before} to {after}"


def _identity(frame: Frame, element: Element) -> tuple[object, ...]:
    return frame.stream, frame.index, frame.pts_ns, None if element.moves_pixels else frame.size_wh


def shared_pixels_are_not_written_to(case: Case) -> None:
    """Surfaces that are not exclusive keep every byte."""
    shared = [batch.shared() for batch in case.batches]
    before = [[plane for frame in batch.frames for plane in _pixels(frame.surface)] for batch in shared]
    case.run(shared)
    after = [[plane for frame in batch.frames for plane in _pixels(frame.surface)] for batch in shared]
    for old, new in zip(before, after, strict=True):
        same = all(np.array_equal(a, b) for a, b in zip(old, new, strict=True))
        assert same, f"{case.element.name}: wrote to a shared surface; ask for surface.writable()"


def results_do_not_depend_on_batch_size(case: Case) -> None:
    """One batch of all frames gives what batches of one frame give."""
    single = case.run()
    together = case.run([_join(case.batches)])[0]
    objects = Objects.concat(
        [batch.objects.with_columns(frame=batch.objects.frame + np.int32(row)) for row, batch in enumerate(single)]
    )
    _assert_equal_objects(objects, together.objects, case.element.name)
    events = [
        (row, event.kind, event.rule, dict(event.data)) for row, batch in enumerate(single) for event in batch.events
    ]
    others = [(event.frame, event.kind, event.rule, dict(event.data)) for event in together.events]
    assert events == others, f"{case.element.name}: events depend on the batch size"


def two_runs_are_equal(case: Case) -> None:
    """The same input gives the same output: nothing is left over from one run to the next."""
    for first, second in zip(case.run(), case.run(), strict=True):
        _assert_equal_objects(first.objects, second.objects, case.element.name)


def close_is_idempotent(case: Case) -> None:
    """An operator can be closed at once, and again."""
    operator = case.element.build(case.site())
    operator.close()
    operator.close()


def state_of_an_ended_stream_is_dropped(case: Case) -> None:
    """A stream that ended and comes again is a new stream."""
    operator = case.element.build(case.site())
    try:
        rounds: list[list[Batch]] = []
        for _ in range(2):
            made = [operator.process(batch) for batch in case.batches]
            rounds.append([one.result() if isinstance(one, Pending) else one for one in made])
            for stream in dict.fromkeys(frame.stream for batch in case.batches for frame in batch.frames):
                operator.end_stream(stream)
    finally:
        operator.close()
    for first, second in zip(*rounds, strict=True):
        assert len(first.events) == len(second.events), f"{case.element.name}: state outlived the end of its stream"


def no_thread_is_left_behind(case: Case) -> None:
    """An operator's threads, if its engine has any, are gone once it is closed."""
    case.run()
    before = threading.active_count()
    case.run()
    assert threading.active_count() <= before, f"{case.element.name}: left a thread behind"


CHECKS: tuple[Callable[[Case], None], ...] = (
    is_a_value,
    frames_pass_unchanged,
    shared_pixels_are_not_written_to,
    results_do_not_depend_on_batch_size,
    two_runs_are_equal,
    close_is_idempotent,
    state_of_an_ended_stream_is_dropped,
    no_thread_is_left_behind,
)


def _pixels(surface: Surface) -> list[npt.NDArray[Any]]:
    """What a surface holds now, as copies."""
    if surface.memory is Memory.CUDA:
        return [array.to_host() for array in surface.arrays]
    return [plane.copy() for plane in surface.planes]


def _join(batches: Sequence[Batch]) -> Batch:
    frames = tuple(frame for batch in batches for frame in batch.frames)
    objects = [
        batch.objects.with_columns(frame=batch.objects.frame + np.int32(row)) for row, batch in enumerate(batches)
    ]
    columns, row = FrameColumns(), 0
    for batch in batches:
        columns = columns.with_rows(range(row, row + len(batch)), batch.columns, frames=len(frames))
        row += len(batch)
    return Batch(frames, Objects.concat(objects), columns=columns)


def _assert_equal_objects(one: Objects, other: Objects, name: str) -> None:
    for column in ("frame", "xyxy", "confidence", "class_id", "track_id", "parent"):
        same = np.array_equal(getattr(one, column), getattr(other, column))
        assert same, f"{name}: objects differ in {column}"
    assert one.labels() == other.labels(), f"{name}: objects differ in their labels"
