"""Steps that options name by their ids, against those that stand before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from sightline.config.step_checks import unknown_steps
from sightline.graph import Element, Parallel, Tee
from sightline.graph.tree import Step

Path = tuple[str | int, ...]


class Find(Element):
    """Finds objects, in images or on objects of other steps."""

    name: ClassVar[str] = "find"

    on: str | None = None
    """Objects of which label."""

    def searches(self) -> bool:
        return self.on is None


class Hide(Element):
    """Relies on a step that searched, and names another."""

    name: ClassVar[str] = "hide"

    finder: str
    """The step that searches."""
    other: str = "find-1"
    """A step."""

    def named_steps(self) -> Iterable[tuple[Path, str]]:
        return [(("other",), self.other)]

    def relied_on(self) -> Iterable[tuple[Path, str]]:
        return [(("finder",), self.finder)]


FIND = Find()


def told(*steps: Step) -> list[tuple[Path, str]]:
    """What is complained about, with key paths without `pipeline`."""
    return [(key[1:], message) for key, message in unknown_steps(steps, streams=("gate", "yard"))]


def test_a_step_that_stands_before_is_no_mistake() -> None:
    assert told(FIND, Hide(finder="find-1")) == []


def test_an_unknown_step_is_told_at_its_place_with_the_nearest_one() -> None:
    ((key, message),) = told(FIND, Hide(finder="fnd-1"))

    assert key == (1, "hide", "finder")
    assert message.startswith("no step before is called 'fnd-1'")
    assert "'find-1'" in message


def test_a_step_that_stands_behind_is_told_to_be_moved() -> None:
    assert told(Hide(finder="find-1"), FIND) == [
        ((0, "hide", "other"), "the step 'find-1' does not stand before this one: move it there"),
        ((0, "hide", "finder"), "the step 'find-1' does not stand before this one: move it there"),
    ]


def test_a_step_in_a_branch_of_a_tee_does_not_stand_before() -> None:
    assert len(told(Tee(branches={"a": (FIND,)}), Hide(finder="find-1"))) == 2


def test_steps_in_branches_of_a_parallel_stand_before() -> None:
    assert told(Parallel(branches={"a": (FIND,), "b": (FIND,)}), Hide(finder="find-2")) == []


def test_the_stream_that_a_step_does_not_work_on_is_told() -> None:
    found = told(FIND.model_copy(update={"streams": ("gate",)}), Hide(finder="find-1"))

    assert [("on the stream 'yard'" in message) for _, message in found] == [True, True]


def test_a_step_that_looks_at_objects_alone_can_not_be_relied_on() -> None:
    ((key, message),) = told(FIND, Find(on="person"), Hide(finder="find-2"))

    assert key == (2, "hide", "finder")
    assert "looks only at objects" in message


def test_a_step_that_searches_nothing_can_not_be_relied_on() -> None:
    ((_, message),) = told(FIND, Hide(finder="find-1"), Hide(finder="hide-1"))

    assert "name a detector" in message
