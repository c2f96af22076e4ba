"""`sightline models show`: each section of the text, the JSON, and every way in which a model cannot be shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.unit.infer.tiny import LABELS, image, save, write_detector, write_shapes

from sightline.cli.main import execute
from sightline_plugins.commands.models.text import WIDTH

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    metadata = {"names": str(dict(enumerate(LABELS))), "author": "a person"}
    return write_detector(tmp_path / "tiny.onnx", metadata=metadata, rows="batch")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "blocks.png"
    cv2.imwrite(str(path), image((1, 1, "yellow"), (5, 6, "pink"))[..., ::-1])
    return path


def shown(capsys: Capture, *arguments: object, code: int = 0) -> str:
    assert execute(["models", "show", *map(str, arguments)]) == code
    return capsys.readouterr().out


def described(capsys: Capture, *arguments: object, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(capsys, *arguments, "--json", code=code))
    return found


def error(capsys: Capture, *arguments: object, code: int = 2) -> str:
    """The error; it is one line, and nothing else is printed."""
    assert execute(["models", "show", *map(str, arguments)]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    return printed.err


def section(text: str, title: str) -> list[str]:
    """The lines of a section, with single spaces."""
    (body,) = [part for part in text.split("\n\n") if part.splitlines()[0] == title]
    return [" ".join(line.split()) for line in body.splitlines()[1:]]


def write_classifier(path: Path, *, op: str = "Softmax", size: int = 10) -> Path:
    """A model that ends in an operator on a vector."""
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["images"], ["means"]),
            helper.make_node("Flatten", ["means"], ["row"]),
            helper.make_node("MatMul", ["row", "weights"], ["raw"]),
            helper.make_node(op, ["raw"], ["scores"]),
        ],
        "classifier",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, size])],
        [onnx.numpy_helper.from_array(np.ones((3, size), np.float32), "weights")],
    )
    return save(graph, path)


def test_the_file_is_identified(model: Path, capsys: Capture) -> None:
    rows = section(shown(capsys, model), "Model")

    assert rows[0] == f"file {model}"
    assert rows[1].startswith("size ")
    assert re.fullmatch(r"SHA-256 [0-9a-f]{64}", rows[2])
    assert rows[3:] == [
        "format ONNX, opset 13, IR version 8",
        "producer not stated",
        "contents 258 parameters, 5 operators",
        "card none (tiny.yaml beside it would be read)",
    ]


def test_metadata_is_shown(model: Path, capsys: Capture) -> None:
    assert section(shown(capsys, model), "Metadata") == ["author a person", "names {0: 'yellow', 1: 'pink'}"]


def test_inputs_and_outputs_have_names_types_and_open_sizes(model: Path, capsys: Capture) -> None:
    text = shown(capsys, model)

    assert section(text, "Inputs") == ["images float32 (batch, 3, 32, 32) the image, NCHW"]
    assert section(text, "Outputs") == ["map float32 (batch, 7, 8, 8) made by Concat"]


def test_the_head_and_why_it_was_chosen_are_shown(model: Path, capsys: Capture) -> None:
    text = shown(capsys, model)

    assert section(text, "Step") == ["detect its outputs have the form of boxes"]
    name, reads, reason = section(text, "Head")
    assert name == "fastestdet FastestDet"
    assert reads == "reads (1, 5 + classes, rows, columns)"
    assert re.fullmatch(r"of \d+ heads for detect the only one that fits the names and shapes of the outputs", reason)


def test_a_head_that_was_asked_for_is_said_to_be(model: Path, capsys: Capture) -> None:
    assert section(shown(capsys, model, "--set", "head=fastestdet"), "Head")[-1] == "set with --set head"


def test_labels_come_from_metadata(model: Path, capsys: Capture) -> None:
    assert section(shown(capsys, model), "Labels") == ["2 yellow, pink", "from metadata of the file"]


def test_many_labels_are_cut(tmp_path: Path, capsys: Capture) -> None:
    names = [f"c{number}" for number in range(80)]
    model = write_shapes(tmp_path / "m.onnx", inputs={"x": [1, 3, 64, 64]}, outputs={"y": [1, 84, 84]})

    rows = section(shown(capsys, model, "--set", f"labels={names}"), "Labels")

    assert rows == ["80 c0, c1, c2, c3, c4, c5, c6, c7, and 72 more", "from --set"]


def test_a_file_of_labels_beside_the_model_is_proposed(tmp_path: Path, capsys: Capture) -> None:
    model = write_detector(tmp_path / "tiny.onnx")
    (tmp_path / "other.txt").write_text("one\ntwo\nthree\n")
    names = tmp_path / "tiny.names"
    names.write_text("yellow\npink\n")

    text = shown(capsys, model, "--task", "detect")

    assert section(text, "Labels")[0] == "none neither file nor card has names; the outputs have 2 classes"
    assert f"--set labels={names}" in " ".join(section(text, "Labels"))
    assert str(names) in " ".join(section(text, "Pipeline"))


def test_without_names_the_ways_to_give_them_are_shown(tmp_path: Path, capsys: Capture) -> None:
    rows = section(shown(capsys, write_detector(tmp_path / "tiny.onnx"), "--as", "detect"), "Labels")

    assert "labels: FILE" in " ".join(rows)


def test_each_value_of_the_preprocessing_has_its_origin(model: Path, capsys: Capture) -> None:
    model.with_suffix(".yaml").write_text("input: {color: rgb}\n")

    rows = section(shown(capsys, model, "--set", "mean=127.5"), "Pre-processing")

    assert rows == [
        "size 32 x 32 shape of the input",
        "fit stretch head fastestdet",
        "resize area head fastestdet",
        "convert image head fastestdet",
        "color RGB model card tiny.yaml",
        "mean 127.5 --set",
        "scale 255 head fastestdet",
        "layout NCHW shape of the input",
    ]


def test_what_decides_about_boxes_has_its_origin(model: Path, capsys: Capture) -> None:
    model.with_suffix(".yaml").write_text("nms: {iou: 0.6}\n")

    rows = section(shown(capsys, model, "--set", "confidence=0.4"), "Boxes")

    assert rows[0] == "confidence 0.4 --set"
    assert rows[1] == "method hard head fastestdet"
    assert rows[2] == "iou 0.6 model card tiny.yaml"


def test_the_engine_of_this_machine_is_shown(
    model: Path, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    before = described(capsys, model, "--set", "engine=onnxruntime")["engine"]

    photo = tmp_path / "p.png"
    cv2.imwrite(str(photo), image())
    shown(capsys, model, "--set", "engine=onnxruntime", "--image", photo, "--output", tmp_path / "o.jpg")
    after = described(capsys, model, "--set", "engine=onnxruntime")["engine"]

    assert (before["name"], before["runs_on"], before["precision"]) == ("onnxruntime", "cpu", "fp32")
    assert (before["is_compiled"], after["is_compiled"]) == (False, True)


def test_the_pipeline_can_be_pasted(model: Path, capsys: Capture) -> None:
    from ruamel.yaml import YAML

    text = shown(capsys, model, "--set", "confidence=0.4", "--set", "nms={method: soft}")
    lines = text[text.index("\nPipeline\n") :].split("\n", 2)[2]

    (step,) = YAML(typ="safe", pure=True).load(lines)
    assert step == {"detect": {"model": str(model), "confidence": 0.4, "nms": {"method": "soft"}}}


def test_no_line_is_wider_than_a_page(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    long = "a_name_that_an_exporter_made_up_without_a_thought_for_those_who_read_it"
    model = write_shapes(
        Path("m.onnx"), inputs={"images": [1, 3, 64, 64]}, outputs={long: [1, "of_the_boxes_that_it_finds", 7]}
    )

    lines = shown(capsys, model, code=1).splitlines()

    assert max(map(len, lines)) <= WIDTH


def test_the_json_holds_the_same(model: Path, capsys: Capture) -> None:
    found = described(capsys, model)

    assert found["file"]["opset"] == {"ai.onnx": 13}
    assert found["inputs"] == [
        {"name": "images", "type": "float32", "shape": ["batch", 3, 32, 32], "note": "the image, NCHW"}
    ]
    assert found["step"] == {
        "task": "detect",
        "origin": "outputs",
        "reason": "its outputs have the form of boxes",
        "others": [],
    }
    assert (found["head"]["name"], found["head"]["origin"]) == ("fastestdet", "outputs")
    assert (found["labels"]["names"], found["labels"]["origin"]) == (list(LABELS), "metadata")
    assert found["preprocessing"]["size"] == {"value": [32, 32], "origin": "file"}
    assert (found["problems"], found["image"]) == ([], None)


def test_a_classifier_is_shown_as_one(tmp_path: Path, capsys: Capture) -> None:
    text = shown(capsys, write_classifier(tmp_path / "m.onnx"))

    assert section(text, "Step") == ["classify its outputs have the form of a score for each class"]
    assert section(text, "Head")[0] == "classify classifiers"
    assert section(text, "Outputs") == ["scores float32 (1, 10) made by Softmax"]
    assert not re.search("^Boxes$", text, re.MULTILINE)


def test_the_other_reading_of_a_vector_is_named(tmp_path: Path, capsys: Capture) -> None:
    model = write_classifier(tmp_path / "m.onnx", op="Relu", size=512)

    rows = section(shown(capsys, model), "Step")

    assert rows[0].startswith("embed ")
    assert rows[1] == "its outputs also fit classify: choose with --task classify"


def test_attributes_of_a_card_are_its_labels(repository: Path, capsys: Capture) -> None:
    rows = section(shown(capsys, repository / "models" / "vehicle.onnx"), "Labels")

    assert rows[1:] == ["kind car, van, truck, bus", "from model card vehicle.yaml"]


def test_an_image_is_run_and_drawn(model: Path, photo: Path, tmp_path: Path, capsys: Capture) -> None:
    drawn = tmp_path / "drawn.jpg"

    text = shown(capsys, model, "--set", "color=rgb", "--set", "confidence=0.5", "--image", photo, "--output", drawn)

    assert section(text, "Image") == [
        f"{photo}, 64 x 64: 2 objects",
        "yellow 1.00 box 8, 8, 16, 16",
        "pink 1.00 box 40, 48, 48, 56",
        f"drawn: {drawn}",
    ]
    before, after = (cv2.imread(str(path)) for path in (photo, drawn))
    assert before is not None
    assert after is not None
    assert before.shape == after.shape
    assert np.abs(before.astype(int) - after).max() > 100


def test_attributes_and_vectors_are_printed(repository: Path, photo: Path, tmp_path: Path, capsys: Capture) -> None:
    drawn = ("--image", photo, "--output", tmp_path / "drawn.jpg")

    vehicle = section(shown(capsys, repository / "models" / "vehicle.onnx", *drawn), "Image")[1]
    bright = ("--set", "mean=0", "--set", "scale=255")
    features = write_classifier(tmp_path / "m.onnx", op="Relu", size=512)
    vector = section(shown(capsys, features, *bright, *drawn), "Image")[1]

    assert re.search(r" kind \w+ \(0\.\d\d\)$", vehicle)
    assert vector.endswith("512 values of the embedding")


def test_the_drawn_image_goes_into_the_working_directory(
    model: Path, photo: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    shown(capsys, model, "--image", photo)
    shown(capsys, model, "--image", photo)

    assert [path.name for path in Path.cwd().iterdir()] == ["blocks-tiny.jpg"]


def test_files_of_others_are_kept(model: Path, photo: Path, tmp_path: Path, capsys: Capture) -> None:
    theirs = tmp_path / "theirs.jpg"
    theirs.write_bytes(b"a photograph")

    message = error(capsys, model, "--image", photo, "--output", theirs)

    assert "was not written by Sightline" in message
    assert theirs.read_bytes() == b"a photograph"
    shown(capsys, model, "--image", photo, "--output", theirs, "--overwrite")
    assert theirs.read_bytes() != b"a photograph"


def test_the_image_itself_is_never_written(model: Path, tmp_path: Path, capsys: Capture) -> None:
    photo = tmp_path / "p.jpg"
    cv2.imwrite(str(photo), image())
    before = photo.read_bytes()

    message = error(capsys, model, "--image", photo, "--output", photo, "--overwrite")

    assert "is the image that is read" in message
    assert photo.read_bytes() == before


def test_a_model_that_no_head_fits_is_shown_with_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    model = write_shapes(tmp_path / "m.onnx", inputs={"x": [1, 3, 64, 64]}, outputs={"y": [1, 2, 3, 4, 5]})

    text = shown(capsys, model, code=1)

    assert section(text, "Outputs") == ["y float32 (1, 2, 3, 4, 5) made by Identity"]
    assert section(text, "Head") == ["none no head fits the outputs"]
    problems = " ".join(section(text, "Problems"))
    assert "fit no head" in problems
    assert "function of yours" in problems
    assert "\nPipeline\n" not in text


def test_a_model_without_an_image_is_shown(tmp_path: Path, capsys: Capture) -> None:
    model = write_shapes(tmp_path / "m.onnx", inputs={"tokens": [1, 77]}, outputs={"y": [1, 512]})

    text = shown(capsys, model, code=1)

    assert section(text, "Inputs") == ["tokens float32 (1, 77)"]
    assert "a model takes one image" in " ".join(section(text, "Problems"))


def test_a_size_that_is_open_is_asked_for(tmp_path: Path, capsys: Capture) -> None:
    model = write_shapes(tmp_path / "m.onnx", inputs={"x": [1, 3, "h", "w"]}, outputs={"y": [1, 10]})

    text = shown(capsys, model, code=1)

    assert section(text, "Head")[0] == "classify classifiers"
    assert "such as size: [640, 640]" in " ".join(section(text, "Problems"))
    assert section(shown(capsys, model, "--set", "size=[64, 64]"), "Pre-processing")[0] == "size 64 x 64 --set"


def test_a_model_that_cannot_run_is_not_run_on_the_image(tmp_path: Path, photo: Path, capsys: Capture) -> None:
    model = write_shapes(tmp_path / "m.onnx", inputs={"x": [1, 3, 64, 64]}, outputs={"y": [1, 2, 3, 4, 5]})
    drawn = tmp_path / "drawn.jpg"

    text = shown(capsys, model, "--image", photo, "--output", drawn, code=1)

    assert f"Not run on {photo}" in text
    assert not drawn.exists()


@pytest.mark.parametrize(
    ("name", "content", "meaning"),
    [
        ("a.onnx", b"hello\n", "is not an ONNX file, but text"),
        ("a.onnx", b"", "is empty"),
        ("a.onnx", bytes(range(256)), "is not an ONNX file"),
        ("a.engine", b"\x01\x02\x03\x04", "is a compiled TensorRT engine"),
        ("a.onnx", b"ftrt\x00\x01", "is a compiled TensorRT engine"),
        ("a.xml", b'<?xml version="1.0"?><net/>', "OpenVINO IR"),
        ("a.bin", b"\x01\x02\x03\x04", "is OpenVINO IR"),
        ("a.pt", b"PK\x03\x04", "export the model to ONNX"),
        ("a.tflite", b"\x1c\x00\x00\x00TFL3", "convert it to ONNX"),
        ("a.jpg", b"\xff\xd8\xff\xe0", "is a JPEG image"),
    ],
)
def test_what_is_no_onnx_file_is_one_error(
    tmp_path: Path, capsys: Capture, name: str, content: bytes, meaning: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    assert meaning in error(capsys, path)


def test_a_missing_file_is_one_error(tmp_path: Path, capsys: Capture) -> None:
    assert "no such file" in error(capsys, tmp_path / "none.onnx")


@pytest.mark.parametrize(
    ("arguments", "meaning"),
    [
        (["--set", "head=fastest_det"], "--set head: there is no head 'fastest_det' for detect; did you mean"),
        (["--set", "labels=[a, b, c]"], "--set labels: the model has 2 classes, 3 labels are given"),
        (["--set", "confidense=1"], "--set confidense: there is no such option"),
        (["--set", "head"], "write KEY=VALUE"),
        (["--set", "size=[64, 64]"], "--set size: the model takes images of 32x32 only"),
        (["--output", "a.jpg"], "give --image"),
    ],
)
def test_a_wrong_option_is_one_error(model: Path, capsys: Capture, arguments: list[str], meaning: str) -> None:
    assert meaning in error(capsys, model, *arguments)


def test_an_image_of_another_kind_than_jpeg_is_refused(model: Path, photo: Path, capsys: Capture) -> None:
    assert "must end in .jpg or .jpeg" in error(capsys, model, "--image", photo, "--output", "a.png")


def test_a_wrong_address_is_one_error(capsys: Capture) -> None:
    assert "grpc://HOST:PORT/NAME" in error(capsys, "ftp://host/model")
