"""A shadow runs on a sample of the frames, is compared, and never touches or delays what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sightline.graph import MessageKind
from sightline_plugins.infer.exchange import ExchangeableModel
from tests.unit.infer import tried
from tests.unit.infer.tried import RIGHT, Step
from tests.waiting import wait_until


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Step]:
    made = Step(tmp_path)
    yield made
    made.operator.close()


def begin(step: Step, write: Callable[[Path], Path], **options: Any) -> None:
    model = write(step.folder / f"{write.__name__}.onnx")
    assert isinstance(step.operator, ExchangeableModel)
    shadow = {"model": model, "every": 1, "max_load": 1} | options
    step.operator.change(step.element(step.folder / "right.onnx", shadow=shadow))


def wait_for(step: Step, *, frames: int) -> None:
    """Wait until the shadow has been compared on so many frames."""
    wait_until(lambda: step.newest()["frames"] == frames)


def test_it_is_compared_on_every_nth_frame_and_results_stay_as_they_are(step: Step) -> None:
    begin(step, tried.write_swapped_classes, every=4)

    for number in range(12):
        assert tried.found(step.run()) == RIGHT
        wait_for(step, frames=1 + number // 4)

    report = step.newest()
    assert (report["trial"], report["state"], report["compared_frames"]) == ("shadow", "trial", 3)
    assert (report["disagreement"], report["mean_iou"], report["other_labels"]) == (1, 1, 6)
    assert (report["objects"], report["objects_beside"]) == (6, 6)
    assert "dropped" not in report


def test_samples_that_it_has_no_time_for_are_dropped_and_counted(step: Step) -> None:
    begin(step, tried.write_slow, max_load=0.001)

    step.run()
    wait_for(step, frames=1)
    for _ in range(20):
        assert tried.found(step.run()) == RIGHT

    assert step.newest()["dropped"] == 20
    assert step.newest()["frames"] == 1


def test_one_that_raises_is_not_asked_again(step: Step) -> None:
    begin(step, tried.write_raising)

    step.run()
    wait_until(lambda: step.newest()["state"] == "rolled_back")
    assert tried.found(step.run()) == RIGHT

    assert step.newest()["condition"] == "exception"
    assert "the shadow write_raising.onnx has failed" in step.told(MessageKind.WARNING)[-1]


def test_frames_that_it_holds_are_not_written_by_later_steps(step: Step) -> None:
    begin(step, tried.write_slow)
    (frame,) = tried.frames(1)
    exclusive = frame.surface.writable()
    assert exclusive.exclusive

    batch = step.give([replace(frame, surface=exclusive)])

    assert not batch.frames[0].surface.exclusive


def test_it_is_taken_out_and_exchanged_while_it_computes(step: Step) -> None:
    begin(step, tried.write_slow)
    step.run()
    begin(step, tried.write_swapped_classes)
    step.run()
    wait_for(step, frames=1)

    assert isinstance(step.operator, ExchangeableModel)
    step.operator.change(step.element(step.folder / "right.onnx"))

    assert tried.found(step.run()) == RIGHT
    assert [one["model"] for one in step.operator.totals()["models"]] == [
        "write_slow.onnx",
        "write_swapped_classes.onnx",
    ]
