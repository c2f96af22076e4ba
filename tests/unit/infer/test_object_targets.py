"""Objects as targets: which the model runs on, and which keep their known result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sightline.media import Batch, Objects, Origin
from sightline.testing import make_batches
from sightline_plugins.infer.options import TargetSelection
from sightline_plugins.infer.targets import InferenceTarget, ObjectSelector, track_keys
from sightline_plugins.infer.track_memory import child_columns
from sightline_plugins.preprocess.definition import Preprocessing
from tests.unit.infer.mean_color import GREY, frames, plain_surface, tracked

SECOND = 1_000_000_000
BOX, SMALL = (4, 4, 36, 36), (4, 4, 14, 14)
PLATES = Origin("detect-2", ("plate",))
SMALL_INPUT = Preprocessing((16, 16))


def batches(count: int) -> list[Batch]:
    """Batches of one frame, ten a second."""
    return make_batches(frames(*[plain_surface(GREY)] * count))


def choose(
    selection: TargetSelection, seen: Sequence[Batch], *, reinfer_interval_ns: int = 2 * SECOND
) -> list[list[InferenceTarget]]:
    selector = ObjectSelector(selection, SMALL_INPUT, reinfer_interval_ns=reinfer_interval_ns)
    return [selector.select(batch) for batch in seen]


def dues(chosen: list[list[InferenceTarget]]) -> list[bool | None]:
    return [None if not targets else targets[0].due for targets in chosen]


def with_plates(batch: Batch, *boxes: Sequence[float], numbers: Sequence[int], remembered: bool = False) -> Batch:
    """The batch of one car with plates on it."""
    plates = Objects.from_columns(
        frame=[0] * len(boxes),
        xyxy=np.array(boxes, np.float32),
        confidence=[0.8] * len(boxes),
        class_id=[0] * len(boxes),
        source=PLATES,
        extra=child_columns(numbers, remembered=[remembered] * len(boxes)),
    )
    return batch.with_objects(batch.objects.with_children(plates, parents=[0] * len(boxes)))


def test_an_object_without_a_track_is_due_on_each_frame() -> None:
    assert dues(choose(TargetSelection(), [tracked(batch, BOX) for batch in batches(3)])) == [True] * 3


def test_an_object_without_a_track_is_left_out_where_only_tracked_ones_are_wanted() -> None:
    (batch,) = batches(1)
    selection = TargetSelection(tracked=True)

    assert dues(choose(selection, [tracked(batch, BOX)])) == [None]
    assert dues(choose(selection, [tracked(batch, BOX, tracks=[1])])) == [True]


def test_a_tracked_object_is_remembered_between_runs() -> None:
    assert dues(choose(TargetSelection(), [tracked(batch, BOX, tracks=[1]) for batch in batches(3)])) == [
        True,
        False,
        True,
    ]


def test_a_small_object_is_skipped() -> None:
    selection = TargetSelection(min_size=(16, 16))

    assert dues(choose(selection, [tracked(batch, SMALL, tracks=[1]) for batch in batches(2)])) == [None, None]


@pytest.mark.parametrize("change", [{"box": SMALL}, {"confidence": 0.2}])
def test_what_is_known_stays_with_an_object_that_became_too_small_or_too_doubtful(change: dict[str, object]) -> None:
    first, second = batches(2)
    box = SMALL if "box" in change else BOX
    confidence = 0.2 if "confidence" in change else 0.9
    seen = [tracked(first, BOX, tracks=[1]), tracked(second, box, tracks=[1], confidence=confidence)]

    known, recalled = choose(
        TargetSelection(min_size=(16, 16), min_confidence=0.5), seen, reinfer_interval_ns=SECOND // 10
    )

    assert (known[0].due, recalled[0].due) == (True, False)
    assert recalled[0].entry is known[0].entry


def test_an_object_whose_place_is_only_remembered_is_skipped() -> None:
    selection = TargetSelection(label=("plate",))
    seen = [
        with_plates(tracked(batch, BOX, tracks=[1]), (10, 28, 26, 32), numbers=[0], remembered=bool(number % 2))
        for number, batch in enumerate(batches(4))
    ]

    assert dues(choose(selection, seen, reinfer_interval_ns=SECOND // 10)) == [True, False, True, False]


def test_it_is_due_on_every_frame_without_an_interval() -> None:
    (batch,) = batches(1)
    seen = with_plates(tracked(batch, BOX, tracks=[1]), (10, 28, 26, 32), numbers=[0], remembered=True)

    assert dues(choose(TargetSelection(label=("plate",)), [seen], reinfer_interval_ns=0)) == [True]


def test_children_of_a_tracked_object_are_identified_by_its_track_and_their_number() -> None:
    (batch,) = batches(1)
    left, right = (6, 28, 14, 32), (24, 28, 32, 32)
    one = with_plates(tracked(batch, BOX, tracks=[7]), left, right, numbers=[0, 1]).objects
    two = with_plates(tracked(batch, BOX, tracks=[7]), right, left, numbers=[1, 0]).objects

    keys = track_keys(one, np.array([1, 2]))

    assert len(set(keys)) == 2
    assert track_keys(two, np.array([2, 1])) == keys


def test_children_of_an_untracked_object_have_no_key() -> None:
    (batch,) = batches(1)
    objects = with_plates(tracked(batch, BOX), (6, 28, 14, 32), numbers=[-1]).objects

    assert track_keys(objects, np.array([0, 1])) == [None, None]
