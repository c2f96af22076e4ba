from __future__ import annotations

import math

import numpy as np
import pytest

from sightline.errors import ModelError
from tests.unit.heads.decoding import Expected, Outputs, assert_found, read

SIZE_WH = (320, 192)
CLASSES = 5
QUERIES = 20
THINGS: list[Expected] = [((10.0, 8.0, 62.0, 60.0), 2, 0.9), ((100.5, 20.25, 239.0, 110.0), 0, 0.6)]


def boxes() -> np.ndarray:
    """Centre, width and height as shares of the input, one thing in every third query."""
    made = np.full((1, QUERIES, 4), 0.5, np.float32)
    for number, ((x1, y1, x2, y2), _, _) in enumerate(THINGS):
        made[0, 3 * number] = [(x1 + x2) / 640, (y1 + y2) / 384, (x2 - x1) / 320, (y2 - y1) / 192]
    return made


def exclusive() -> Outputs:
    """Raw scores whose softmax gives each thing its confidence and nothing the rest."""
    scores = np.full((1, QUERIES, CLASSES + 1), -9.0, np.float32)
    scores[0, :, -1] = 4.0
    for number, (_, kind, score) in enumerate(THINGS):
        scores[0, 3 * number] = math.log((1 - score) / CLASSES)
        scores[0, 3 * number, kind] = math.log(score)
    return [scores, boxes()]


def independent() -> Outputs:
    scores = np.full((1, QUERIES, CLASSES), -7.0, np.float32)
    for number, (_, kind, score) in enumerate(THINGS):
        scores[0, 3 * number, kind] = math.log(score / (1 - score))
    return [scores, boxes()]


@pytest.mark.parametrize("turned", [False, True])
def test_detr_takes_a_softmax_with_no_object_last(turned: bool) -> None:
    assert_found(read("detr", exclusive()[:: -1 if turned else 1], size_wh=SIZE_WH), THINGS)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("head", ["rt_detr", "rf_detr"])
def test_its_successors_take_the_logistic_function(head: str, turned: bool) -> None:
    assert_found(read(head, independent()[:: -1 if turned else 1], size_wh=SIZE_WH), THINGS)


def test_detr_takes_the_best_class_of_a_query_only() -> None:
    scores, where = exclusive()
    scores[0, 0, :3] = [0.0, -9.0, 0.1]

    found = read("detr", [scores, where], size_wh=SIZE_WH, confidence=0.3)

    assert sorted(found.class_id.tolist()) == [0, 2]


def test_a_query_of_its_successors_may_be_two_things() -> None:
    scores, where = independent()
    scores[0, 0, 4] = 0.5

    assert len(read("rt_detr", [scores, where], size_wh=SIZE_WH)) == 3


def test_probabilities_are_taken_as_they_are() -> None:
    scores, where = independent()

    assert_found(read("rt_detr", [1 / (1 + np.exp(-scores)), where], size_wh=SIZE_WH), THINGS)


def test_four_classes_are_known_from_boxes_by_the_names() -> None:
    scores, where = independent()
    scores = scores[..., :4]

    assert_found(read("rt_detr", [where, scores], size_wh=SIZE_WH, names=("pred_boxes", "pred_logits")), THINGS)
    assert_found(read("rt_detr", [scores, where], size_wh=SIZE_WH, names=("a", "b")), THINGS)


def test_outputs_that_do_not_fit_are_refused() -> None:
    scores, where = independent()

    with pytest.raises(ModelError, match="do not fit each other"):
        read("rt_detr", [scores[:, :-1], where], size_wh=SIZE_WH)
    with pytest.raises(ModelError, match="boxes \\(queries, 4\\)"):
        read("rt_detr", [scores], size_wh=SIZE_WH)
