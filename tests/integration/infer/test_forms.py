"""Files in other numbers than float32, and images of other sizes, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.engines.graphs import compute, random, small_network

Name = Literal["openvino", "onnxruntime"]
ENGINES = pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
Image = npt.NDArray[np.uint8]


def image(height: int, width: int, *, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (1, height, width, 3), np.uint8)


def answers(model: onnx.ModelProto, engine: Name, form: ImageForm, *images: Image) -> list[npt.NDArray[Any]]:
    opened: Engine = open_engine(model.SerializeToString(), engine=engine, image=form, concurrency=1)
    found = [opened.submit((one,)).result()[0] for one in images]
    opened.close()
    return found


def convolution(kind: int, *, layout: str = "nchw") -> onnx.ModelProto:
    """A 3 x 3 convolution in float16 or float32 behind an input of another kind."""
    shape = [1, 3, 16, 20] if layout == "nchw" else [1, 16, 20, 3]
    inner = TensorProto.FLOAT16 if kind == TensorProto.FLOAT16 else TensorProto.FLOAT
    dtype = np.float16 if kind == TensorProto.FLOAT16 else np.float32
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=inner),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 1, 2, 3] if layout == "nchw" else [0, 3, 1, 2]),
        helper.make_node("Conv", ["b", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "convolution",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", inner, [1, 4, 16, 20])],
        [numpy_helper.from_array((random(4, 3, 3, 3) / 9).astype(dtype), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@ENGINES
def test_a_float16_file_computes_what_it_computes_by_itself(engine: Name) -> None:
    seen = image(16, 20)
    model = convolution(TensorProto.FLOAT16)
    given = (seen.astype(np.float32) / 255).astype(np.float16).transpose(0, 3, 1, 2)

    (found,) = answers(model, engine, ImageForm(scale=(1 / 255,)), seen)

    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(float), compute(model, x=given)[0].astype(float), atol=2e-3)


@ENGINES
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_file_that_takes_bytes_gets_them_as_they_are(engine: Name, layout: str) -> None:
    seen = image(16, 20)
    model = convolution(TensorProto.UINT8, layout=layout)
    given = seen if layout == "nhwc" else np.ascontiguousarray(seen.transpose(0, 3, 1, 2))

    (found,) = answers(model, engine, ImageForm(), seen)

    np.testing.assert_allclose(found, compute(model, x=given)[0], rtol=1e-5, atol=1e-3)


class Images(CalibrationDataReader):  # type: ignore[misc]
    """A few images that the ranges of an INT8 file are taken from."""

    def __init__(self, name: str, size_wh: tuple[int, int]) -> None:
        width, height = size_wh
        self._feeds: Iterator[dict[str, Any]] = iter(
            {name: (image(height, width, seed=seed) / np.float32(255)).transpose(0, 3, 1, 2)} for seed in range(3)
        )

    def get_next(self) -> dict[str, Any] | None:
        return next(self._feeds, None)


def quantized(source: Path, target: Path, *, size_wh: tuple[int, int]) -> onnx.ModelProto:
    name = onnx.load(source).graph.input[0].name
    quantize_static(source, target, Images(name, size_wh), quant_format=QuantFormat.QDQ)
    return onnx.load(target)


@pytest.fixture(scope="module")
def street_int8(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[onnx.ModelProto, tuple[int, int]]:
    """Our street detector with weights and activations in eight bits."""
    source = repository / "models" / "street.onnx"
    sizes = ort.InferenceSession(str(source), providers=["CPUExecutionProvider"]).get_inputs()[0].shape
    size_wh = (sizes[3] if isinstance(sizes[3], int) else 384, sizes[2] if isinstance(sizes[2], int) else 224)
    return quantized(source, tmp_path_factory.mktemp("int8") / "street.onnx", size_wh=size_wh), size_wh


@ENGINES
@pytest.mark.filterwarnings("ignore")
def test_an_int8_file_computes_what_it_computes_by_itself(
    engine: Name, street_int8: tuple[onnx.ModelProto, tuple[int, int]]
) -> None:
    model, size_wh = street_int8
    seen = image(size_wh[1], size_wh[0], seed=9)
    name = model.graph.input[0].name
    expected = compute(model, **{name: (seen / np.float32(255)).transpose(0, 3, 1, 2)})[0]

    first, again = answers(model, engine, ImageForm(scale=(1 / 255,), size_wh=size_wh), seen, seen)

    assert {node.op_type for node in model.graph.node} >= {"QuantizeLinear", "DequantizeLinear"}
    assert np.array_equal(first, again)
    for row in range(expected.shape[1]):
        spread = float(expected[0, row].std()) + 1e-3
        assert float(np.abs(first[0, row] - expected[0, row]).mean()) < 0.25 * spread


@ENGINES
def test_images_of_any_size_give_what_an_input_of_their_size_gives(engine: Name) -> None:
    model = small_network(batch="N", size_wh=("w", "h"))
    images = [image(*size) for size in ((16, 20), (24, 12), (16, 20))]

    found = answers(model, engine, ImageForm(scale=(1 / 255,)), *images)

    for one, seen in zip(found, images, strict=True):
        size_wh = (seen.shape[2], seen.shape[1])
        fixed = answers(model, engine, ImageForm(scale=(1 / 255,), size_wh=size_wh), seen)[0]
        np.testing.assert_allclose(one, fixed, rtol=1e-5, atol=1e-6)


@ENGINES
def test_yunet_takes_each_image_in_its_own_size(engine: Name, shared_data: Path) -> None:
    path = shared_data / "models" / "yunet_n_dynamic.onnx"
    opened = open_engine(path, engine=engine, image=ImageForm())
    sizes = ((96, 160), (160, 96), (128, 128), (96, 160))

    pending = [opened.submit((image(*size),)) for size in sizes]

    assert [spec.name for spec in opened.outputs][:2] == ["cls_8", "cls_16"]
    assert [work.result()[0].shape for work in pending] == [(1, high * wide // 64, 1) for high, wide in sizes]
    for first, last in zip(pending[0].result(), pending[-1].result(), strict=True):
        assert np.array_equal(first, last)
    fixed = open_engine(path, engine=engine, image=ImageForm(size_wh=(160, 96)))
    for free, bound in zip(pending[0].result(), fixed.submit((image(96, 160),)).result(), strict=True):
        np.testing.assert_allclose(free, bound, rtol=1e-4, atol=1e-4)
    opened.close()
    fixed.close()
