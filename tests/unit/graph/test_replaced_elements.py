"""Descriptions in which one step is another."""

from __future__ import annotations

import pytest

from sightline.errors import ConfigurationError
from sightline.graph import Parallel, PipelineDescription, Tee
from tests.unit.runtime.elements import Remark, Tally

SAME = Remark()
TREE = PipelineDescription(
    sources={},
    steps=(SAME, Tee(branches={"a": (SAME, Tally(id="t")), "b": (Parallel(branches={"c": (SAME,)}),)}), SAME),
)


@pytest.mark.parametrize("element_id", ["remark-1", "remark-2", "t", "remark-3", "remark-4"])
def test_one_element_is_replaced_at_any_depth_and_no_other(element_id: str) -> None:
    other = TREE.element(element_id).model_copy(update={"id": element_id, "on_error": "skip"})

    replaced = TREE.with_element(element_id, other)

    assert replaced.element(element_id) == other
    assert [one for one in replaced.elements() if one not in TREE.elements()] == [(element_id, other)]


def test_an_id_that_no_step_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="no step has the id 'x'; the ids are remark-1, remark-2, t"):
        TREE.with_element("x", SAME)


@pytest.mark.parametrize("element_id", ["remark-1", "remark-2", "t", "remark-3", "remark-4"])
def test_steps_are_added_behind_a_step_in_its_branch_and_taken_out_again(element_id: str) -> None:
    more = TREE.with_steps([Tally(id="new"), Tally(id="newer")], after=element_id)

    ids = [one for one, _ in more.elements()]
    place = ids.index(element_id) + 1
    assert ids[place : place + 2] == ["new", "newer"]
    assert more.without_element("newer").without_element("new") == TREE


def test_steps_are_added_before_all_others() -> None:
    assert next(one for one, _ in TREE.with_steps([Tally()], after=None).elements()) == "tally-1"


def test_a_step_that_is_not_there_is_neither_followed_nor_removed() -> None:
    with pytest.raises(ConfigurationError, match="no step has the id 'x'"):
        TREE.with_steps([Tally()], after="x")
    with pytest.raises(ConfigurationError, match="no step has the id 'x'"):
        TREE.without_element("x")
