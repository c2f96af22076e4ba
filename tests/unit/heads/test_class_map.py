"""The head `class_map`: known maps in every layout that it reads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline.errors import ModelError
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.class_map import CLASS_MAP, ClassMapOptions
from sightline_plugins.heads.head import ClassMap, DecodeContext, MatchScore, Signature

SIZE_WH = (64, 32)
Array = npt.NDArray[np.generic]


def scores(classes: int = 5) -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(classes, 16, 32)).astype(np.float32)


def read(*outputs: Array, output_ops: tuple[str, ...] = (), **options: object) -> ClassMap:
    names = tuple(f"out{number}" for number in range(len(outputs)))
    context = DecodeContext(
        SIZE_WH, outputs=names, options=ClassMapOptions.model_validate(options), output_ops=output_ops
    )
    return CLASS_MAP.decode(outputs, context)


def test_classes_first_and_classes_last_are_the_same_map() -> None:
    known = scores()

    assert np.array_equal(read(known[None]).scores, known)
    assert np.array_equal(read(known.transpose(1, 2, 0)[None]).scores, known)


def test_integers_are_the_classes_themselves() -> None:
    classes = scores().argmax(axis=0)

    found = read(classes[None].astype(np.int64))

    assert found.class_id is not None
    assert np.array_equal(found.class_id[found.scores.argmax(axis=0)], classes)


@pytest.mark.parametrize("shape", [(1, 1, 16, 32), (1, 16, 32, 1), (1, 16, 32)])
def test_classes_may_keep_a_dimension(shape: tuple[int, ...]) -> None:
    classes = scores().argmax(axis=0).astype(np.int32)

    found = read(classes.reshape(shape))

    assert found.scores.shape == (5, 16, 32)


def test_numbers_that_add_up_to_one_are_probabilities() -> None:
    shares = np.exp(scores())
    shares /= shares.sum(axis=0)

    assert read(shares[None]).probabilities
    assert not read(scores()[None]).probabilities


def test_what_a_sigmoid_makes_is_a_probability() -> None:
    assert read(np.full((1, 1, 16, 32), 0.3, np.float32), output_ops=("Sigmoid",)).probabilities
    assert not read(np.full((1, 1, 16, 32), 0.3, np.float32), output_ops=("Conv",)).probabilities


def test_an_output_is_chosen_by_its_name() -> None:
    main, auxiliary = scores()[None], -scores()[None]

    assert np.array_equal(read(main, auxiliary).scores, main[0])
    assert np.array_equal(read(main, auxiliary, output="out1").scores, auxiliary[0])


def test_an_output_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(ModelError, match="no output 'aux'; outputs: out0"):
        read(scores()[None], output="aux")


def test_outputs_without_a_map_are_an_error() -> None:
    with pytest.raises(ModelError, match="no output is a map in the shape of the input \\(64x32\\)"):
        read(np.zeros((1, 1000), np.float32))


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(1, 257, 257, 21)], MatchScore.CERTAIN),
        ([(1, 21, 65, 65)], MatchScore.CERTAIN),
        ([(None, 19, None, None)], MatchScore.CERTAIN),
        ([(1, 21, 65, 65), (1, 21, 65, 65)], MatchScore.CERTAIN),
        ([(1, 116, 8400), (1, 32, 160, 160)], MatchScore.NONE),
        ([(1, 1000)], MatchScore.NONE),
    ],
)
def test_maps_are_known_from_boxes_and_vectors(shapes: list[tuple[int | None, ...]], expected: MatchScore) -> None:
    outputs = tuple(TensorSpec(str(n), shape, np.dtype(np.float32)) for n, shape in enumerate(shapes))

    assert CLASS_MAP.match_score(Signature(outputs, (257, 257))) is expected


@pytest.mark.parametrize(
    ("shape", "count"), [((1, 257, 257, 21), 21), ((1, 21, 65, 65), 21), ((1, 1, 64, 64), None), ((1, 64, 64), None)]
)
def test_classes_are_counted_where_the_shape_says_it(shape: tuple[int, ...], count: int | None) -> None:
    assert CLASS_MAP.count_classes([shape]) == count
