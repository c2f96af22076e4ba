"""`sightline quantize` on the street detector: what it writes, what it says, and what a pipeline then computes."""

from __future__ import annotations

import importlib.util
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import onnx
import pytest

from sightline import Pipeline
from sightline.cli.main import execute
from sightline.config import load_description
from sightline.errors import ConfigurationError
from sightline.graph.messages import MessageKind
from sightline_plugins import Detect
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.infer.precision import find_quantized
from sightline_plugins.infer.precision_speeds import interleaved_seconds, multiplies_bytes
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.engines.graphs import make_model, random
from tests.unit.infer.tiny import write_shapes

STEP = 20
TRIALS = 8
"""Of which the fastest counts: what else the machine does only makes an engine slower."""
NEEDS_SUMS_OF_BYTES = pytest.mark.skipif(
    not multiplies_bytes(), reason="this processor has no instructions for sums of bytes (VNNI)"
)


@dataclass(frozen=True)
class Made:
    """A copy of the street detector with its card, its quantised file, and the report that was printed."""

    model: Path
    report: dict[str, Any]
    code: int

    @property
    def output(self) -> Path:
        return self.model.with_suffix(".int8.onnx")


@pytest.fixture(scope="module")
def images(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every twentieth frame of the street."""
    folder = tmp_path_factory.mktemp("images")
    clip = cv2.VideoCapture(str(repository / "sample_videos" / "street.mp4"))
    for number in range(600):
        assert clip.grab()
        if number % STEP == 0:
            cv2.imwrite(str(folder / f"{number // STEP:03}.png"), clip.retrieve()[1])
    return folder


@pytest.fixture(scope="module")
def truth(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is true on them."""
    rows = [line.split(",", 1) for line in (repository / "sample_videos" / "street.mot.txt").read_text().splitlines()]
    kept = [f"{(int(frame) - 1) // STEP + 1},{rest}" for frame, rest in rows if (int(frame) - 1) % STEP == 0]
    path = tmp_path_factory.mktemp("truth") / "street.mot.txt"
    path.write_text("\n".join(kept))
    return path


@pytest.fixture(scope="module")
def made(repository: Path, images: Path, truth: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("street")
    model = street(repository, folder)
    arguments = ["--frames", str(images), "--truth", str(truth), "--samples", "6", "--force", "--json"]
    code = execute(["quantize", str(model), *arguments])
    return Made(model, json.loads((folder / "street.int8.json").read_text()), code)


def street(repository: Path, folder: Path) -> Path:
    for name in ("street.onnx", "street.yaml"):
        shutil.copy(repository / "models" / name, folder)
    return folder / "street.onnx"


def test_it_writes_a_model_beside_the_model_that_says_what_it_was_made_from(made: Made) -> None:
    found = find_quantized(made.model)

    assert (made.code, found.path) == (0, made.output)
    assert found.note.measure == "AP"
    assert found.note.lost_points == pytest.approx(made.report["lost_points"], abs=1e-3)


def test_the_street_detector_loses_next_to_nothing_on_every_engine(made: Made) -> None:
    assert {one["engine"] for one in made.report["accuracy"]} == {"openvino", "onnxruntime"}
    assert all(one["fp32_points"] > 40 for one in made.report["accuracy"])
    assert made.report["lost_points"] < 2


def test_everything_that_is_needed_to_make_it_again_is_told(made: Made) -> None:
    calibration = made.report["calibration"]

    assert (calibration["images"], calibration["method"]) == (6, "minmax")
    assert calibration["judged_by_others"]
    assert {"onnxruntime", "openvino", "onnx"} <= made.report["versions"].keys()
    assert {one["engine"] for one in made.report["speed"]} == {"openvino", "onnxruntime"}


def test_labels_and_any_number_of_images_stay(made: Made) -> None:
    before, after = onnx.load(made.model), onnx.load(made.output)

    kept = {entry.key: entry.value for entry in after.metadata_props}
    assert {entry.key: entry.value for entry in before.metadata_props}.items() <= kept.items()
    assert after.graph.input[0].type.tensor_type.shape.dim[0].dim_param


def test_a_pipeline_computes_the_quantised_file_and_reports_it(made: Made, repository: Path) -> None:
    seen = list[str]()
    pipeline = Pipeline(
        sources={"street": repository / "sample_videos" / "street.mp4"},
        steps=[Detect(model=made.model, precision="int8")],
    )
    pipeline.on_message(lambda message: seen.append(message.text) if message.kind is MessageKind.MODEL else None)

    report = pipeline.run(frames=4)

    told = report.totals["detect-1"]
    assert told["precision"] == "int8"
    assert "points of AP" in told["precision_reason"]
    assert any("precision int8" in text for text in seen)


@NEEDS_SUMS_OF_BYTES
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_8_bits_are_faster_than_float32(engine: Any, made: Made) -> None:
    form = ImageForm(scale=(1 / 255,))
    both = [open_engine(model, engine=engine, image=form) for model in (made.model, made.output)]

    trials = [interleaved_seconds(both, budget_seconds=0.2) for _ in range(TRIALS)]

    for one in both:
        one.close()
    fp32, int8 = (min(trial[place] for trial in trials) for place in range(2))
    assert fp32 / int8 > 1.2


def test_a_model_that_lost_more_than_its_budget_is_not_written(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_embedder(tmp_path / "embedder.onnx")

    code = execute(["quantize", str(model), "--task", "embed", "--frames", str(images), "--budget", "0"])

    told = capsys.readouterr()
    assert code == 1
    assert "points of agreement, more than the budget of 0: nothing is written" in told.err
    assert "the last layers in float32" in told.out
    assert [file.name for file in tmp_path.iterdir()] == ["embedder.onnx"]


def write_embedder(path: Path) -> Path:
    """A model that gives a vector: no two precisions give the very same one."""
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w1"], ["a"]),
        onnx.helper.make_node("Relu", ["a"], ["b"]),
        onnx.helper.make_node("Conv", ["b", "w2"], ["c"]),
        onnx.helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        onnx.helper.make_node("Flatten", ["d"], ["y"]),
    ]
    constants = {"w1": random(8, 3, 3, 3, seed=1), "w2": random(16, 8, 3, 3, seed=2)}
    model = make_model(nodes, constants=constants, inputs={"x": [1, 3, 24, 32]})
    del model.metadata_props[:]
    onnx.save(model, path)
    return path


def test_the_check_names_the_key_of_a_missing_quantised_file(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = street(repository, tmp_path)
    config = tmp_path / "one.yaml"
    config.write_text(
        f"sources: {{a: {repository}/sample_videos/street.mp4}}\n"
        f"pipeline:\n- detect: {{model: {model}, precision: int8}}\n"
    )

    code = execute(["check", str(config)])

    told = capsys.readouterr().err
    assert code == 2
    assert "pipeline.0.detect.precision" in told
    assert f"sightline quantize {model} --frames CLIP" in told


def test_a_model_that_fits_no_head_wants_its_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_shapes(tmp_path / "m.onnx", inputs={"x": [1, 3, 24, 32]}, outputs={"y": [1, 2, 3, 4, 5]})

    code = execute(["quantize", str(model), "--frames", "clip.mp4"])

    assert code == 2
    assert "it was taken for a detector: set --task" in capsys.readouterr().err


def test_a_package_that_scores_is_asked_for_before_anything_is_read(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    code = execute(["quantize", str(repository / "models" / "street.onnx"), "--frames", "clip.mp4"])

    assert code == 2
    assert capsys.readouterr().err == (
        "error: scoring detections needs the package 'pycocotools': pip install 'sightline[eval]'\n"
    )


def test_a_quantised_file_needs_no_other(made: Made, repository: Path, tmp_path: Path) -> None:
    config = tmp_path / "one.yaml"
    config.write_text(
        f"sources: {{a: {repository}/sample_videos/street.mp4}}\n"
        f"pipeline:\n- detect: {{model: {made.output}, precision: int8}}\n"
    )

    with pytest.raises(ConfigurationError, match="is quantised already, and runs as it is: leave precision out"):
        load_description(config)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.onnx", "--frames", "CLIP"], "no such file"),
        (["grpc://127.0.0.1:8001/street", "--frames", "CLIP"], "is served elsewhere: give the ONNX file"),
        (["MODEL", "--frames", "none.mp4"], "none.mp4"),
        (["MODEL", "--frames", "CLIP", "--truth", "TRUTH", "--truth", "TRUTH"], "one file for each clip"),
        (["MODEL", "--frames", "CLIP", "--output", "MODEL"], "is the model itself"),
        (["MODEL", "--frames", "CLIP", "--output", "model.bin"], "ends in .onnx"),
        (
            ["MODEL", "--frames", "CLIP", "--output", "PLATE"],
            "is there already, and sightline",
        ),
        (
            ["MODEL", "--frames", "CLIP", "--set", "colr=rgb"],
            "--set colr: there is no such option; did you mean",
        ),
        (["MODEL", "--frames", "CLIP", "--set", "mean=[1"], "--set mean=[1: the value is not valid YAML"),
        (["MODEL", "--frames", "CLIP", "--task", "classify"], "is made for 'detect'"),
        (["VEHICLE", "--frames", "CLIP", "--truth", "TRUTH"], "leave it out"),
        (["MODEL"], "--frames"),
    ],
)
def test_what_can_not_be_done_is_one_message(
    arguments: list[str], message: str, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    videos = repository / "sample_videos"
    names = {
        "MODEL": repository / "models" / "street.onnx",
        "VEHICLE": repository / "models" / "vehicle.onnx",
        "PLATE": repository / "models" / "plate.onnx",
        "CLIP": videos / "street.mp4",
        "TRUTH": videos / "street.mot.txt",
    }

    code = execute(["quantize", *(str(names.get(one, one)) for one in arguments)])

    told = capsys.readouterr().err
    assert code in (1, 2)
    assert message in told
    assert "Traceback" not in told


def test_a_clip_that_is_not_there_is_wrong_usage(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = execute(["quantize", str(repository / "models" / "street.onnx"), "--frames", "none.mp4"])

    assert code == 2
    assert "none.mp4): there is no such file; check the path" in capsys.readouterr().err
