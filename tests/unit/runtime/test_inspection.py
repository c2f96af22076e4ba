"""What is known of a frame that somebody inspects: what each step made of it, and which image may be shown."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.graph import Element, Operator, Parallel, PipelineDescription, Site, Step, Tee
from sightline.media import Batch, Surface
from sightline.runtime.inspection import FrameInspection
from tests.unit.runtime.elements import Find, Remark, Synthetic, Tally


class Paint(Element):
    """Paints all of the image in one level."""

    name: ClassVar[str] = "paint"
    changes_images: ClassVar[bool] = True

    level: int

    def build(self, site: Site) -> Operator:
        del site
        return _Painter(self.level)


class Mark(Paint):
    """Paints to show something."""

    name: ClassVar[str] = "mark"
    draws_only: ClassVar[bool] = True


class _Painter(Operator):
    def __init__(self, level: int) -> None:
        self._level = level

    def process(self, batch: Batch) -> Batch:
        return batch.with_surfaces([_painted(frame.surface, self._level) for frame in batch.frames])


def _painted(surface: Surface, level: int) -> Surface:
    own = surface.shared().writable()
    for plane in own.planes:
        plane[...] = level
    return own


class PaintInPlace(Element):
    """Writes the number of the frame into the image that it was given, past its views that are read-only, and without a
    word about it.
    """

    name: ClassVar[str] = "in_place"

    def build(self, site: Site) -> Operator:
        del site
        return _PainterInPlace()


class _PainterInPlace(Operator):
    def process(self, batch: Batch) -> Batch:
        for frame in batch.frames:
            for plane in frame.surface.planes:
                assert plane.base is not None
                plane.base[...] = min(frame.index, 255)
        return batch


class Broken(Element):
    """Fails on every frame."""

    name: ClassVar[str] = "broken"

    def build(self, site: Site) -> Operator:
        del site
        return _Broken()


class _Broken(Operator):
    def process(self, batch: Batch) -> Batch:
        raise ZeroDivisionError("it broke")


def inspected(*steps: Step, timeout: str = "60s") -> FrameInspection:
    """Inspect a frame of a pipeline with these steps."""
    sources = {"gate": Synthetic(frames=None), "yard": Synthetic(frames=None)}
    with Pipeline.from_description(PipelineDescription(sources=sources, steps=steps)) as pipeline:
        return pipeline.inspect("gate", timeout=timeout)


def level_of(inspection: FrameInspection) -> int | None:
    """The level that all of the image that may be shown has."""
    surface, _ = inspection.image()
    return None if surface is None else int(np.unique(surface.planes[0])[0])


def test_objects_before_and_after_each_step_are_told() -> None:
    inspection = inspected(Find(id="find"), Tally(id="tally"), Find(id="more", label="other"))

    assert inspection.missing == []
    counts = {name: (len(step.before), len(step.after or ())) for name, step in inspection.steps.items()}
    assert counts == {"find": (0, 1), "tally": (1, 1), "more": (1, 2)}
    assert inspection.frame is not None
    assert inspection.frame.stream.name == "gate"


def test_it_is_the_same_frame_in_every_branch() -> None:
    inspection = inspected(
        Tee(branches={"a": (Find(id="a"), Tally(id="behind")), "b": (Tally(id="b"),)}),
        Parallel(branches={"c": (Find(id="c"),), "d": (Find(id="d"),)}),
        Tally(id="last"),
    )

    assert inspection.missing == []
    assert len(inspection.steps["behind"].after or ()) == 1
    assert len(inspection.steps["last"].before) == 2
    found = inspection.steps["a"].after
    assert found is not None
    assert all(one.xyxy == found[0].xyxy for one in inspection.steps["last"].before)


def test_events_are_those_of_the_step() -> None:
    inspection = inspected(Remark(id="one"), Tally(id="none"), Remark(id="two"))

    assert {name: len(step.events) for name, step in inspection.steps.items()} == {"one": 1, "none": 0, "two": 1}


def test_steps_for_other_streams_have_no_part_in_it() -> None:
    inspection = inspected(Tally(id="here"), Tally(id="elsewhere", streams=("yard",)))

    assert list(inspection.steps) == ["here"]
    assert inspection.missing == []


def test_a_step_that_is_skipped_tells_its_failure() -> None:
    inspection = inspected(Broken(id="broken", on_error="skip"), Tally(id="behind"))

    assert "it broke" in inspection.steps["broken"].failure
    assert inspection.missing == []


def test_what_a_step_hides_is_never_shown() -> None:
    assert level_of(inspected(Tally(), Paint(level=77), Tally())) == 77
    assert level_of(inspected(Paint(level=77), Paint(level=78))) == 78
    assert level_of(inspected(Tee(branches={"a": (Tally(), Paint(level=77))}), Tally())) == 77


def test_what_a_step_hides_in_place_is_not_shown_either() -> None:
    inspection = inspected(PaintInPlace(), Tally())

    level = level_of(inspection)
    assert inspection.frame is not None
    assert level is not None
    assert level >= inspection.frame.index  # the frames of a batch share one image here; before it shows an earlier one


def test_what_a_step_draws_is_not_in_the_image() -> None:
    assert level_of(inspected(Paint(level=77), Mark(level=200))) == 77


def test_what_different_branches_hide_is_not_shown_at_all() -> None:
    inspection = inspected(Tee(branches={"a": (Paint(level=77, id="p"),), "b": (Paint(level=78, id="q"),)}))

    assert inspection.image() == (None, "q and p hide parts of it in different branches")


def test_an_unknown_stream_is_named() -> None:
    pipeline = Pipeline.from_description(PipelineDescription(sources={"gate": Synthetic(frames=None)}))
    with pipeline, pytest.raises(ConfigurationError, match="there is no stream 'yard'; streams: gate"):
        pipeline.inspect("yard")


def test_without_a_frame_it_ends_in_time_and_tells_nothing() -> None:
    sources = {"gate": Synthetic(frames=None), "yard": Synthetic(frames=None)}
    with Pipeline.from_description(PipelineDescription(sources=sources, steps=(Tally(id="tally"),))) as pipeline:
        pipeline.pause("gate").wait()
        inspection = pipeline.inspect("gate", timeout="50ms")

    assert inspection.frame is None
    assert inspection.missing == ["tally"]
    assert inspection.image() == (None, "no frame came")
