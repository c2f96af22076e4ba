"""Frames know whether a step that changes images has had them."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from sightline import Pipeline
from sightline.graph import Element, Operator, Site, Tee
from sightline.media import Altered, Batch
from tests.unit.runtime.elements import Synthetic


class Painter(Element):
    """Says that it changes images, and leaves them as they are."""

    name: ClassVar[str] = "painter"
    changes_images: ClassVar[bool] = True

    def build(self, site: Site) -> Operator:
        return _Same()


class Marker(Painter):
    """Says that it only draws."""

    name: ClassVar[str] = "marker"
    draws_only: ClassVar[bool] = True


class Looker(Element):
    """Changes nothing."""

    name: ClassVar[str] = "looker"

    def build(self, site: Site) -> Operator:
        return _Same()


class Swapper(Element):
    """Puts other surfaces into its batches, although it does not say so."""

    name: ClassVar[str] = "swapper"

    def build(self, site: Site) -> Operator:
        return _Other()


class _Same(Operator):
    def process(self, batch: Batch) -> Batch:
        return batch


class _Other(Operator):
    def process(self, batch: Batch) -> Batch:
        return batch.with_surfaces([dataclasses.replace(frame.surface) for frame in batch.frames])


def altered_after(*steps: Element | Tee, streams: tuple[str, ...] = ("a",)) -> dict[str, set[Altered]]:
    seen: dict[str, set[Altered]] = {}

    def look(batch: Batch) -> None:
        for frame in batch.frames:
            seen.setdefault(frame.stream.name, set()).add(frame.altered)

    sources = {name: Synthetic(frames=3) for name in streams}
    pipeline = Pipeline(sources=sources, steps=[*steps, Looker(id="end")])
    pipeline.probe("end", look)
    pipeline.run()
    return seen


def test_frames_that_only_passed_are_not_altered() -> None:
    assert altered_after(Looker()) == {"a": {Altered.NO}}


def test_frames_that_a_painting_step_had_are_altered_even_when_it_painted_nothing() -> None:
    assert altered_after(Painter()) == {"a": {Altered.CHANGED}}


def test_a_step_that_only_draws_is_told_from_one_that_may_hide() -> None:
    assert altered_after(Marker()) == {"a": {Altered.DRAWN}}
    assert altered_after(Marker(), Painter()) == {"a": {Altered.DRAWN | Altered.CHANGED}}


def test_frames_with_another_surface_are_altered() -> None:
    assert altered_after(Swapper()) == {"a": {Altered.CHANGED}}


def test_frames_of_other_streams_are_not_altered() -> None:
    assert altered_after(Painter(streams=("a",)), streams=("a", "b")) == {"a": {Altered.CHANGED}, "b": {Altered.NO}}


def test_what_a_branch_paints_does_not_alter_the_line() -> None:
    assert altered_after(Tee(branches={"drawn": (Painter(),)})) == {"a": {Altered.NO}}
