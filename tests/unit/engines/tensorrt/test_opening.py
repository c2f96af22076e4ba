"""A model compiled for a GPU: in the background or at once, kept by content, refused in one clear message."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import DeviceUnavailable, ModelError
from sightline_plugins.engines.batch_sizes import BatchRange
from sightline_plugins.engines.cache import Entry, ModelCache
from sightline_plugins.engines.tensorrt_model import TensorRtModel, open_tensorrt
from tests.fakes import FakeCudaDriver
from tests.fakes.tensorrt import FakeTensorRt, fake_tensorrt
from tests.fakes.tensorrt_names import BEGINNING, Plan, TensorRtFaults, read_plan
from tests.unit.engines.graphs import make_model, small_network
from tests.unit.engines.tensorrt.conftest import Bench

MODEL = small_network(batch="n").SerializeToString()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that compiled models lie in."""
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def told_of(act: Callable[[], object]) -> str:
    """The message of the error that something raises."""
    with pytest.raises((ModelError, DeviceUnavailable)) as caught:
        act()
    return str(caught.value)


def test_a_model_is_compiled_once_and_loaded_from_the_cache_then(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt, folder: Path
) -> None:
    origins = []
    for _ in range(2):
        engine = open_tensorrt(MODEL, gpu=gpu, stream=stream)
        origins.append(engine.report["model"])
        engine.close()

    assert origins == ["compiled", "cached"]
    assert double.calls.count("parse") == 1


def test_the_report_says_what_computes_and_how(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> None:
    engine = open_tensorrt(MODEL, gpu=gpu, stream=stream, precision="fp16")

    assert dict(engine.report) == {
        "engine": "tensorrt",
        "library": "TensorRT-RTX 1.7.1.0",
        "model": "compiled",
        "precision": "fp16",
        "batch": "1 to 32, tuned for 8",
    }
    engine.close()


def test_a_model_may_be_compiled_in_another_thread_and_loaded_here(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt, folder: Path
) -> None:
    model = TensorRtModel(MODEL, gpu=gpu)
    before = model.is_kept
    thread = threading.Thread(target=model.compile, name="background")

    thread.start()
    thread.join()
    engine = model.load(stream=stream)

    assert (before, model.is_kept, engine.report["model"]) == (False, True, "compiled")
    assert double.calls.count("parse") == 1
    engine.close()


def test_without_a_cache_a_model_is_kept_for_as_long_as_it_is_held(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt
) -> None:
    model = TensorRtModel(MODEL, gpu=gpu)
    model.compile()

    model.load(stream=stream).close()

    assert model.is_kept
    assert double.calls.count("parse") == 1


def test_compiling_can_be_stopped(gpu: CudaDevice, double: FakeTensorRt) -> None:
    model = TensorRtModel(MODEL, gpu=gpu, is_stopped=lambda: True)

    assert re.fullmatch(r"model of \d+ bytes: compiling it was stopped after \d+\.\d s", told_of(model.compile))


def test_progress_says_what_is_compiled_for_what_and_how_long_it_took(gpu: CudaDevice, double: FakeTensorRt) -> None:
    lines = list[str]()

    TensorRtModel(MODEL, gpu=gpu).compile(progress=lines.append)

    assert [re.sub(r"[\d.]+(?= s,| MB| bytes)", "#", line) for line in lines] == [
        "model of # bytes: TensorRT-RTX 1.7.1.0 compiles it for compute capability 8.6",
        "model of # bytes: compiled in # s, # MB",
    ]


@pytest.mark.parametrize("rtx", [True, False])
@pytest.mark.parametrize(("images", "usual", "most"), [(1, 1, 2), (3, 4, 6), (8, 8, 12), (20, 24, 32), (64, 32, 32)])
def test_the_profile_is_tuned_for_the_batch_of_the_pipeline(
    gpu: CudaDevice, folder: Path, rtx: bool, images: int, usual: int, most: int
) -> None:
    fake_tensorrt(gpu, rtx=rtx)

    TensorRtModel(MODEL, gpu=gpu, batches=BatchRange.around(images)).compile()

    sizes = [3, 24, 32]
    assert kept_plan(folder).profile == {"x": [[1, *sizes], [usual, *sizes], [most, *sizes]]}


def test_a_plan_for_batches_of_any_size_is_tuned_for_eight_and_tf32_is_off(
    gpu: CudaDevice, double: FakeTensorRt, folder: Path
) -> None:
    TensorRtModel(MODEL, gpu=gpu).compile()

    sizes = [3, 24, 32]
    assert kept_plan(folder).profile == {"x": [[1, *sizes], [8, *sizes], [32, *sizes]]}
    assert "build REQUIRE_USER_ALLOCATION" in double.calls


def kept_plan(folder: Path) -> Plan:
    contents = [file.read_bytes() for file in folder.glob("*.model")]
    [whole] = [content for content in contents if BEGINNING in content]
    plan = read_plan(whole[whole.index(BEGINNING) :])
    assert plan is not None
    return plan


def test_a_model_of_one_image_takes_any_number(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> None:
    engine = open_tensorrt(small_network().SerializeToString(), gpu=gpu, stream=stream)

    assert engine.inputs[0].shape == (None, 3, 24, 32)
    engine.close()


def test_a_model_that_can_not_take_another_number_keeps_its_own(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt
) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=0)]
    model = make_model(nodes, constants={}, inputs={"x": [2, 3, 8, 8]})

    engine = open_tensorrt(model.SerializeToString(), gpu=gpu, stream=stream)

    assert (engine.inputs[0].shape, engine.most_rows, engine.report["batch"]) == ((2, 3, 8, 8), 2, "fixed 2")
    engine.close()


def test_the_size_of_images_can_be_given_where_it_is_open(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt
) -> None:
    model = small_network(batch="n", size_wh=("w", "h")).SerializeToString()

    engine = open_tensorrt(model, gpu=gpu, stream=stream, size_wh=(16, 8))

    assert engine.inputs[0].shape == (None, 3, 8, 16)
    engine.close()


def test_a_size_that_is_left_open_is_refused(gpu: CudaDevice, double: FakeTensorRt) -> None:
    model = TensorRtModel(small_network(batch="n", size_wh=("w", "h")).SerializeToString(), gpu=gpu)

    assert told_of(model.compile).endswith(
        "TensorRT-RTX 1.7.1.0 cannot compile it for compute capability 8.6: its input x (?, 3, ?, ?) leaves sizes "
        "open: give them, or use engine: onnxruntime"
    )


def test_an_operator_that_the_library_does_not_take_is_named(gpu: CudaDevice) -> None:
    fake_tensorrt(gpu, faults=TensorRtFaults(untaken=frozenset({"Relu"})))

    assert told_of(TensorRtModel(MODEL, gpu=gpu).compile).endswith(
        "cannot compile it for compute capability 8.6: it does not take its operator Relu; use engine: onnxruntime"
    )


def test_suppression_in_the_graph_is_refused_with_what_to_do(gpu: CudaDevice, double: FakeTensorRt) -> None:
    graph = helper.make_graph(
        [helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 10, 4]),
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 2, 10]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [None, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    assert told_of(TensorRtModel(model.SerializeToString(), gpu=gpu).compile).endswith(
        "it has no kernel for its operator NonMaxSuppression; export it without its suppression, which Sightline does "
        "itself, or use engine: onnxruntime"
    )


UNKNOWN_ROWS = [
    helper.make_node("NonZero", ["x"], ["places"]),
    helper.make_node("Transpose", ["places"], ["y"], perm=[1, 0]),
]


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        ([helper.make_node("NonZero", ["x"], ["y"])], "n"),
        (UNKNOWN_ROWS, "n"),
        ([helper.make_node("ReduceMax", ["x"], ["y"], axes=[0])], 2),
    ],
    ids=["columns", "rows", "one for both"],
)
def test_outputs_that_are_not_one_row_for_each_image_are_refused(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt, nodes: Sequence[NodeProto], rows: int | str
) -> None:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])],
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    content = onnx.shape_inference.infer_shapes(model).SerializeToString()

    assert told_of(lambda: open_tensorrt(content, gpu=gpu, stream=stream)).endswith(
        "its output 'y' is not one row of a known size for each image, as is needed on a GPU; use engine: onnxruntime"
    )


def test_tensors_in_host_memory_are_refused(gpu: CudaDevice, stream: CudaStream) -> None:
    fake_tensorrt(gpu, faults=TensorRtFaults(on_host=frozenset({"x"})))

    assert "wants its tensor 'x' in host memory; use engine: onnxruntime" in told_of(
        lambda: open_tensorrt(MODEL, gpu=gpu, stream=stream)
    )


def test_int8_needs_a_quantised_model(gpu: CudaDevice, double: FakeTensorRt) -> None:
    model = TensorRtModel(MODEL, gpu=gpu, precision="int8")

    assert told_of(model.compile).endswith("precision int8 needs a quantised model: sightline quantize makes one")


def test_a_gpu_that_the_library_does_not_support_is_told_before_anything_is_read(tmp_path: Path) -> None:
    driver = FakeCudaDriver(memory_bytes=2**20, pinned_bytes=2**20, compute_capability=(9, 0))
    gpu = CudaDevice(driver)
    fake_tensorrt(gpu)

    said = told_of(lambda: TensorRtModel(tmp_path / "missing.onnx", gpu=gpu))

    assert said == (
        "TensorRT-RTX 1.7.1.0 supports compute capability 8.6, 8.9, cuda:0 (double) has 9.0: use engine: onnxruntime"
    )
    gpu.close()


def test_tensorrt_compiles_on_whatever_gpu_there_is(folder: Path) -> None:
    gpu = CudaDevice(FakeCudaDriver(memory_bytes=2**22, pinned_bytes=2**22, compute_capability=(9, 0)))
    fake_tensorrt(gpu, rtx=False, version="10.13.0")

    TensorRtModel(MODEL, gpu=gpu).compile()

    assert kept_plan(folder).target == "SM90"
    gpu.close()


@pytest.mark.parametrize("damage", [lambda _: b"nothing", lambda plan: plan.replace(b'"1.7.1.0"', b'"1.6.0.0"')])
def test_a_kept_plan_that_is_refused_is_compiled_again_and_that_is_told(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt, folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    key = TensorRtModel(MODEL, gpu=gpu)._key
    open_tensorrt(MODEL, gpu=gpu, stream=stream).close()
    damaged = Entry(damage(kept_plan(folder).packed()), {"rows": None})
    ModelCache(folder, warn=print, for_processor=False).keep(key, damaged)
    told = list[str]()

    origins = []
    for _ in range(2):
        engine = open_tensorrt(MODEL, gpu=gpu, stream=stream, warn=told.append)
        origins.append(engine.report["model"])
        engine.close()

    assert origins == ["compiled", "cached"]
    [line] = told
    assert "the compiled model in the cache is of no use and is made again" in line


def test_a_plan_of_another_version_says_which(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> None:
    model = TensorRtModel(MODEL, gpu=gpu)
    model.compile()
    double.__version__ = "1.8.0.0"

    said = told_of(lambda: model.load(stream=stream))

    assert said.startswith("model of ")
    assert "TensorRT-RTX 1.8.0.0 cannot load its plan (VERSION_MISMATCH): Serialization: The engine plan file" in said
    assert "expecting library version 1.8.0.0 got 1.7.1.0, please rebuild; use engine: onnxruntime" in said


def test_one_logger_serves_all_calls(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> None:
    for _ in range(2):
        open_tensorrt(MODEL, gpu=gpu, stream=stream).close()

    assert len(double.loggers) == 1


def test_a_damaged_file_is_told_as_on_the_cpu(gpu: CudaDevice, double: FakeTensorRt) -> None:
    assert "is not an ONNX file" in told_of(lambda: TensorRtModel(b"nonsense", gpu=gpu))


def test_inputs_come_in_the_order_of_the_file(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> None:
    nodes = [helper.make_node("Add", ["b", "a"], ["z"]), helper.make_node("Sub", ["b", "a"], ["c"])]
    model = make_model(nodes, constants={}, inputs={"b": ["n", 4], "a": ["n", 4]}, outputs=("z", "c"))

    engine = open_tensorrt(model.SerializeToString(), gpu=gpu, stream=stream)

    assert [spec.name for spec in engine.inputs] == ["b", "a"]
    assert [spec.name for spec in engine.outputs] == ["z", "c"]
    engine.close()


def compiled_here(double: FakeTensorRt, *, gpu: CudaDevice, stream: CudaStream) -> list[str]:
    """What TensorRT-RTX compiled for the GPU in a run with batches of one, two and two images."""
    double.calls.clear()
    engine = open_tensorrt(MODEL, gpu=gpu, stream=stream)
    for rows in (1, 2, 2):
        bench = Bench(engine, gpu=gpu, stream=stream, rows=rows)
        engine.bind(bench.inputs, bench.outputs).enqueue()
    engine.close()
    return [call.partition(" for ")[0] for call in double.calls if call.startswith("compile ")]


def test_contexts_share_kernels_and_the_next_run_finds_them(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt, folder: Path
) -> None:
    first = compiled_here(double, gpu=gpu, stream=stream)
    second = compiled_here(double, gpu=gpu, stream=stream)

    assert first == ["compile context", "compile kernels", "compile kernels"]
    assert second == []


def test_kernels_of_another_gpu_are_not_taken(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt, driver: FakeCudaDriver, folder: Path
) -> None:
    compiled_here(double, gpu=gpu, stream=stream)

    driver.name = "another"

    assert len(compiled_here(double, gpu=gpu, stream=stream)) == 3


def test_several_inputs_take_the_same_number_of_images(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt
) -> None:
    nodes = [helper.make_node("Concat", ["a", "b"], ["y"], axis=1)]
    model = make_model(nodes, constants={}, inputs={"a": ["n", 4], "b": ["m", 2]})

    engine = open_tensorrt(model.SerializeToString(), gpu=gpu, stream=stream)

    assert [spec.shape for spec in (*engine.inputs, *engine.outputs)] == [(None, 4), (None, 2), (None, 6)]
    engine.close()
