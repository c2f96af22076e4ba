"""Changed frames that nobody would see are reported before anything runs."""

from __future__ import annotations

from typing import ClassVar

import pytest

from sightline.config.step_checks import lost_images
from sightline.graph import Element, Parallel, Tee
from sightline.graph.tree import Step


class Paint(Element):
    """Changes images."""

    name: ClassVar[str] = "paint"
    changes_images: ClassVar[bool] = True


class Keep(Element):
    """Keeps images."""

    name: ClassVar[str] = "keep"
    sink: ClassVar[bool] = True


PAINT, KEEP = Paint(), Keep()


def test_what_is_changed_in_a_branch_of_a_parallel_is_lost() -> None:
    ((key, message),) = lost_images((Parallel(branches={"a": (KEEP, PAINT), "b": ()}),))

    assert key == ("pipeline", 0, "parallel", "a", 1, "paint")
    assert message.startswith("what paint changes is lost here")


@pytest.mark.parametrize(
    "steps",
    [
        (PAINT, KEEP),
        (Tee(branches={"a": (PAINT,)}),),
        (Parallel(branches={"a": (PAINT, KEEP), "b": ()}),),
        (Parallel(branches={"a": (PAINT, Tee(branches={"c": (KEEP,)})), "b": ()}),),
    ],
    ids=["main line", "tee", "sink behind it", "sink in a tee behind it"],
)
def test_what_somebody_sees_is_no_mistake(steps: tuple[Step, ...]) -> None:
    assert list(lost_images(steps)) == []
