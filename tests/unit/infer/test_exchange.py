"""The model of a step is exchanged while frames come, and the former one goes on where the new one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sightline.errors import ModelError
from sightline.graph import MessageKind
from sightline.media import Batch
from sightline_plugins.infer.exchange import ExchangeableModel
from tests.unit.infer import tried
from tests.unit.infer.tried import PROVE_NS, RIGHT, SWAPPED, Step


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Step]:
    made = Step(tmp_path)
    yield made
    made.operator.close()


def test_another_model_takes_over_between_two_batches_and_is_kept_when_its_time_is_over(step: Step) -> None:
    assert tried.found(step.run()) == RIGHT

    step.swap(tried.write_swapped_classes)

    assert tried.found(step.run()) == SWAPPED
    assert step.newest()["state"] == "trial"
    step.clock.ahead_ns = PROVE_NS
    assert tried.found(step.run()) == SWAPPED
    assert step.newest() == {
        "trial": "swap",
        "model": "write_swapped_classes.onnx",
        "beside": "right.onnx",
        "state": "kept",
        "frames": 1,
        "runs": 1,
        "invalid_outputs": 0,
    }
    assert step.told(MessageKind.MODEL)[-1] == "write_swapped_classes.onnx has proved itself, and right.onnx is closed"
    assert step.operator.totals()["runs"] == 3


@pytest.mark.parametrize(
    ("write", "condition", "reason"),
    [
        (tried.write_not_finite, "invalid_outputs", "the outputs of 2 of 2 runs are not finite numbers"),
        (tried.write_raising, "exception", "indices element out of data bounds"),
    ],
)
def test_a_batch_on_which_the_new_model_fails_has_the_results_of_the_former_one(
    step: Step, write: Callable[[Path], Path], condition: str, reason: str
) -> None:
    before = tried.found(step.run(2))
    step.swap(write)

    assert tried.found(step.run(2)) == before

    assert step.newest()["condition"] == condition
    (text,) = step.told(MessageKind.MODEL_TAKEN_BACK)
    assert text.startswith(f"{write.__name__}.onnx is rolled back, and right.onnx goes on: ")
    assert reason in text
    assert tried.found(step.run()) == RIGHT


def test_batches_that_are_under_way_when_the_new_model_fails_are_whole(step: Step) -> None:
    step.swap(tried.write_raising)
    pending = [step.operator.process(Batch(tuple(tried.frames(1, first=index)))) for index in range(4)]

    results = [one if isinstance(one, Batch) else one.result() for one in pending]

    assert [tried.found(batch) for batch in results] == [RIGHT] * 4
    assert len(step.told(MessageKind.MODEL_TAKEN_BACK)) == 1


def test_a_model_that_is_too_slow_is_rolled_back_within_a_hundred_frames(step: Step) -> None:
    for _ in range(10):
        step.run()
    step.swap(tried.write_slow)
    first = step.count

    while step.newest()["state"] == "trial" and step.count < first + 100:
        assert tried.found(step.run()) == RIGHT

    assert (step.newest()["state"], step.newest()["condition"]) == ("rolled_back", "slowdown")


def test_a_limit_of_the_latency_is_for_batches(step: Step) -> None:
    step.swap(tried.write_slow, swap={"max_slowdown": None, "max_latency": "1ms"})

    while step.newest()["state"] == "trial" and step.count < 100:
        step.run()

    assert step.newest()["condition"] == "latency"


def test_so_many_invalid_outputs_as_are_allowed_are_no_reason(step: Step) -> None:
    step.swap(tried.write_not_finite, swap={"max_invalid": 1})

    assert tried.found(step.run()) == []
    assert step.newest()["state"] == "trial"


def test_a_model_that_cannot_be_opened_changes_nothing(step: Step) -> None:
    (step.folder / "none.onnx").write_bytes(b"nothing")
    assert isinstance(step.operator, ExchangeableModel)

    with pytest.raises(ModelError, match=r"none\.onnx"):
        step.operator.prepare(step.element(step.folder / "none.onnx"), prove_ns=0)

    assert tried.found(step.run()) == RIGHT
    assert "models" not in step.operator.totals()


def test_a_change_back_on_probation_takes_the_model_that_is_still_open(step: Step) -> None:
    former = step.operator._model  # type: ignore[attr-defined]
    step.swap(tried.write_swapped_classes)

    step.swap(lambda path: step.folder / "right.onnx", prove_ns=0)

    assert step.operator._model is former  # type: ignore[attr-defined]
    assert (step.newest()["state"], step.newest()["condition"]) == ("rolled_back", "reverted")
    assert tried.found(step.run()) == RIGHT


def test_a_file_that_was_written_anew_is_another_model(step: Step) -> None:
    step.swap(lambda path: tried.write_swapped_classes(step.folder / "right.onnx"), prove_ns=0)

    assert tried.found(step.run()) == SWAPPED
