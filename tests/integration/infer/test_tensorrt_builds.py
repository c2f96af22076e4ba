"""TensorRT-RTX itself compiles models ahead of time, without a GPU, and says in one message what it does not take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.tensorrt_builds import CASES, Case, build
from onnx import TensorProto, helper, numpy_helper

from sightline.errors import DeviceUnavailable, MissingExtra, ModelError
from sightline_plugins.engines.batch_sizes import ANY_BATCH, BatchRange
from sightline_plugins.engines.protocol import Precision
from sightline_plugins.engines.tensorrt import load_plan
from sightline_plugins.engines.tensorrt_builder import BuildSettings, build_plan
from sightline_plugins.engines.tensorrt_library import TensorRt, installed
from tests.conftest import missing
from tests.unit.engines.graphs import make_model, small_network

AMPERE, ADA = (8, 6), (8, 9)
BY_NAME = {case.name: case for case in CASES}
SETTINGS = BuildSettings(AMPERE, ANY_BATCH)


@pytest.fixture(scope="module")
def library() -> TensorRt:
    """TensorRT-RTX, as it is installed."""
    try:
        found = installed()
    except (MissingExtra, DeviceUnavailable) as error:
        missing(str(error))
        raise
    if not found.compiles_ahead:
        missing(f"{found} compiles on a GPU only; tensorrt_rtx compiles without one")
    return found


def plans(library: TensorRt, case: Case, precision: Precision, target: tuple[int, int], shared: Path) -> int | None:
    """Build a plan; the number of images that it takes, None for any."""
    built = build(library, case, shared=shared, precision=precision, target=target)
    assert built.plan_bytes > 10_000
    return built.rows


@pytest.mark.parametrize(("name", "target"), [("street", AMPERE), ("vehicle", ADA)])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_this_projects_detector_and_classifier_compile_for_any_number_of_images(
    library: TensorRt, name: str, precision: Precision, target: tuple[int, int], repository: Path
) -> None:
    assert plans(library, BY_NAME[name], precision, target, repository) is None


@pytest.mark.parametrize(
    ("name", "precision", "target"),
    [
        ("FastestDet", "fp16", ADA),
        ("SqueezeNet_fp16", "fp32", AMPERE),
        ("deeplab_v3_257", "fp32", ADA),
        ("deimv2_hgnetv2_atto_coco", "fp32", AMPERE),
        ("en_number_mobile_v2.0_rec", "fp32", AMPERE),
        ("osnet_x0_25_msmt17", "fp32", ADA),
        ("yolox_nano", "fp32", AMPERE),
        ("yunet_n_dynamic", "int8", ADA),
    ],
)
def test_shared_models_compile_for_any_number_of_images(
    library: TensorRt, name: str, precision: Precision, target: tuple[int, int], shared_data: Path
) -> None:
    assert plans(library, BY_NAME[name], precision, target, shared_data) is None


@pytest.mark.parametrize("images", [1, 5, 32])
def test_a_plan_is_tuned_for_the_batch_of_the_pipeline(library: TensorRt, images: int) -> None:
    settings = BuildSettings(AMPERE, BatchRange.around(images))

    assert build_plan(library, small_network(batch="n"), settings=settings, label="m.onnx")


def refusal(library: TensorRt, model: onnx.ModelProto, settings: BuildSettings = SETTINGS) -> str:
    """What the library's refusal reads like, behind the name of the model."""
    with pytest.raises(ModelError) as caught:
        build_plan(library, model, settings=settings, label="m.onnx")
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith("use engine: onnxruntime")
    return message.removeprefix(f"m.onnx: {library} ")


def test_suppression_is_refused_with_what_to_do(library: TensorRt) -> None:
    constants = [np.array(5, np.int64), np.array(0.5, np.float32), np.array(0.1, np.float32)]
    names = ("most", "overlap", "score")
    graph = helper.make_graph(
        [helper.make_node("NonMaxSuppression", ["boxes", "scores", *names], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 10, 4]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2, 10]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [None, 3])],
        [numpy_helper.from_array(value, name) for value, name in zip(constants, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    assert refusal(library, model) == (
        "cannot compile it for compute capability 8.6: it has no kernel for its operator NonMaxSuppression; export it "
        "without its suppression, which Sightline does itself, or use engine: onnxruntime"
    )


def test_an_operator_that_is_not_supported_is_named_with_its_node(library: TensorRt) -> None:
    nodes = [helper.make_node("Unique", ["x"], ["y"], name="unique 1")]
    model = make_model(nodes, constants={}, inputs={"x": [10]})

    assert refusal(library, model) == (
        "cannot compile it for compute capability 8.6: it does not take its operator Unique (node 'unique 1'); "
        "use engine: onnxruntime"
    )


def test_a_gpu_that_is_not_supported_is_refused_with_those_that_are(library: TensorRt) -> None:
    said = refusal(library, small_network(), BuildSettings((9, 0), ANY_BATCH))

    assert said.startswith("does not compile for compute capability 9.0, it does so for 7.5, 8.0, 8.6, 8.9, 12.0")


def test_a_size_that_is_left_open_is_refused_with_the_input(library: TensorRt) -> None:
    model = small_network(batch="n", size_wh=("w", "h"))

    assert "its input x (?, 3, ?, ?) leaves sizes open: give them, or use" in refusal(library, model)


@pytest.fixture(scope="module")
def plan(library: TensorRt) -> bytes:
    return build_plan(library, small_network(batch="n"), settings=SETTINGS, label="m.onnx")


@pytest.mark.parametrize("damage", ["none", "cut", "other"])
def test_a_plan_that_cannot_be_loaded_gives_the_reason_in_one_line(library: TensorRt, plan: bytes, damage: str) -> None:
    content = {"none": plan, "cut": plan[:1000], "other": b"x" * 200}[damage]

    with pytest.raises(ModelError) as caught:
        load_plan(library, content, label="m.onnx")

    message = str(caught.value)
    assert message.startswith(f"m.onnx: {library} cannot load its plan")
    assert message.endswith("use engine: onnxruntime")
    assert "\n" not in message


def test_progress_comes_from_the_library_itself(library: TensorRt) -> None:
    lines, said = list[str](), list[str]()

    build_plan(
        library,
        small_network(batch="n"),
        settings=SETTINGS,
        label="m.onnx",
        progress=lines.append,
        log=lambda severity, text: said.append(severity),
        every_seconds=0,
    )

    assert lines[0] == f"m.onnx: {library} compiles it for compute capability 8.6"
    assert any(line.startswith("Building engine: step ") for line in lines)
    assert lines[-1].startswith("m.onnx: compiled in ")
    assert {"info", "verbose"} <= set(said)


def test_compiling_can_be_stopped(library: TensorRt) -> None:
    with pytest.raises(ModelError, match=r"m\.onnx: compiling it was stopped after"):
        build_plan(library, small_network(batch="n"), settings=SETTINGS, label="m.onnx", is_stopped=lambda: True)


@pytest.fixture(autouse=True)
def _quiet(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Nothing that the library says goes to the screen."""
    yield
    assert capfd.readouterr().out == ""
