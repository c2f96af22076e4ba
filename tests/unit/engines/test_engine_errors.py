"""Whatever is wrong with a model or a call is reported once, before or instead of computing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, external_data_helper, helper

from sightline.errors import ConfigurationError, DeviceUnavailable, ModelError
from sightline_plugins.engines.onnxruntime import load_cuda_libraries, providers_for
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.engines.graphs import make_model, small_network

ENGINES: Sequence[Literal["openvino", "onnxruntime"]] = ("openvino", "onnxruntime")


def content() -> bytes:
    written: bytes = small_network().SerializeToString()
    return written


def truncated() -> bytes:
    return content()[: len(content()) // 2]


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is empty"),
    "text": (lambda: b"this is not a model\n" * 30, "is not an ONNX file"),
    "random": (lambda: np.random.default_rng(1).bytes(5000), "is not an ONNX file"),
    "truncated": (truncated, "only a part of one"),
    "pickle": (lambda: b"\x80\x02}q\x00." * 9, "torch.onnx.export"),
    "archive": (lambda: b"PK\x03\x04" + bytes(99), "torch.onnx.export"),
    "pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    "xml": (lambda: b"<?xml version='1.0'?><net/>", "OpenVINO IR"),
    "page": (lambda: b"<!DOCTYPE html><html>404</html>", "download went wrong"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_model_is_named_with_what_it_is(kind: str, tmp_path: Path) -> None:
    make, message = FILES[kind]
    path = tmp_path / "street.onnx"
    path.write_bytes(make())
    with pytest.raises(ModelError, match=message) as raised:
        open_engine(path)
    assert "street.onnx" in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.onnx'?: no such file"):
        open_engine(tmp_path / "nowhere.onnx")


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a folder"):
        open_engine(tmp_path)


def with_external_weights(folder: Path, *, location: str) -> Path:
    model = small_network()
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "w1")
    weights = tensor.raw_data
    (folder / "w.bin").write_bytes(weights)
    external_data_helper.set_external_data(tensor, location, offset=0, length=len(weights))
    tensor.ClearField("raw_data")
    path = folder / "street.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_in_a_file_beside_the_model_are_read(tmp_path: Path) -> None:
    open_engine(with_external_weights(tmp_path, location="w.bin")).close()


def test_weights_in_a_missing_file_are_named(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path, location="other.bin")
    with pytest.raises(ModelError, match=r"'w1' has its data in 'other\.bin', which is missing"):
        open_engine(path)


def test_weights_in_a_file_that_is_too_short_are_named(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path, location="w.bin")
    (tmp_path / "w.bin").write_bytes(b"1234")
    with pytest.raises(ModelError, match=r"'w\.bin' is too short"):
        open_engine(path)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/hostname", "inside/../../w.bin", "link.bin"])
def test_weights_outside_the_folder_of_the_model_are_refused(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(9999))
    path = with_external_weights(folder, location=location)
    with pytest.raises(ModelError, match="outside the model's folder"):
        open_engine(path)


def test_bytes_of_a_model_with_weights_elsewhere_are_refused(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path, location="w.bin")
    with pytest.raises(ModelError, match="give the path"):
        open_engine(path.read_bytes())


@pytest.mark.parametrize("engine", ENGINES)
def test_an_operator_that_the_engine_lacks_is_named(
    engine: Literal["openvino", "onnxruntime"], capfd: pytest.CaptureFixture[str]
) -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], constants={}, inputs={"x": [1, 3, 4, 4]})
    model.graph.node[0].op_type, model.graph.node[0].domain = "Frobnicate", "org.example"
    model.opset_import.append(helper.make_opsetid("org.example", 1))
    with pytest.raises(ModelError, match="Frobnicate"):
        open_engine(model.SerializeToString(), engine=engine)
    assert capfd.readouterr() == ("", "")


def test_an_unknown_standard_operator_is_named() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], constants={}, inputs={"x": [1, 3, 4, 4]})
    model.graph.node[0].op_type = "Frobnicate"
    with pytest.raises(ModelError, match="Frobnicate"):
        open_engine(model.SerializeToString())


def test_a_graph_that_contradicts_itself_is_an_error() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], constants={}, inputs={"x": [1, 3, 4, 4]})
    model.graph.node[0].op_type, model.graph.node[0].domain = "Frobnicate", "org.example"
    with pytest.raises(ModelError, match=r"org\.example"):
        open_engine(model.SerializeToString())


def test_weights_that_do_not_fit_the_graph_are_an_error() -> None:
    model = small_network()
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]
    with pytest.raises(ModelError, match="damaged"):
        open_engine(model.SerializeToString())


CALLS: dict[str, tuple[tuple[np.ndarray[Any, Any], ...], str]] = {
    "no input": ((), r"takes 1 input\(s\)"),
    "two inputs": ((np.zeros((1, 24, 32, 3), np.uint8),) * 2, r"takes 1 input\(s\)"),
    "other size": ((np.zeros((1, 24, 31, 3), np.uint8),), r"uint8 \(1, 24, 32, 3\) expected, uint8 \(1, 24, 31, 3\)"),
    "other rank": ((np.zeros((24, 32, 3), np.uint8),), "expected, uint8 "),
    "other type": ((np.zeros((1, 24, 32, 3), np.float32),), r"expected, float32 \(1, 24, 32, 3\) given"),
    "not contiguous": ((np.zeros((1, 24, 64, 3), np.uint8)[:, :, ::2],), "not C-contiguous"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("call", CALLS)
def test_inputs_that_do_not_fit_are_named_with_what_is_expected(
    engine: Literal["openvino", "onnxruntime"], call: str
) -> None:
    opened: Engine = open_engine(content(), engine=engine, image=ImageForm(), concurrency=1)
    inputs, message = CALLS[call]
    with pytest.raises(ModelError, match=message):
        opened.submit(inputs)
    opened.close()


def test_another_size_than_the_models_own_is_refused() -> None:
    with pytest.raises(ModelError, match=r"one size only \(x float \(1, 3, 24, 32\)\), 64x64 asked for"):
        open_engine(content(), image=ImageForm(size_wh=(64, 64)))


def test_a_model_without_an_image_input_is_refused_as_such() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], constants={}, inputs={"x": [1, 10]})
    with pytest.raises(ModelError, match=r"no input takes an image.*found x float \(1, 10\)"):
        open_engine(model.SerializeToString(), image=ImageForm())


def test_a_mean_of_the_wrong_count_is_refused() -> None:
    with pytest.raises(ModelError, match="one value or 3, one a channel; 2 given"):
        open_engine(content(), image=ImageForm(mean=(1.0, 2.0)))


def test_an_element_type_that_numpy_lacks_is_named() -> None:
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)]
    model = make_model(nodes, constants={}, inputs={"x": [1, 4]})
    with pytest.raises(ModelError, match=r"'?y'?"):
        open_engine(model.SerializeToString(), engine="onnxruntime")


def test_an_unknown_engine_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="auto, onnxruntime, openvino, tensorrt, triton"):
        open_engine(content(), engine="tflite")


def test_a_gpu_without_its_provider_is_refused_with_what_to_install() -> None:
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this machine's ONNX Runtime has the CUDA provider")
    for engine in ("auto", "onnxruntime"):
        with pytest.raises(DeviceUnavailable, match=r"no provider for 'cuda:0'.*onnxruntime-gpu"):
            open_engine(content(), engine=engine, device="cuda:0")


def test_libraries_that_pip_installed_are_loaded_for_a_gpu_and_standard_output_stays_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load_cuda_libraries.cache_clear()
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: sys.stdout.write("Failed: libcudnn.so.9\n"))

    providers_for("cuda:0")
    load_cuda_libraries.cache_clear()

    assert capsys.readouterr() == ("", "Failed: libcudnn.so.9\n")


def test_openvino_does_not_run_on_a_gpu_of_nvidia() -> None:
    with pytest.raises(DeviceUnavailable, match="use onnxruntime"):
        open_engine(content(), engine="openvino", device="cuda:0")


def test_a_device_that_nothing_is_known_of_is_refused() -> None:
    with pytest.raises(DeviceUnavailable, match="cpu, cuda:N"):
        open_engine(content(), device="npu")


def test_a_missing_library_is_answered_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError, match="pip install openvino"):
        open_engine(content())


def test_importing_the_contract_imports_no_engine() -> None:
    program = (
        "import sys, sightline_plugins.engines.protocol\nprint({'openvino', 'onnxruntime', 'onnx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_opening_openvino_reports_to_nobody() -> None:
    program = (
        "import sys, threading\n"
        "from sightline_plugins.engines import openvino\n"
        "print('openvino_telemetry' in sys.modules, threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False 1"


def test_the_model_that_is_given_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "street.onnx"
    path.write_bytes(content())
    open_engine(path, image=ImageForm()).close()
    assert onnx.load(path) == small_network()
