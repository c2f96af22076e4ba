"""Scores of classifiers, made from known probabilities by the definitions of softmax and the logistic function."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.classify import ClassifyOptions, TagOptions
from sightline_plugins.heads.head import DecodeContext, Scores, Signature
from sightline_plugins.heads.registry import HEADS, heads_of, match_head

SHARES = [0.2, 0.7, 0.1]
LOGITS = [float(np.log(share)) + 3 for share in SHARES]
LIKELY = [0.9, 0.1, 0.6]
ODDS = [float(np.log(value / (1 - value))) for value in LIKELY]


def decode(head: str, *outputs: npt.NDArray[Any], output_ops: tuple[str, ...] = (), options: Any = None) -> list[Any]:
    context = DecodeContext((8, 8), output_ops=output_ops, options=options)
    found: Scores = HEADS[head].decode(outputs, context)
    return [pytest.approx(values.tolist(), abs=1e-6) for values in found.values]


def row(values: list[float], *shape: int) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32).reshape(shape or (1, -1))


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1), (3,)])
def test_raw_scores_become_shares_in_every_shape(shape: tuple[int, ...]) -> None:
    assert decode("classify", row(LOGITS, *shape)) == [SHARES]


def test_shares_stay_what_they_are() -> None:
    assert decode("classify", row(SHARES)) == [SHARES]


def test_shares_in_half_precision_stay_what_they_are() -> None:
    values = np.full((1, 1000, 1, 1), 0.001, np.float16)

    assert decode("classify", values) == [[float(np.float16(0.001))] * 1000]


def test_logarithms_of_shares_become_shares() -> None:
    assert decode("classify", np.log(row(SHARES))) == [SHARES]


def test_each_output_is_a_choice_of_its_own() -> None:
    assert decode("classify", row(LOGITS), row([0.25, 0.75])) == [SHARES, [0.25, 0.75]]


def test_large_raw_scores_do_not_overflow() -> None:
    assert decode("classify", row([1e4, -1e4])) == [[1, 0]]
    assert decode("tags", row([1e4, -1e4])) == [[1, 0]]


def test_the_operator_that_made_them_tells_raw_scores_from_shares() -> None:
    halves = row([0.4, 0.6])

    assert decode("classify", halves, output_ops=("Gemm",)) == [[1 / (1 + np.exp(0.2)), 1 / (1 + np.exp(-0.2))]]
    assert decode("classify", row([0.3, 0.6]), output_ops=("Softmax",)) == [[0.3, 0.6]]


def test_an_option_says_what_scores_are() -> None:
    assert decode("classify", row([0.3, 0.6]), options=ClassifyOptions(scores="probabilities")) == [[0.3, 0.6]]
    assert decode("classify", row([0.5, 0.5]), options=ClassifyOptions(scores="softmax")) == [[0.5, 0.5]]
    assert decode("tags", row([0.0, 1.0]), options=TagOptions(scores="sigmoid")) == [[0.5, 1 / (1 + np.exp(-1))]]


def test_tags_are_logistic_values_each_by_itself() -> None:
    assert decode("tags", row(ODDS)) == [LIKELY]
    assert decode("tags", row(LIKELY)) == [LIKELY]


@pytest.mark.parametrize(
    ("shape", "ending", "head"),
    [
        ((1, 1000, 1, 1), "Softmax", "classify"),
        ((None, 10), "Gemm", "classify"),
        ((None, 26), "Sigmoid", "tags"),
        ((1, 1), "Gemm", "tags"),
    ],
)
def test_the_kind_of_classifier_is_matched_by_its_output(shape: tuple[int | None, ...], ending: str, head: str) -> None:
    output = TensorSpec("scores", shape, np.dtype(np.float32))

    assert match_head(Signature((output,), (8, 8), output_ops=(ending,)), heads_of("classify").values()) == head
