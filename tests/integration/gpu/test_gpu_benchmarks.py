"""Benchmarks of models and of encoding on a GPU run through on the double: what they measure there means nothing."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks import gpus
from benchmarks.gpu_encode import __main__ as encode_command
from benchmarks.gpu_encode import rates as encode_rates
from benchmarks.gpu_models import __main__ as command
from benchmarks.gpu_models import latency
from onnx import helper, numpy_helper

from sightline.devices.cuda.device import CudaDevice
from sightline_plugins.encode.settings import EncoderError
from sightline_plugins.infer.precision import NOTE_KEY, quantized_path
from tests.fakes import FakeNvdec, FakeNvenc, NvencFaults, fake_nvenc
from tests.fakes.nvenc import NO_NVENC
from tests.unit.infer.tiny import write_detector

SHORT = ("--seconds", "0.02", "--rounds", "2", "--looks", "3", "--judged", "2", "--file-frames", "40")
SHORT_VIDEOS = ("--seconds", "0.02", "--rounds", "2")
NUMBER = r"\d+(?:\.\d+)?"


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A detector of 32 x 32 pixels, with its card, and its quantised file."""
    model = write_detector(tmp_path_factory.mktemp("models") / "tiny.onnx", rows="batch")
    card = "task: detect\nhead: fastestdet\nlabels: [yellow, pink]\ninput: {color: rgb}\n"
    model.with_suffix(".yaml").write_text(card)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    note = {"source_sha256": digest, "measure": "AP", "lost_points": 0.1, "budget_points": 1.0}
    quantized = onnx.load(model)
    graph = quantized.graph
    graph.node[0].input[0] = "dequantized"
    for name, made, source in (
        ("DequantizeLinear", "dequantized", "quantized"),
        ("QuantizeLinear", "quantized", "images"),
    ):
        graph.node.insert(0, helper.make_node(name, [source, "step", "zero"], [made]))
    graph.initializer.append(numpy_helper.from_array(np.array(1 / 127, np.float32), "step"))
    graph.initializer.append(numpy_helper.from_array(np.array(0, np.int8), "zero"))
    helper.set_model_props(quantized, {NOTE_KEY: json.dumps(note)})
    onnx.save(quantized, quantized_path(model))
    return model


@pytest.fixture(autouse=True)
def _opens_the_double(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "why_not", lambda index: None)
    monkeypatch.setattr(gpus, "open_cuda", lambda index: gpu)


def table(printed: str, first: str) -> list[list[str]]:
    """The rows of the table whose first column is called so."""
    lines = printed.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = lines[begin + 2 :]
    end = next(number for number, line in enumerate(rows) if not line)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[:end]]


@pytest.mark.parametrize("engine", ["tensorrt", "onnxruntime"])
def test_rates_and_copies_are_measured_for_each_number_of_streams(
    clips: dict[str, Path],
    detector: Path,
    nvdec: FakeNvdec,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    engine: str,
) -> None:
    request.getfixturevalue(engine)

    command.main([str(clips["gate"]), "--model", str(detector), "--parts", "rates", "--streams", "1,2", *SHORT])

    printed = capsys.readouterr().out
    assert [row[0] for row in table(printed, "streams")] == ["1"]
    assert re.search(rf"\| 2 \| {NUMBER} \(", printed)
    assert re.search(r"\| 2 \| \d+ \| <= \d+: yes \| [01]\.\d+ \| \d+ \| <= \d+: yes \|", printed)
    assert f"engine: {engine}" in printed


def test_the_latency_of_an_image_is_measured_against_the_engine(
    clips: dict[str, Path],
    detector: Path,
    nvdec: FakeNvdec,
    tensorrt: object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command.main([str(clips["gate"]), "--model", str(detector), "--parts", "latency", *SHORT])

    [row] = table(capsys.readouterr().out, "from the GPU's memory to metadata, µs")
    assert [len(re.findall(NUMBER, cell)) for cell in row[:3]] == [7, 7, 7]
    assert "<= 1.5" in row[4]


def test_precisions_stand_side_by_side_with_what_they_find(
    clips: dict[str, Path],
    detector: Path,
    nvdec: FakeNvdec,
    tensorrt: object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command.main([str(clips["gate"]), "--model", str(detector), "--parts", "precisions", *SHORT])

    printed = capsys.readouterr().out
    rows = table(printed, "precision")
    assert [row[0] for row in rows] == ["fp32", "int8"]
    assert all(re.fullmatch(NUMBER, row[4]) for row in rows)
    assert [row[-1] for row in rows] == ["", "<= 1: yes"]
    assert "fp16 is not measured: " in printed


def test_what_is_held_is_told_over_many_frames(
    clips: dict[str, Path],
    detector: Path,
    nvdec: FakeNvdec,
    tensorrt: object,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--parts", "", "--frames", "60", "--streams", "2", "--size", "128x96", *SHORT]

    command.main([str(clips["gate"]), "--model", str(detector), *given])

    printed = capsys.readouterr().out
    assert [int(row[0]) for row in table(printed, "frames")][-1] == 60
    assert "60 frames of 2 streams" in printed
    assert printed.count("MiB by the slope over the run") == 2


@pytest.mark.parametrize(("limit", "code"), [(1e9, 0), (0.0, 1)])
def test_a_missed_goal_is_told_by_the_exit_code(
    clips: dict[str, Path],
    detector: Path,
    nvdec: FakeNvdec,
    tensorrt: object,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    limit: float,
    code: int,
) -> None:
    monkeypatch.setattr(latency, "GOAL", limit)

    found = command.main([str(clips["gate"]), "--model", str(detector), "--parts", "latency", *SHORT])

    assert found == code
    assert ("missed: latency against the engine alone <= 0" in capsys.readouterr().out) == bool(code)


def test_a_model_that_no_engine_takes_ends_it_with_the_reasons(
    clips: dict[str, Path], detector: Path, nvdec: FakeNvdec
) -> None:
    with pytest.raises(SystemExit, match=r"no engine of the GPU takes .*tiny\.onnx.*ONNX Runtime has no CUDA provider"):
        command.main([str(clips["gate"]), "--model", str(detector), *SHORT])


def test_what_is_decoded_by_the_cpu_is_no_result(clips: dict[str, Path], detector: Path, tensorrt: object) -> None:
    with pytest.raises(SystemExit, match="decoded by the CPU"):
        command.main([str(clips["gate"]), "--model", str(detector), "--parts", "", "--frames", "8", *SHORT])


def test_videos_are_measured_against_the_encoder_alone_and_nothing_is_copied(
    clips: dict[str, Path],
    nvdec: FakeNvdec,
    nvenc: FakeNvenc,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(encode_rates, "GOAL", 0.0)
    monkeypatch.setattr(encode_rates, "MOST_MICROSECONDS", 1e9)

    code = encode_command.main([str(clips["gate"]), "--videos", "1,3", *SHORT_VIDEOS])

    rows = table(capsys.readouterr().out, "videos")
    assert [row[0] for row in rows] == ["1", "3"]
    assert all(len(re.findall(NUMBER, cell)) == 3 for row in rows for cell in row[1:4])
    assert [row[7:] for row in rows] == [["0", "<= 0: yes"]] * 2
    assert code == 0


def test_videos_that_are_too_slow_are_told_by_the_exit_code(
    clips: dict[str, Path],
    nvdec: FakeNvdec,
    nvenc: FakeNvenc,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(encode_rates, "GOAL", 1e9)

    code = encode_command.main([str(clips["gate"]), "--videos", "1", *SHORT_VIDEOS])

    assert "missed: 1 videos against PyNvVideoCodec alone >= 1e+09" in capsys.readouterr().out
    assert code == 1


def test_what_is_held_is_told_over_many_videos(
    clips: dict[str, Path], nvdec: FakeNvdec, nvenc: FakeNvenc, capsys: pytest.CaptureFixture[str]
) -> None:
    encode_command.main([str(clips["gate"]), "--videos", "1", "--churn", "20", *SHORT_VIDEOS])

    printed = capsys.readouterr().out
    assert [int(row[0]) for row in table(printed, "videos made")][-1] == 20
    assert printed.count("MiB by the slope over the run") == 2


def test_a_gpu_without_an_encoder_is_told_in_one_line(
    clips: dict[str, Path], gpu: CudaDevice, nvdec: FakeNvdec, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_nvenc(gpu, caps=NO_NVENC)

    code = encode_command.main([str(clips["gate"]), *SHORT_VIDEOS])

    assert capsys.readouterr().out.splitlines()[1:] == ["nothing to measure: NVENC opens no session on this GPU"]
    assert code == 0


def test_more_videos_than_the_gpu_encodes_at_once_are_told_and_left_out(
    clips: dict[str, Path], gpu: CudaDevice, nvdec: FakeNvdec, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_nvenc(gpu, faults=NvencFaults(is_refused=True))

    encode_command.main([str(clips["gate"]), "--videos", "16", *SHORT_VIDEOS])

    printed = capsys.readouterr().out
    assert "16 videos at once are not measured: " in printed
    assert table(f"{printed}\n", "videos") == []


def test_an_encoder_that_fails_ends_the_measurement(clips: dict[str, Path], gpu: CudaDevice, nvdec: FakeNvdec) -> None:
    fake_nvenc(gpu, faults=NvencFaults(fail_at=frozenset({3})))

    with pytest.raises(EncoderError, match="Error code : 20"):
        encode_command.main([str(clips["gate"]), "--videos", "2", *SHORT_VIDEOS])
