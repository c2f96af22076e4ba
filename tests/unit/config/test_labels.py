"""Labels that options name, against those that the steps before can find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from tests.unit.config.parts import registry

from sightline.config import InvalidConfiguration, load_description
from sightline.config.step_checks import reaching_labels, unknown_labels
from sightline.graph import Capability, Element, Outputs, Parallel, Tee
from sightline.graph.tree import Step


class FindAny(Element):
    """Finds objects, and does not declare their labels."""

    name: ClassVar[str] = "find"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})


class Find(FindAny):
    """Finds objects of these labels."""

    names: tuple[str, ...]
    """The labels."""

    def found_labels(self) -> frozenset[str] | None:
        return frozenset(self.names)


class Count(Element):
    """Counts objects of some classes."""

    name: ClassVar[str] = "count"

    classes: tuple[str, ...] = ()
    """Which."""

    def wanted_labels(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        for number, label in enumerate(self.classes):
            yield ("classes", number), label


CARS = Find(names=("car", "van"))
PEOPLE = Find(names=("person",))
UNTOLD = FindAny()
COUNT_PEOPLE = Count(classes=("person",))
COUNT_CARS = Count(classes=("car",))


def told(*steps: Step) -> list[tuple[str | int, ...]]:
    """The key paths of the labels that are complained about, without `pipeline`."""
    return [key[1:] for key, _ in unknown_labels(steps, streams=("gate", "yard"))]


def on(element: Element, stream: str) -> Element:
    return element.model_copy(update={"streams": (stream,)})


def test_a_label_that_nothing_finds_is_told_at_its_place_with_the_nearest_one(folder: Path) -> None:
    here = f"{__name__}:"
    text = "sources: {gate: gate.mp4}\npipeline:\n- find: {names: [person, car]}\n- count: {classes: [car, carr]}\n"
    Path("p.yaml").write_text(text)

    with pytest.raises(InvalidConfiguration) as caught:
        load_description(
            "p.yaml", outputs=Outputs(folder / "out"), registry=registry(find=f"{here}Find", count=f"{here}Count")
        )

    assert str(caught.value) == (
        "p.yaml:4:26: pipeline.1.count.classes.1: no step before it finds 'carr'; did you mean 'car'? "
        "They find: car, person"
    )


def test_without_a_near_one_the_labels_that_are_found_are_told() -> None:
    [(_, message)] = unknown_labels((CARS, COUNT_PEOPLE), streams=("gate",))

    assert message == "no step before it finds 'person'; they find: car, van"


def test_each_wrong_label_is_told() -> None:
    assert told(CARS, Count(classes=("bus", "car", "tram"))) == [(1, "count", "classes", 0), (1, "count", "classes", 2)]


def test_every_step_before_counts() -> None:
    assert told(CARS, PEOPLE, COUNT_PEOPLE) == []


def test_a_step_behind_does_not_count() -> None:
    assert told(CARS, COUNT_PEOPLE, PEOPLE) == [(1, "count", "classes", 0)]


def test_what_a_branch_of_a_tee_finds_stays_there() -> None:
    assert told(CARS, Tee(branches={"a": (PEOPLE, COUNT_PEOPLE), "b": (COUNT_PEOPLE,)}), COUNT_PEOPLE) == [
        (1, "tee", "b", 0, "count", "classes", 0),
        (2, "count", "classes", 0),
    ]


def test_what_was_found_before_a_tee_is_found_in_its_branches() -> None:
    assert told(CARS, Tee(branches={"a": (COUNT_CARS,)})) == []


def test_what_the_branches_of_a_parallel_find_is_joined_behind_it() -> None:
    assert told(Parallel(branches={"a": (CARS,), "b": (PEOPLE,)}), COUNT_CARS, COUNT_PEOPLE) == []


def test_branches_of_a_parallel_do_not_see_each_other() -> None:
    assert told(Parallel(branches={"a": (CARS, COUNT_PEOPLE), "b": (PEOPLE,)})) == [
        (0, "parallel", "a", 1, "count", "classes", 0)
    ]


def test_a_step_for_another_stream_does_not_count() -> None:
    assert told(on(PEOPLE, "yard"), on(CARS, "gate"), on(COUNT_PEOPLE, "gate")) == [(2, "count", "classes", 0)]


def test_a_label_found_on_one_of_the_streams_of_a_step_is_enough() -> None:
    assert told(on(PEOPLE, "yard"), on(CARS, "gate"), COUNT_PEOPLE) == []


def test_nothing_is_said_where_a_step_before_does_not_tell_its_labels() -> None:
    assert told(CARS, UNTOLD, COUNT_PEOPLE) == []


def test_nothing_is_said_behind_a_parallel_with_a_branch_that_does_not_tell() -> None:
    assert told(Parallel(branches={"a": (CARS,), "b": (UNTOLD,)}), COUNT_PEOPLE) == []


def test_a_step_that_does_not_tell_its_labels_hides_nothing_on_other_streams() -> None:
    assert told(CARS, on(UNTOLD, "yard"), on(COUNT_PEOPLE, "gate")) == [(2, "count", "classes", 0)]


def test_nothing_is_said_where_no_step_before_finds_anything() -> None:
    assert told(COUNT_PEOPLE) == []


def test_no_element_is_asked_what_it_finds_when_no_option_names_a_label() -> None:
    class Expensive(FindAny):
        def found_labels(self) -> frozenset[str] | None:
            raise AssertionError("asked")

    assert told(Expensive(), Count()) == []


def test_the_labels_that_reach_a_step_are_known_by_its_id() -> None:
    steps = (COUNT_PEOPLE, CARS, Tee(branches={"a": (PEOPLE, COUNT_PEOPLE)}), COUNT_CARS, UNTOLD, COUNT_CARS)

    assert reaching_labels(steps, streams=("gate",)) == {
        "count-1": None,
        "find-1": None,
        "find-2": {"car", "van"},
        "count-2": {"car", "van", "person"},
        "count-3": {"car", "van"},
        "find-3": {"car", "van"},
        "count-4": None,
    }
