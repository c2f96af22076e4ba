"""`sightline models add` and what comes after it: a model is in the store and runs, or one error and nothing."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest

from sightline import Pipeline
from sightline.cli.main import execute
from sightline.errors import ConfigurationError
from sightline_plugins import Detect, SearchIndex
from sightline_plugins.search import TrackSearch
from sightline_plugins.store import Store

STREET = "models/street.onnx"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path / "store"))
    return Store()


def models(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Call `sightline models` in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = execute(["models", *map(str, arguments)])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def refusal(store: Store, *arguments: str | Path) -> str:
    """The one line of an error; nothing may be in the store then."""
    done = models("add", *arguments)
    assert done.returncode in (1, 2), done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert store.names() == ()
    adding = store.folder / ".adding"
    assert not adding.exists() or list(adding.iterdir()) == []
    assert ".adding" not in line
    return line


def test_an_added_model_runs_by_its_name(store: Store, repository: Path) -> None:
    added = models("add", repository / STREET, "--name", "street", "--version", "1.2")
    step = Detect(model="store:street")
    frame = next(iter(Pipeline(sources={"street": str(repository / "sample_videos/street.mp4")}, steps=[step])))

    assert added.returncode == 0, added.stderr
    assert "licence   Apache-2.0" in added.stdout
    assert "use it with `detect: {model: store:street@1.2}`" in added.stdout
    assert step.model == store.folder / "street" / "1.2" / "street.onnx"
    assert len(frame.objects) > 0


def test_what_the_store_has_is_listed_shown_verified_and_removed(store: Store, repository: Path) -> None:
    models("add", repository / STREET)
    listed = json.loads(models("list", "--json").stdout)
    shown = models("show", "store:street")
    shown_as_json = json.loads(models("show", "store:street", "--json").stdout)
    verified = models("verify")
    store.find("street").model.write_bytes(b"x")
    damaged = models("verify", "street@1")
    removed = models("remove", "street")

    assert [(one["name"], one["version"], one["classes"]) for one in listed["store"]] == [("street", "1", 6)]
    assert "- detect: {model: store:street@1}" in shown.stdout.replace("'", "")
    assert shown_as_json["stored"]["version"] == "1"
    assert (verified.returncode, verified.stdout) == (0, "store:street@1: whole\n")
    assert damaged.returncode == 1
    assert "street.onnx has 1 bytes" in damaged.stdout
    assert removed.stdout == "removed store:street@1\n"
    assert store.names() == ()


def test_a_model_that_was_changed_in_the_store_is_no_model(store: Store, repository: Path, tmp_path: Path) -> None:
    models("add", repository / STREET)
    (tmp_path / "p.yaml").write_text("sources: {a: {pattern: bars}}\npipeline: [{detect: {model: 'store:street'}}]\n")
    card = store.find("street").model.with_suffix(".yaml")
    card.write_text(card.read_text().replace("confidence: 0.3", "confidence: 0.9"))

    out = StringIO()
    with redirect_stderr(out), redirect_stdout(out):
        code = execute(["check", str(tmp_path / "p.yaml")])

    assert code == 2
    assert "p.yaml:2:29: pipeline.0.detect.model: store:street@1 is damaged: street.yaml has SHA-256" in out.getvalue()


def test_the_report_has_version_and_licence(store: Store, repository: Path, tmp_path: Path) -> None:
    models("add", repository / STREET, "--licence", "of my own")
    step = Detect(model="store:street", precision="fp32")

    report = Pipeline(sources={"bars": {"pattern": "bars", "frames": 1}}, steps=[step]).run()

    totals = report.to_json()["totals"]["detect-1"]
    assert (totals["stored"], totals["licence"]) == ("store:street@1", "of my own")


def test_new_writes_a_pipeline_with_a_model_of_the_store(store: Store, repository: Path, tmp_path: Path) -> None:
    models("add", repository / STREET)
    clip, file = repository / "sample_videos/street.mp4", tmp_path / "mine.yaml"
    wishes = ["--find", "van", "--want", "counts", "--model", "store:street", "-o", str(file)]
    out = StringIO()
    with redirect_stderr(out), redirect_stdout(out):
        code = execute(["new", str(clip), *wishes])
        wrong = execute(["new", str(clip), "--overwrite", *wishes[:1], "plane", *wishes[2:]])

    assert code == 0, out.getvalue()
    assert "model: store:street\n" in file.read_text()
    assert "models pull" not in file.read_text() + out.getvalue()
    assert wrong == 2
    assert "store:street is not a model that finds 'plane'" in out.getvalue()


def test_two_processes_at_once_add_one_version_each(store: Store, repository: Path) -> None:
    command = [sys.executable, "-m", "sightline.cli.main", "models", "add", str(repository / STREET), "--name", "both"]

    def add(confidence: str) -> subprocess.CompletedProcess[str]:
        own = [*command, "--set", f"confidence={confidence}"]
        return subprocess.run(own, env=dict(os.environ), capture_output=True, text=True, timeout=300, check=False)

    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(add, ("0.3", "0.4")))

    assert [one.returncode for one in done] == [0, 0], done
    assert store.versions("both") == ("1", "2")
    assert [store.find(f"both@{version}").damage for version in ("1", "2")] == [None, None]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("labels=[car, van]", "the model has 6 classes, 2 labels are given"),
        ("task=classify", "is made for 'detect' according to its metadata"),
        ("head=yolox", "the model has 3019 classes"),
        ("head=yolv8", "did you mean 'yolov8'?"),
        ("input={size: [640, 640]}", "takes images of 512x288 only, not 640x640"),
        ("input={layout: nhwc}", "its card says layout nhwc, and its input is nchw"),
        ("input={dtype: uint8}", "its card says dtype uint8"),
        ("input={color: gray}", "color cannot be 'gray'"),
        ("class_confidence={lorry: 0.5}", "there is no class 'lorry'"),
        ("colour=red", "colour"),
    ],
)
def test_a_card_that_is_not_true_is_refused(store: Store, repository: Path, setting: str, message: str) -> None:
    assert message in refusal(store, repository / STREET, "--set", setting)


def test_a_torn_file_and_another_one_are_refused(store: Store, repository: Path, tmp_path: Path) -> None:
    content = (repository / STREET).read_bytes()
    torn = tmp_path / "torn.onnx"
    torn.write_bytes(content[: len(content) // 2])

    assert "or only a part of one" in refusal(store, torn)
    assert "is another file than --sha256 names" in refusal(store, repository / STREET, "--sha256", "a" * 64)
    assert "give the 64 hexadecimal digits" in refusal(store, repository / STREET, "--sha256", "abc")


def test_labels_that_only_the_outputs_belie_are_refused(store: Store, tmp_path: Path) -> None:
    """A model that ends in boxes does not say in its shapes how many classes it has."""
    rows = onnx.numpy_helper.from_array(np.array([[[1, 1, 50, 50, 0.9, 3]]], np.float32), "rows")
    image = onnx.helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, (1, 3, 64, 64))
    output = onnx.helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, (1, 1, 6))
    nodes = [
        onnx.helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0),
        onnx.helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        onnx.helper.make_node("Add", ["rows", "nothing"], ["output"]),
    ]
    zero = onnx.numpy_helper.from_array(np.float32(0), "zero")
    graph = onnx.helper.make_graph(nodes, "boxes", [image], [output], [rows, zero])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "boxes.onnx")

    message = refusal(store, tmp_path / "boxes.onnx", "--set", "labels=[a, b]")

    assert "its outputs name class 3, and there are 2 labels (0 to 1)" in message
    assert models("add", tmp_path / "boxes.onnx", "--set", "labels=[a, b, c, d]").returncode == 0


def test_a_full_disk_is_one_error_and_nothing_is_there(
    tmpfs: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmpfs / "store"))

    assert "disk is full" in refusal(Store(), repository / STREET).lower()


def test_a_file_that_may_not_grow_is_one_error(store: Store, repository: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        message = refusal(store, repository / STREET)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert "cannot write" in message


def test_weights_in_files_of_their_own_come_along(store: Store, repository: Path, tmp_path: Path) -> None:
    model = onnx.load(repository / STREET)
    onnx.save(model, tmp_path / "apart.onnx", save_as_external_data=True, location="apart.data", size_threshold=1000)

    added = models("add", tmp_path / "apart.onnx", "--name", "apart")
    (tmp_path / "apart.data").unlink()

    assert added.returncode == 0, added.stderr
    assert sorted(store.find("apart").record.files) == ["apart.data", "apart.onnx", "apart.yaml"]
    assert models("verify", "--run").returncode == 0


def test_a_pair_of_encoders_is_used_by_its_name(store: Store, repository: Path, tmp_path: Path) -> None:
    added = models("add", repository / "models" / "search", "--name", "words", "--licence", "Apache-2.0")
    again = models("add", repository / "models" / "search", "--name", "words", "--licence", "Apache-2.0")
    street = repository / "sample_videos" / "street.mp4"
    detect = {"detect": {"model": str(repository / STREET)}}
    keep = {"search_index": {"path": "tracks.db", "encoder": "store:words@1", "least": "0s"}}
    Pipeline(sources={"street": str(street)}, steps=[detect, "track", keep], outputs=tmp_path).run(frames=30)

    assert added.returncode == 0, added.stderr
    assert "use it with `search_index: {encoder: store:words@1}`" in added.stdout
    assert "images and texts become vectors of 64 numbers" in added.stdout
    assert "was there: the same files" in again.stdout
    with TrackSearch(tmp_path / "tracks.db", encoder="store:words") as index:
        assert index.search("red car", count=1).tracks
    with pytest.raises(ConfigurationError, match="words@1 is a pair of encoders: it is used with"):
        Detect(model="store:words")
    models("add", repository / STREET)
    with pytest.raises(ConfigurationError, match="street@1 is no pair of encoders: it is used with `detect"):
        SearchIndex(path="tracks.db", encoder="store:street")
    assert models("verify", "words").returncode == 0


def test_what_is_no_pair_is_refused(store: Store, repository: Path, tmp_path: Path) -> None:
    pair = tmp_path / "pair"
    shutil.copytree(repository / "models" / "search", pair)
    assert "--set is for keys of a card" in refusal(store, pair, "--set", "head=yolox")
    assert "is another file than --sha256 names" in refusal(store, pair, "--sha256", "0" * 64)
    text = onnx.load(pair / "text_model.onnx")
    text.graph.node.append(onnx.helper.make_node("Concat", ["text_embeds"] * 2, ["pooler_output"], axis=1))
    longer = onnx.helper.make_tensor_value_info("pooler_output", onnx.TensorProto.FLOAT, (None, 128))
    text.graph.output[0].CopyFrom(longer)
    onnx.save(text, pair / "text_model.onnx")
    assert f"{pair} is no pair: images become vectors of 64 numbers, and texts of 128" in refusal(store, pair)
    (pair / "tokenizer.json").unlink()
    assert "lacks tokenizer.json" in refusal(store, pair)
