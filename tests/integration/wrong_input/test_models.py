"""Models that cannot be used, or not so: told before anything runs, with what is expected and what was found."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from tests.integration.wrong_input.running import (
    CONFIG,
    Mistake,
    assert_readable,
    assert_told_once,
    call_apart,
    call_here,
    lines_of,
    steps,
)
from tests.unit.infer.tiny import save, write_detector, write_shapes

OPTIONS = "labels: [yellow, pink]"
Make = Callable[[Path], object]
Shapes = Mapping[str, list[int | str]]
IMAGE: Shapes = {"image": [1, 3, 32, 32]}
MAP: Shapes = {"map": [1, 7, 8, 8]}


def content(folder: Path) -> bytes:
    return write_detector(folder / "whole.onnx").read_bytes()


def shapes(inputs: Shapes, outputs: Shapes = MAP) -> Make:
    return lambda folder: write_shapes(folder / "m.onnx", inputs=inputs, outputs=outputs)


def changed(change: Callable[[onnx.ModelProto], None]) -> Make:
    def make(folder: Path) -> None:
        model = onnx.load(write_detector(folder / "m.onnx"))
        change(model)
        (folder / "m.onnx").write_bytes(model.SerializeToString())

    return make


def bytes_of(make: Callable[[Path], bytes]) -> Make:
    return lambda folder: (folder / "m.onnx").write_bytes(make(folder))


def rename_operator(model: onnx.ModelProto, *, domain: str = "") -> None:
    model.graph.node[0].op_type, model.graph.node[0].domain = "Frobnicate", domain
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))


def move_weights(model: onnx.ModelProto, *, location: str) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "shape")
    external_data_helper.set_external_data(tensor, location, offset=0, length=len(tensor.raw_data))
    tensor.ClearField("raw_data")


def raise_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 99


def doubles(folder: Path) -> None:
    pool = helper.make_node("AveragePool", ["image"], ["map"], kernel_shape=[4, 4], strides=[4, 4])
    ends = [
        helper.make_tensor_value_info("image", TensorProto.DOUBLE, [1, 3, 32, 32]),
        helper.make_tensor_value_info("map", TensorProto.DOUBLE, [1, 3, 8, 8]),
    ]
    save(helper.make_graph([pool], "doubles", ends[:1], ends[1:]), folder / "m.onnx")


MODEL = f"{CONFIG}:2:29: pipeline.0.detect.model: "
HEAD = "pipeline.0.detect.head: "
MODELS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "missing": (lambda folder: None, (f"{MODEL}there is no file", "m.onnx")),
    "empty": (bytes_of(lambda folder: b""), (MODEL, "m.onnx': is empty")),
    "text": (bytes_of(lambda folder: b"a text\n" * 99), (MODEL, "m.onnx': is not an ONNX file")),
    "cut off": (bytes_of(lambda folder: content(folder)[:-300]), (MODEL, "only a part of one")),
    "pickle": (bytes_of(lambda folder: pickle.dumps({"a": 1})), (MODEL, "a Python pickle: export the model to ONNX")),
    "PyTorch": (bytes_of(lambda folder: b"PK\x03\x04" + bytes(99)), (MODEL, "PyTorch", "torch.onnx.export")),
    "no text": (
        bytes_of(lambda folder: content(folder).replace(b"AveragePool", b"Average\xa8ool")),
        (MODEL, "is damaged: a name in it is not UTF-8 text"),
    ),
    "folder": (lambda folder: (folder / "m.onnx").mkdir(), (MODEL, "is a folder; give an ONNX file")),
    "sound": (shapes({"audio": [1, 16000]}), (MODEL, "one image of 3 channels", "audio float32 (1, 16000)")),
    "five channels": (shapes({"x": [1, 5, 32, 32]}), (MODEL, "one image of 3 channels", "(1, 5, 32, 32)")),
    "two images": (shapes({"a": [1, 3, 32, 32], "b": [1, 3, 32, 32]}), (MODEL, "one image", "b float32")),
    "four at once": (shapes({"x": [4, 3, 32, 32]}), (MODEL, "takes 4 images at once", "batch 1 or dynamic")),
    "six outputs": (
        shapes(IMAGE, {f"y{number}": [1, 7, 8, 8] for number in range(6)}),
        (HEAD, "fit no head", "y5 float32", "set head if the model is one of these: fastestdet"),
    ),
    "output of no head": (shapes(IMAGE, {"y": [1, 7, 5, 5]}), (HEAD, "(1, 7, 5, 5)", "fit no head")),
    "doubles": (doubles, (HEAD, "map float64 (1, 3, 8, 8)", "fit no head")),
    "unknown operator": (changed(rename_operator), (MODEL, "not supported", "Frobnicate")),
    "weights missing": (
        changed(lambda model: move_weights(model, location="w.bin")),
        (MODEL, "'shape' has its data in 'w.bin', which is missing"),
    ),
    "weights elsewhere": (
        changed(lambda model: move_weights(model, location="../w.bin")),
        (MODEL, "outside the model's folder: '../w.bin'"),
    ),
    "no sizes": (shapes({"x": [1, 3, 0, 0]}), (MODEL, "x float32 (1, 3, 0, 0)", "has an impossible size")),
    "huge image": (shapes({"x": [1, 3, 90000, 90000]}), (MODEL, "larger than 8192 pixels", "(1, 3, 90000, 90000)")),
    "endless size": (
        shapes({"x": [1, 3, 2**40, 32]}),
        (MODEL, "x float32 (1, 3, 1099511627776, 32)", "impossible size"),
    ),
    "no outputs": (changed(lambda model: model.graph.ClearField("output")), (MODEL, "has no outputs")),
    "future opset": (changed(raise_opset), (MODEL, "is written in opset 99", "export it with opset")),
    "foreign operator": (
        changed(lambda model: rename_operator(model, domain="org.example")),
        (MODEL, "operators that no engine has: org.example.Frobnicate"),
    ),
    "classifier": (
        lambda folder: write_detector(folder / "m.onnx", metadata={"task": "classify"}),
        (MODEL, "is made for 'classify'", "not for 'detect'"),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_can_not_be_used_is_told_once_before_anything_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    make, told = MODELS[name]
    make(tmp_path)
    mistake = Mistake(detecting(OPTIONS), told)

    outcome = call_here(mistake, tmp_path, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, tmp_path)
    assert not (tmp_path / "out").exists()


USES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a label too many": ("labels: [a, b, c]", ("detect.labels: the model has 2 classes, 3 labels are given",)),
    "labels missing": ("labels: no.names", ("detect.labels: there is no file", "no.names")),
    "labels no UTF-8": ("labels: latin.names", ("latin.names is not UTF-8 text",)),
    "unknown head": (f"{OPTIONS}, head: yolov9", (HEAD, "there is no head 'yolov9' for detect; did you mean 'yolov")),
    "head of others": (f"{OPTIONS}, head: yolox", (HEAD, "'yolox' cannot read this model's output map float32")),
    "unknown class": (f"{OPTIONS}, classes: [yelow]", ("detect.classes.0: ", "did you mean 'yellow'?")),
    "confidence": (f"{OPTIONS}, confidence: 40", ("detect.confidence: must be at most 1",)),
    "other size": (
        f"{OPTIONS}, size: [64, 64]",
        ("detect.size: the model takes images of 32x32 only", "leave size out"),
    ),
    "unknown engine": (
        f"{OPTIONS}, engine: caffe",
        ("detect.engine: there is no engine 'caffe'; choose one of auto, onnxruntime, openvino, tensorrt",),
    ),
    "two means": (f"{OPTIONS}, mean: [1, 2]", ("detect.mean: give one value, or three", "not 2")),
    "region inside out": (f"{OPTIONS}, regions: [[0.9, 0, 0.1, 1]]", ("detect.regions", "left < right")),
}


@pytest.mark.parametrize("name", USES)
def test_a_model_that_is_used_wrongly_is_told_once_before_anything_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    options, told = USES[name]
    write_detector(tmp_path / "m.onnx")
    (tmp_path / "latin.names").write_bytes(b"caf\xe9\n")
    mistake = Mistake(detecting(options), told)

    outcome = call_here(mistake, tmp_path, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, tmp_path)


@pytest.mark.parametrize(
    ("card", "told"),
    [
        ("hed: yolox", ("m.yaml:1:1: hed: there is no such option; did you mean 'head'?",)),
        ("head: [", ("m.yaml:1:8: ", "closing bracket")),
        ("task: classify", ("is made for 'classify' according to its card",)),
    ],
)
def test_a_wrong_model_card_is_told_once(
    card: str, told: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_detector(tmp_path / "m.onnx")
    (tmp_path / "m.yaml").write_text(card)
    mistake = Mistake(detecting(OPTIONS), (MODEL, *told))

    outcome = call_here(mistake, tmp_path, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, tmp_path)


@pytest.mark.parametrize(
    ("engine", "make", "told"),
    [
        ("openvino", changed(lambda model: rename_operator(model, domain="com.microsoft")), "com.microsoft.Frobnicate"),
        ("onnxruntime", changed(lambda model: rename_operator(model, domain="com.microsoft")), ":Frobnicate"),
    ],
)
def test_a_model_that_the_engine_refuses_is_told_once_without_the_engines_own_noise(
    engine: str, make: Make, told: str, tmp_path: Path
) -> None:
    make(tmp_path)
    mistake = Mistake(detecting(f"{OPTIONS}, engine: {engine}"), ("error: model '", "m.onnx': ", "cannot use it", told))

    outcome = call_apart(mistake, tmp_path)

    assert_told_once(outcome, mistake, tmp_path)


def test_boxes_that_are_no_numbers_are_left_out_and_counted(tmp_path: Path) -> None:
    def spoil(model: onnx.ModelProto) -> None:
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "shape")
        values = numpy_helper.to_array(tensor).copy()
        values[:, :2, :4] = np.nan
        tensor.CopyFrom(numpy_helper.from_array(values, "shape"))

    changed(spoil)(tmp_path)
    arguments = ("run", "-q", CONFIG, "--report", "report.json")
    mistake = Mistake(detecting(f"{OPTIONS}, confidence: 0.01"), (), arguments=arguments)

    outcome = call_apart(mistake, tmp_path)

    assert outcome.code == 0
    assert outcome.stderr == (
        "warning: detect-1: the model returned boxes that are not finite numbers; they are ignored\n"
    )
    assert_readable(tmp_path)
    assert lines_of(tmp_path / "out" / "cam.jsonl") == list(range(5))
    assert "NaN" not in (tmp_path / "out" / "cam.jsonl").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["totals"]["detect-1"]["invalid_boxes"] > 0


MISSING_ENGINES = """
import sys
for name in {names}:
    sys.modules[name] = None
from sightline.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("missing", "engine", "told"),
    [
        (
            ["openvino", "onnxruntime"],
            "auto",
            "needs openvino or onnxruntime, which is not installed: pip install openvino",
        ),
        (["openvino"], "openvino", "needs openvino, which is not installed: pip install openvino"),
        (["onnxruntime"], "onnxruntime", "needs onnxruntime, which is not installed: pip install onnxruntime"),
    ],
)
def test_an_engine_that_is_not_installed_is_told_with_how_to_install_it(
    missing: list[str], engine: str, told: str, tmp_path: Path
) -> None:
    write_detector(tmp_path / "m.onnx")
    mistake = Mistake(detecting(f"{OPTIONS}, engine: {engine}"), ("pipeline.0.detect.engine: ", told))

    outcome = call_apart(mistake, tmp_path, program=MISSING_ENGINES.format(names=missing))

    assert_told_once(outcome, mistake, tmp_path)


def test_without_openvino_the_other_engine_is_taken(tmp_path: Path) -> None:
    write_detector(tmp_path / "m.onnx")

    outcome = call_apart(Mistake(detecting(OPTIONS), ()), tmp_path, program=MISSING_ENGINES.format(names=["openvino"]))

    assert (outcome.code, outcome.stderr) == (0, "")


def detecting(options: str) -> str:
    return steps(f"{{detect: {{model: m.onnx, {options}}}}}, {{jsonl: 'out/{{stream}}.jsonl'}}")
