"""The contract of heads as a test class, for the heads of any package.

    class TestHelmets(HeadConformance):
        head = HELMETS

        def outputs(self):
            return [np.array([[[32, 32, 8, 8, 0.9]]], np.float32)]

The message of a failed assertion names the broken promise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from sightline_plugins.heads.head import (
    RESULT_TYPES,
    Array,
    Candidates,
    ClassMap,
    DecodeContext,
    Head,
    MatchScore,
    Points,
    Scores,
    Shape,
    Signature,
    SizeWh,
    Text,
    Vector,
    no_match,
)


@dataclass(frozen=True, slots=True)
class Output:
    """Name, shape and dtype of an output, as an engine reports them."""

    name: str
    shape: Shape
    dtype: np.dtype[Any]


class HeadConformance(ABC):
    """Tests of the `Head` contract. A subclass sets `head` and `outputs`; pytest collects it by its name."""

    head: ClassVar[Head[Any]]
    size_wh: ClassVar[SizeWh] = (64, 64)
    labels: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """`head_options` that these outputs need."""
    output_names: ClassVar[tuple[str, ...]] = ()
    output_ops: ClassVar[tuple[str, ...]] = ()
    confidence: ClassVar[float] = 0.3

    @abstractmethod
    def outputs(self) -> Sequence[Array]:
        """Return outputs for one image (batch 1) with at least one result above `confidence`."""

    def test_its_description_is_valid(self) -> None:
        """The result type is one that elements can use, and options and pre-processing are of the right kind."""
        assert self.head.result_type in RESULT_TYPES, f"{self.head.result_type} is none of {RESULT_TYPES}"
        assert all(isinstance(name, str) for name in self.head.preprocessing)
        if self.head.options is not None:
            assert self.head.options.model_config.get("frozen"), "options of a head must be frozen"
            assert self.head.options.model_config.get("extra") == "forbid", "options must refuse unknown keys"

    def test_it_finds_something_of_its_type(self) -> None:
        """These outputs give a result of the result type, with columns of the shapes and dtypes of the contract."""
        found = self.decode()
        assert isinstance(found, self.head.result_type), f"gives a {type(found).__name__}"
        _check_result(found)

    def test_candidates_have_at_least_the_confidence(self) -> None:
        """A head filters by confidence, and a higher one gives fewer of the same boxes."""
        few, many = self.decode(confidence=max(self.confidence, 0.6)), self.decode()
        if isinstance(few, Candidates) and isinstance(many, Candidates):
            assert (few.confidence >= np.float32(0.6) - 1e-6).all(), "gives boxes below the confidence"
            assert (many.confidence >= np.float32(self.confidence) - 1e-6).all(), "gives boxes below the confidence"
            assert len(few) <= len(many), "a higher confidence gives more boxes"

    def test_it_leaves_outputs_alone_and_keeps_no_state(self) -> None:
        """Read-only arrays are enough, and the same outputs give the same result again."""
        one = self.decode()
        self.decode(confidence=0.99)
        assert _equal(one, self.decode()), "two calls with the same outputs differ"

    def test_it_matches_its_own_outputs(self) -> None:
        """These outputs match, unless the head never does, and `ranks` allow them."""
        signature = self.signature()
        score = self.head.match_score(signature)
        assert score is self.head.match_score(signature)
        assert score is not MatchScore.NONE or self.head.match_score is no_match, "does not match its own outputs"
        assert not self.head.ranks or len(signature.shapes[0]) in self.head.ranks, "ranks exclude these outputs"

    def test_it_does_not_match_outputs_of_no_family(self) -> None:
        """Outputs of an unknown family do not match, and open shapes raise nothing."""
        odd = Output("odd", (1, 7, 9, 3, 2), np.dtype(np.float32))
        assert self.head.match_score(Signature((odd,), self.size_wh)) is MatchScore.NONE
        outputs = self.signature().outputs
        open_outputs = tuple(
            Output(one.name, (one.shape[0], *[None] * (len(one.shape) - 1)), one.dtype) for one in outputs
        )
        assert self.head.match_score(Signature(open_outputs, (0, 0))) in MatchScore

    def test_the_number_of_classes_is_that_of_the_labels(self) -> None:
        """If the shapes tell the number of classes, it equals the number of labels."""
        count = self.head.count_classes(self.signature().shapes)
        if self.labels and count is not None:
            assert count == len(self.labels), f"counts {count} classes, there are {len(self.labels)} labels"

    def test_it_reads_outputs_of_other_precisions(self) -> None:
        """Engines give float16 and float64 as well; the result is the same but for rounding, in float32."""
        expected = self.decode()
        for dtype in (np.float16, np.float64):
            given = [one.astype(dtype) if one.dtype.kind == "f" else one for one in self.outputs()]
            found = self.decode(given)
            _check_result(found)
            if isinstance(found, Candidates) and isinstance(expected, Candidates) and dtype is np.float64:
                assert len(found) == len(expected), f"{dtype.__name__} gives {len(found)} boxes, not {len(expected)}"

    def test_outputs_without_any_candidate_are_read(self) -> None:
        """An image on which nothing is seen gives an empty result, and no error."""
        for value in (0.0, -1e4, 1e-30):
            self.decode([_filled(one, value) for one in self.outputs()], confidence=0.999)

    def test_outputs_full_of_candidates_are_read(self) -> None:
        """Every place at its largest score gives as many boxes as there are places, and no error."""
        for value in (1.0, 20.0):
            self.decode([_filled(one, value) for one in self.outputs()], confidence=0.0)

    def test_outputs_that_are_no_numbers_give_nothing(self) -> None:
        """NaN, infinities and values beyond any range raise nothing, and what is left is finite."""
        for value in (np.nan, np.inf, -np.inf, 3e38, -3e38):
            for given in ([_filled(one, value) for one in self.outputs()], _first_filled(self.outputs(), value)):
                found = self.decode(given)
                if isinstance(found, Candidates):
                    assert np.isfinite(found.xyxy).all(), f"outputs of {value} give boxes that are no numbers"
                    assert np.isfinite(found.confidence).all(), f"outputs of {value} give confidences that are none"

    def context(self, *, confidence: float | None = None) -> DecodeContext:
        """Return the context of these outputs."""
        chosen = None if self.head.options is None else self.head.options.model_validate(dict(self.options))
        names = tuple(output.name for output in self.signature().outputs)
        least = self.confidence if confidence is None else confidence
        return DecodeContext(self.size_wh, least, names, self.labels, chosen, self.output_ops)

    def signature(self) -> Signature:
        """Return the signature of a model with these outputs."""
        given = self.outputs()
        names = self.output_names or tuple(f"output{number}" for number in range(len(given)))
        outputs = tuple(Output(name, one.shape, one.dtype) for name, one in zip(names, given, strict=True))
        return Signature(outputs, self.size_wh, len(self.labels) or None, self.output_ops)

    def decode(self, outputs: Sequence[Array] | None = None, *, confidence: float | None = None) -> object:
        """Return what the head reads from read-only arrays; NumPy warns of nothing, as when an element calls it."""
        given = [np.array(output) for output in (self.outputs() if outputs is None else outputs)]
        for output in given:
            output.flags.writeable = False
        with np.errstate(all="ignore"):
            found: object = self.head.decode(given, self.context(confidence=confidence))
        return found.finite() if isinstance(found, Candidates) else found


def _filled(output: Array, value: float) -> Array:
    """The output with one value everywhere; whole numbers stay as they are, because they are counts and places."""
    return np.full_like(output, value) if output.dtype.kind == "f" else output


def _first_filled(outputs: Sequence[Array], value: float) -> list[Array]:
    """The outputs with one value in the first half of the first one."""
    given = [np.array(one) for one in outputs]
    if given[0].dtype.kind == "f":
        given[0].reshape(-1)[: given[0].size // 2] = value
    return given


def _check_result(found: object) -> None:
    if isinstance(found, Candidates):
        count = len(found)
        assert count, "finds nothing in these outputs"
        _check_array(found.xyxy, np.float32, (count, 4))
        _check_array(found.confidence, np.float32, (count,))
        _check_array(found.class_id, np.int32, (count,))
        for column in (found.points, found.corners, found.masks):
            assert column is None or len(column) == count, "columns differ in length"
        assert (found.masks is None) == (found.prototypes is None), "masks need prototypes"
    elif isinstance(found, Scores):
        for vector in found.values:
            _check_array(vector, np.float32, (vector.size,))
    elif isinstance(found, Vector):
        _check_array(found.values, np.float32, (found.values.size,))
    elif isinstance(found, Points):
        _check_array(found.values, np.float32, (len(found.values), 3))
    elif isinstance(found, ClassMap):
        _check_array(found.scores, np.float32, found.scores.shape)
        assert found.scores.ndim == 3, f"scores have shape {found.scores.shape}, not (C, h, w)"
        assert found.class_id is None or len(found.class_id) == len(found.scores)
    elif isinstance(found, Text):
        assert 0 <= found.confidence <= 1


def _check_array(values: Array, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    assert values.dtype == np.dtype(dtype), f"{values.dtype} where {np.dtype(dtype)} is promised"
    assert values.shape == shape, f"shape {values.shape} where {shape} is promised"


def _equal(one: object, other: object) -> bool:
    """Return whether two results have the same type and the same values."""
    assert is_dataclass(one)
    assert is_dataclass(other)
    columns = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)]
    return type(one) is type(other) and all(np.array_equal(a, b) for a, b in columns if a is not None)
