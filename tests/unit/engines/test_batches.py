"""Models exported for several images at once: made single where the graph allows it, else filled, never wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

from sightline.errors import ModelError
from sightline_plugins.engines.model_file import read_model
from sightline_plugins.engines.onnxruntime import OnnxRuntime
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.engines.rebatching import make_batch_dynamic, make_single
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.engines.graphs import Floats, compute, make_model, random, small_network

ENGINES = pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
Name = Literal["openvino", "onnxruntime"]
run = OnnxRuntime(concurrency=1).compute


def flattened(*, target: Sequence[int], batch: int = 4) -> onnx.ModelProto:
    """Means of four quarters of an image (N, 3, 4, 4), brought into the form `target`."""
    nodes = [
        helper.make_node("AveragePool", ["x"], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["a", "target"], ["y"]),
    ]
    return make_model(nodes, constants={"target": np.array(target)}, inputs={"x": [batch, 3, 4, 4]})


def mixing() -> onnx.ModelProto:
    """What it says of an image depends on the mean of all four."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "m"], ["y"]),
    ]
    return make_model(nodes, constants={}, inputs={"x": [4, 3, 4, 4]})


def joined() -> onnx.ModelProto:
    """Four images with four maps that differ from place to place."""
    nodes = [helper.make_node("Concat", ["x", "maps"], ["y"], axis=1)]
    return make_model(nodes, constants={"maps": random(4, 1, 4, 4)}, inputs={"x": [4, 3, 4, 4]})


def looped() -> onnx.ModelProto:
    """Independent rows, written down as four pieces."""
    parts = [f"p{number}" for number in range(4)]
    nodes = [
        helper.make_node("Split", ["x", "ones"], parts, axis=0),
        *(helper.make_node("Relu", [part], [f"{part}r"]) for part in parts),
        helper.make_node("Concat", [f"{part}r" for part in parts], ["y"], axis=0),
    ]
    return make_model(nodes, constants={"ones": np.ones(4, np.int64)}, inputs={"x": [4, 3, 4, 4]})


@pytest.mark.parametrize("target", [(4, 12), (4, -1), (-1, 12), (4, 3, 2, 2), (0, 12)])
def test_a_batch_written_into_a_reshape_is_found_and_made_one(target: tuple[int, ...]) -> None:
    model, images = flattened(target=target), random(4, 3, 4, 4)

    single = make_single(model, compute=run)

    expected = compute(model, x=images)[0]
    for number in range(4):
        found = compute(single, x=images[number : number + 1])[0]
        np.testing.assert_allclose(found[0], expected[number], rtol=1e-6)


def test_a_reshape_that_joins_images_and_channels_is_left_open() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "joined"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"], axis=1),
        helper.make_node("Reshape", ["b", "apart"], ["y"]),
    ]
    constants = {"joined": np.array([12, 16]), "apart": np.array([4, 3, 4, 4])}
    model = make_model(nodes, constants=constants, inputs={"x": [4, 3, 4, 4]})
    images = random(5, 3, 4, 4)

    anyhow = make_batch_dynamic(model, compute=run)

    expected = compute(model, x=images[:4])[0]
    np.testing.assert_allclose(compute(anyhow, x=images)[0][:4], expected, rtol=1e-6)


def test_a_resize_to_sizes_becomes_one_by_factors() -> None:
    nodes = [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")]
    model = make_model(nodes, constants={"sizes": np.array([4, 3, 12, 20])}, inputs={"x": [4, 3, 8, 8]})
    images = random(4, 3, 8, 8)

    single = make_single(model, compute=run)

    np.testing.assert_allclose(compute(single, x=images[2:3])[0][0], compute(model, x=images)[0][2], rtol=1e-5)


def test_a_constant_with_equal_rows_keeps_one_of_them() -> None:
    nodes = [helper.make_node("Add", ["x", "c"], ["a"]), helper.make_node("Concat", ["a", "c"], ["y"], axis=1)]
    model = make_model(nodes, constants={"c": np.repeat(random(1, 3, 4, 4), 4, axis=0)}, inputs={"x": [4, 3, 4, 4]})
    images = random(4, 3, 4, 4, seed=3)

    single = make_single(model, compute=run)

    np.testing.assert_allclose(compute(single, x=images[1:2])[0][0], compute(model, x=images)[0][1])


@pytest.mark.parametrize("make", [mixing, joined, looped, lambda: flattened(target=(12, 4))])
def test_what_can_not_be_made_single_is_said(make: Any) -> None:
    with pytest.raises(ModelError):
        make_single(make(), compute=run)


def test_the_place_where_a_batch_is_written_down_is_named() -> None:
    nodes = [
        helper.make_node("Concat", ["x", "map"], ["a"], axis=1),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    model = make_model(nodes, constants={"map": random(1, 1, 4, 4)}, inputs={"x": [1, 3, 4, 4]})
    with pytest.raises(ModelError, match=r"Concat that makes 'a' is written for exactly 1 image"):
        make_batch_dynamic(model, compute=run)


def test_an_open_batch_stays_as_it_is() -> None:
    model = small_network(batch="N")
    assert make_batch_dynamic(model, compute=run) is model


@pytest.mark.parametrize(
    "file",
    ["yolox_nano.onnx", "osnet_x0_25_msmt17.onnx", "FastestDet.onnx", "SqueezeNet_fp16.onnx", "deeplab_v3_257.onnx"],
)
def test_real_models_take_any_number_of_images_at_once(file: str, shared_data: Path) -> None:
    model, _ = read_model(shared_data / "models" / file)
    entry = model.graph.input[0]
    shape = [size.dim_value for size in entry.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
    images = np.random.default_rng(5).random((2, *shape[1:])).astype(dtype)

    anyhow = make_batch_dynamic(model, compute=run)

    together = compute(anyhow, **{entry.name: images})
    for number in range(2):
        for one, both in zip(compute(model, **{entry.name: images[number : number + 1]}), together, strict=True):
            np.testing.assert_allclose(both[number], one[0], rtol=0, atol=1e-3 * max(1, float(np.abs(one).max())))


def quarters(image: npt.NDArray[np.uint8]) -> Floats:
    seen = image[0].astype(np.float32).transpose(2, 0, 1)
    return np.asarray(seen.reshape(3, 2, 2, 2, 2).mean(axis=(2, 4)).reshape(1, 12), np.float32)


def images(count: int, *, side: int = 4) -> list[npt.NDArray[np.uint8]]:
    return [np.random.default_rng(seed).integers(0, 256, (1, side, side, 3), np.uint8) for seed in range(count)]


@ENGINES
def test_an_engine_takes_one_image_of_a_model_made_for_four_and_says_so(engine: Name) -> None:
    opened = open_engine(flattened(target=(4, 12)).SerializeToString(), engine=engine, image=ImageForm())
    assert opened.inputs[0].shape == (1, 4, 4, 3)
    assert opened.outputs[0].shape == (1, 12)
    assert opened.report["batch"] == "1 instead of 4"
    for image in images(5):
        np.testing.assert_allclose(opened.submit((image,)).result()[0], quarters(image), rtol=1e-5)
    opened.close()


def filled(engine: Name) -> Engine:
    return open_engine(looped().SerializeToString(), engine=engine, image=ImageForm(), concurrency=2)


@ENGINES
@pytest.mark.parametrize("count", [1, 3, 4, 11])
def test_calls_that_can_only_be_for_four_are_filled_and_answered_in_order(engine: Name, count: int) -> None:
    opened = filled(engine)
    assert str(opened.report["batch"]).startswith("fixed 4")
    given = images(count)
    pending = [opened.submit((image,)) for image in given]
    for image, work in zip(given, pending, strict=True):
        np.testing.assert_array_equal(work.result()[0], image.transpose(0, 3, 1, 2).astype(np.float32))
    opened.close()


@ENGINES
def test_results_of_filled_calls_are_the_same_to_the_bit_whoever_shares_them(engine: Name) -> None:
    opened = filled(engine)
    given = images(7)
    together = [work.result()[0] for work in [opened.submit((image,)) for image in given]]
    alone = [opened.submit((image,)).result()[0] for image in given]
    assert all(np.array_equal(one, other) for one, other in zip(together, alone, strict=True))
    opened.close()


@ENGINES
def test_a_call_that_was_not_full_is_answered_after_closing(engine: Name) -> None:
    opened = filled(engine)
    given = images(1)[0]
    work = opened.submit((given,))
    opened.close()
    np.testing.assert_array_equal(work.result()[0], given.transpose(0, 3, 1, 2).astype(np.float32))
    with pytest.raises(ModelError, match="closed"):
        opened.submit((given,))


@ENGINES
def test_a_model_that_compares_the_images_of_a_call_is_refused(engine: Name) -> None:
    with pytest.raises(ModelError, match=r"takes 4 images at once, and what it says of one depends on the others"):
        open_engine(mixing().SerializeToString(), engine=engine, image=ImageForm())


def test_an_output_without_a_row_an_image_is_refused() -> None:
    with pytest.raises(ModelError, match=r"y float32 \(12, 4\) does not have 4 rows"):
        open_engine(flattened(target=(12, 4)).SerializeToString(), image=ImageForm())
