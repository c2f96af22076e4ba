"""Steps of the main process: each result goes to the version that it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from sightline.devices import Device
from sightline.errors import OperatorError
from sightline.graph import ChangesLive, Element, Outputs, Sink, Site
from sightline.graph.site import SystemClock
from sightline.media import Batch
from sightline.runtime.processes.main_steps import MainSteps
from sightline.runtime.processes.results import Results
from sightline.testing import make_frames

LOG: list[tuple[str, Any]] = []


class Noting(Element):
    """A sink that notes what happens to it."""

    name: ClassVar[str] = "noting"
    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True

    title: str = "a"
    limit: ChangesLive[int] = 1

    def build(self, site: Site) -> NotingSink:
        del site
        return NotingSink(self)


class NotingSink(Sink):
    def __init__(self, element: Noting) -> None:
        self._element = element

    def consume(self, batch: Batch) -> None:
        LOG.append((f"{self._element.title}{self._element.limit}", [frame.index for frame in batch.frames]))

    def change(self, element: Noting) -> None:
        if element.limit < 0:
            raise ValueError("less than nothing")
        self._element = element

    def close(self) -> None:
        LOG.append((self._element.title, "closed"))


def unexpected(error: BaseException) -> None:
    raise error


@pytest.fixture
def steps(tmp_path: Path) -> MainSteps:
    LOG.clear()
    site = Site(device=Device(), pipeline="test", clock=SystemClock(), outputs=Outputs(tmp_path), post=lambda _: None)
    return MainSteps({"x": Noting()}, site=site, on_error=unexpected, on_hopeless=lambda *_: None)


def send(steps: MainSteps, version: int, *, frames: int) -> None:
    """Let a worker send frames 0, 1 and so on."""
    steps.process(("x", version), Results.of(Batch(tuple(make_frames(frames)))))


def test_options_that_change_live_change_at_once_and_back(steps: MainSteps) -> None:
    change = steps.begin({"x": Noting(limit=2)}, prove_ns=0)
    send(steps, 1, frames=1)
    steps.withdraw(change)
    send(steps, 1, frames=2)
    steps.finish(steps.begin({"x": Noting(limit=3)}, prove_ns=0))
    send(steps, 1, frames=3)

    assert change.forwarded == steps.forwarded == {"x": 1}
    assert LOG == [("a2", [0]), ("a1", [1]), ("a3", [2])]


def test_options_that_are_refused_leave_the_former_ones(steps: MainSteps) -> None:
    with pytest.raises(OperatorError, match="less than nothing"):
        steps.begin({"x": Noting(limit=-1)}, prove_ns=0)
    send(steps, 1, frames=1)

    assert LOG == [("a1", [0])]


def test_both_versions_take_results_until_the_change_is_over(steps: MainSteps) -> None:
    change = steps.begin({"x": Noting(title="b")}, prove_ns=0)
    send(steps, 1, frames=1)
    steps.process(("x", 2), Results.of(Batch(tuple(make_frames(2))).select_frames([1])))
    steps.process(("x", 1), Results.of(Batch(tuple(make_frames(2)))))
    steps.finish(change)
    send(steps, 2, frames=3)

    assert steps.forwarded == {"x": 2}
    assert LOG == [("a1", [0]), ("b1", [1]), ("a1", [1]), ("a", "closed"), ("b1", [2])]


def test_what_was_built_for_a_change_that_is_withdrawn_is_closed(steps: MainSteps) -> None:
    steps.withdraw(steps.begin({"x": Noting(title="b")}, prove_ns=0))
    send(steps, 1, frames=1)
    steps.close(drained=True)

    assert LOG == [("b", "closed"), ("a1", [0]), ("a", "closed")]
