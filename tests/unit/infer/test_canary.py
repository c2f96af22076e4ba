"""A canary serves some of the streams, and is rolled back by the conditions that its options state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import ConfigurationError, ModelError
from sightline.graph import MessageKind
from sightline.graph.fields import paths_of
from sightline.media import Batch
from sightline_plugins.infer.canary import chosen_streams
from sightline_plugins.infer.exchange import ExchangeableModel
from sightline_plugins.infer.trial import FailureCause, Verdict
from sightline_plugins.infer.trial_options import CanaryOptions
from tests.unit.infer import tried
from tests.unit.infer.tiny import write_detector
from tests.unit.infer.tried import RIGHT, SWAPPED, Step

STREAMS = ("north", "east", "south", "west")
(CHOSEN,) = chosen_streams(STREAMS, share=0.25)


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Step]:
    made = Step(tmp_path)
    yield made
    made.operator.close()


def begin(step: Step, write: Callable[[Path], Path], **options: Any) -> None:
    """Let a canary serve a quarter of the streams."""
    model = write(step.folder / f"{write.__name__}.onnx")
    assert isinstance(step.operator, ExchangeableModel)
    step.operator.change(step.element(step.folder / "right.onnx", canary={"model": model, "share": "25%"} | options))


def begin_provable(step: Step) -> None:
    """Let one serve that proves itself with eight frames in ten seconds, whatever it finds."""
    begin(step, tried.write_swapped_classes, max_disagreement=1, max_slowdown=None, prove="10s", prove_frames=8)


def run(step: Step, number: int) -> dict[str, list[tuple[int, str, list[float]]]]:
    """Give it a frame of each stream, and return what it finds on each."""
    given = [frame for name in STREAMS for frame in tried.frames(1, stream=name, first=number)]
    batch = step.give(given)
    assert [(frame.stream.name, frame.index) for frame in batch.frames] == [(name, number) for name in STREAMS]
    return {name: tried.found(batch.select_frames([row])) for row, name in enumerate(STREAMS)}


def until_it_ends(step: Step) -> int:
    """Run until the canary is rolled back, at most 100 frames; return how many frames it was given."""
    for number in range(25):
        run(step, number)
        if step.newest()["state"] == "rolled_back":
            break
    return int(step.newest()["frames"])


def test_it_serves_its_share_and_the_first_model_the_others(step: Step) -> None:
    begin(step, tried.write_swapped_classes, max_disagreement=1, max_slowdown=None)

    for number in range(12):
        assert run(step, number) == {name: SWAPPED if name == CHOSEN else RIGHT for name in STREAMS}

    report = step.newest()
    assert (report["trial"], report["frames"], report["compared_frames"]) == ("canary", 12, 11)
    assert (report["disagreement"], report["mean_iou"], report["other_labels"]) == (1, 1, 22)


@pytest.mark.parametrize(
    ("write", "condition"),
    [
        (tried.write_not_finite, "invalid_outputs"),
        (tried.write_raising, "exception"),
        (tried.write_swapped_classes, "disagreement"),
        (tried.write_slow, "slowdown"),
    ],
)
def test_one_that_fails_is_rolled_back_within_a_hundred_frames(
    step: Step, write: Callable[[Path], Path], condition: str
) -> None:
    begin(step, write)

    assert until_it_ends(step) <= 25

    assert step.newest()["condition"] == condition
    (text,) = step.told(MessageKind.CANARY_ROLLED_BACK)
    assert text.startswith(f"the canary {write.__name__}.onnx is rolled back, and right.onnx serves its streams: ")
    assert run(step, 30) == dict.fromkeys(STREAMS, RIGHT)


@pytest.mark.parametrize("write", [tried.write_not_finite, tried.write_raising])
def test_frames_on_which_it_fails_have_the_results_of_the_first_model(
    step: Step, write: Callable[[Path], Path]
) -> None:
    begin(step, write)

    assert run(step, 0) == dict.fromkeys(STREAMS, RIGHT)


def test_one_that_has_failed_begins_anew_only_when_it_is_set_anew(step: Step) -> None:
    begin(step, tried.write_not_finite)
    until_it_ends(step)

    begin(step, tried.write_not_finite)
    assert len(step.operator.totals()["models"]) == 1
    begin(step, tried.write_not_finite, max_invalid="100%")
    run(step, 40)

    assert [one["state"] for one in step.operator.totals()["models"]] == ["rolled_back", "trial"]


def test_it_is_promoted_without_being_opened_again(step: Step) -> None:
    begin_provable(step)
    step.clock.ahead_ns = 10_000_000_000
    for number in range(8):
        run(step, number)
    (told,) = step.told(MessageKind.CANARY_PROVED)
    assert told == "the canary write_swapped_classes.onnx has kept to its limits beside right.onnx: it can be promoted"
    assert isinstance(step.operator, ExchangeableModel)
    runs, canary = step.operator.runs, step.operator._canary
    assert canary is not None

    element = step.element(step.folder / "write_swapped_classes.onnx")
    step.operator.prepare(element, prove_ns=tried.PROVE_NS)
    step.operator.change(element)

    assert step.operator._model is canary.model
    assert run(step, 8) == dict.fromkeys(STREAMS, SWAPPED)
    assert step.operator.runs == runs + 4
    assert [one["state"] for one in step.operator.totals()["models"]] == ["kept", "trial"]
    assert step.operator.totals()["models"][0]["promoted"]


def test_it_is_not_promoted_before_it_has_proved_itself(step: Step) -> None:
    begin_provable(step)
    assert isinstance(step.operator, ExchangeableModel)
    element = step.element(step.folder / "write_swapped_classes.onnx")
    for number in range(3):
        run(step, number)

    lacks = "10 s of 10s are left, and it has served 3 of 8 frames, and on too few compared frames there was anything"
    with pytest.raises(ModelError, match=lacks):
        step.operator.prepare(element, prove_ns=tried.PROVE_NS)
    assert step.newest()["lacks"].startswith(lacks)
    assert run(step, 3)[CHOSEN] == SWAPPED
    step.operator.change(step.element(step.folder / "right.onnx"))
    step.operator.prepare(element, prove_ns=tried.PROVE_NS)  # taken out, it is a model like any other


def test_one_that_fails_after_it_was_promoted_is_not_tried_again(step: Step) -> None:
    begin_provable(step)
    assert isinstance(step.operator, ExchangeableModel)
    step.clock.ahead_ns = 10_000_000_000
    for number in range(8):
        run(step, number)
    before = step.element(
        step.folder / "right.onnx", canary=step.operator._canary.options if step.operator._canary else None
    )
    promoted = before.promoted()
    assert promoted is not None
    step.operator.prepare(promoted, prove_ns=tried.PROVE_NS)
    step.operator.change(promoted)
    assert step.operator._swap is not None
    step.operator._roll_back(step.operator._swap, Verdict(FailureCause.EXCEPTION, "it broke"))

    step.operator.prepare(before, prove_ns=0)  # what the change that is reverted asks for
    step.operator.change(before)

    assert run(step, 8) == dict.fromkeys(STREAMS, RIGHT)
    assert [one["state"] for one in step.operator.totals()["models"]] == ["rolled_back", "rolled_back"]


def test_frames_that_are_not_looked_at_are_no_disagreement(step: Step) -> None:
    model = write_detector(step.folder / "same.onnx")
    assert isinstance(step.operator, ExchangeableModel)
    step.operator.change(step.element(model, every=3, canary={"model": model, "compare": 1}))

    for number in range(9):
        run(step, number)

    assert step.newest()["disagreement"] == 0
    assert step.newest()["compared_frames"] == 3


def test_an_inspected_frame_shows_the_work_of_its_own_model(step: Step) -> None:
    begin(step, tried.write_swapped_classes, max_disagreement=1)
    given = [frame for name in STREAMS for frame in tried.frames(1, stream=name)]
    shown: list[object] = []
    assert isinstance(step.operator, ExchangeableModel)

    for row in range(len(STREAMS)):
        result = step.operator.process_shown(Batch(tuple(given)), row=row, show=shown.append)
        assert isinstance(result, Batch) or len(result.result()) == len(STREAMS)

    assert len(shown) == len(STREAMS)


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.1, 1), (0.25, 3), (0.5, 5), (1, 10)])
def test_a_share_of_the_streams_is_at_least_one_and_stays_the_same(share: float, count: int) -> None:
    names = [f"cam{number}" for number in range(10)]

    chosen = chosen_streams(names, share=share)

    assert len(chosen) == count
    assert chosen_streams(names[::-1], share=share) == chosen
    assert len(chosen & chosen_streams([*names, "another"], share=share)) >= count - 1


def test_options_are_checked(tmp_path: Path) -> None:
    assert CanaryOptions(model=tmp_path / "new.onnx", share="12.5%").share == 0.125
    with pytest.raises(ConfigurationError, match="share"):
        CanaryOptions(model=tmp_path / "new.onnx", share="120%")
    with pytest.raises(ConfigurationError, match="share"):
        CanaryOptions(model=tmp_path / "new.onnx", share=0)


def test_its_file_is_known_as_one_that_is_read(step: Step) -> None:
    element = step.element(step.folder / "right.onnx", canary={"model": "new.onnx"})

    assert [key for key, _, path in paths_of(element) if path == "new.onnx"] == [("canary", "model")]
