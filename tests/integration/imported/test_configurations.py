"""Configurations of DeepStream become pipelines that are right, or of which is reported exactly what is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sightline.config import InvalidConfiguration, load_description
from tests.command_line import called
from tests.integration.imported.places import CONFIGURATIONS, LABELS, prepared

_SECRETS = ("s3cret", "hunter2", "guest", "nvidia_tlt")
_ENVIRONMENT = {"SOURCE0_PASSWORD": "sesame", "AMQP_USER": "me", "AMQP_PASSWORD": "sesame"}
_ALL = (
    *("cameras_to_kafka/app.txt", "four_files/app.txt", "from_a_forum/app.txt", "in_yaml/app.yml"),
    *("list_to_mqtt/app.yml", "one_model/config_infer_primary.txt", "regions/app.txt", "rules/app.txt"),
    *("service_maker/app.yaml", "thirty_files/app.txt", "triton/app.txt", "usb_camera/app.txt", "yolo/app.txt"),
)
_MISTAKES: Mapping[str, tuple[str, ...]] = {
    "cameras_to_kafka": ("sightline[kafka]", "sightline[amqp]"),
    "from_a_forum": ("caf", "trafficcamnet.onnx"),
    "in_yaml": ("osnet.onnx", "the tracker compares embeddings"),
    "list_to_mqtt": ("sightline[mqtt]",),
    "one_model": ("video.mp4",),
    "triton": ("triton.example.com", "sightline[triton]"),
    "usb_camera": ("resnet10.onnx", "/dev/video2"),
}
"""What `check` may say is missing: what is not there, and clients of brokers that are not installed."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    return prepared(tmp_path_factory.mktemp("deepstream"), repository)


def imported(world: Path, config: str, *options: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The pipeline that a configuration becomes, as plain data, and its report."""
    name = Path(config).parent.name + "".join(options)
    arguments = ("-o", f"{name}.yaml", "--report", f"{name}.json", "--overwrite", *options)
    result = called("import", "deepstream", config, *arguments, folder=world)
    assert result.returncode == 0, result.stderr
    pipeline = YAML(typ="safe", pure=True).load((world / f"{name}.yaml").read_text())
    return pipeline, json.loads((world / f"{name}.json").read_text())


def steps(pipeline: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(one, {}) if isinstance(one, str) else next(iter(one.items())) for one in pipeline["pipeline"]]


def options_of(pipeline: Mapping[str, Any], element: str) -> Mapping[str, Any]:
    return next(options for name, options in steps(pipeline) if name == element)


def test_no_configuration_is_left_out() -> None:
    assert {Path(one).parent.name for one in _ALL} == {path.name for path in CONFIGURATIONS.iterdir()}


@pytest.mark.parametrize("config", _ALL)
def test_a_configuration_becomes_a_pipeline_and_every_key_is_explained(
    world: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in _ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    folder = Path(config).parent.name

    _, report = imported(world, config)

    for file in {one["file"] for one in report["keys"]}:
        lines = (world / file).read_bytes().splitlines()
        explained = {one["line"] for one in report["keys"] if one["file"] == file}
        given = {number for number, line in enumerate(lines, 1) if _has_key(file, line)}
        assert given <= explained, (file, sorted(given - explained))
    mistakes = mistakes_of(world / f"{folder}.yaml")
    assert [one for one in mistakes if not any(text in one for text in _MISTAKES.get(folder, ()))] == []


def mistakes_of(pipeline: Path) -> list[str]:
    """What `sightline check` says of a pipeline."""
    try:
        load_description(pipeline)
    except InvalidConfiguration as error:
        return [str(one) for one in error.problems]
    return []


def _has_key(file: str, line: bytes) -> bool:
    """Whether a line of a key file holds a key; the other forms are not looked at line by line."""
    return file.endswith(".txt") and b"=" in line and not line.strip().startswith(b"#")


def test_no_secret_is_written_anywhere(world: Path) -> None:
    for config in ("cameras_to_kafka/app.txt", "from_a_forum/app.txt"):
        result = called("import", "deepstream", config, "--report", "secrets.md", "--overwrite", folder=world)
        text = result.stdout + result.stderr + (world / "secrets.md").read_text()

        assert [word for word in _SECRETS if word in text] == []


def test_sources_models_and_tracker_are_taken_over(world: Path) -> None:
    pipeline, _ = imported(world, "four_files/app.txt")

    assert list(pipeline["sources"]) == [f"source0-{number}" for number in range(4)]
    assert pipeline["batch"] == {"size": 4, "timeout": "40ms"}
    assert [name for name, _ in steps(pipeline)] == ["detect", "kitti", "track", "classify", "kitti", "draw", "tile"]
    detect = options_of(pipeline, "detect")
    assert (detect["every"], detect["confidence"], detect["class_confidence"], detect["iou"]) == (
        3,
        0.3,
        {"person": 0.6},
        0.5,
    )
    assert options_of(pipeline, "classify")["on"] == {"from": "gie-1", "label": ["car", "van"], "min_size": [32, 32]}
    assert options_of(pipeline, "track")["visual"] is True
    assert options_of(pipeline, "tile")["video"] == {"path": "wall.mp4", "bitrate": "2M"}


def test_a_classifier_with_several_outputs_has_an_attribute_for_each(world: Path) -> None:
    pipeline, _ = imported(world, "four_files/app.txt")

    attributes = options_of(pipeline, "classify")["attributes"]

    assert list(attributes) == ["vehicle-1", "vehicle-2"]
    assert attributes["vehicle-2"] == ["sedan", "suv", "van", "truck"]


def test_models_go_into_the_store_with_their_cards(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path))

    pipeline, _ = imported(world, "four_files/app.txt", "--store")

    assert options_of(pipeline, "detect") == {"id": "gie-1", "model": "store:street@1", "every": 3}
    card = YAML(typ="safe", pure=True).load((tmp_path / "street" / "1" / "street.yaml").read_text())
    assert (card["confidence"], card["input"]["scale"], card["labels"]) == (0.3, [255.0], list(LABELS))
    assert mistakes_of(world / "four_files--store.yaml") == []


@pytest.mark.parametrize("options", [(), ("--store",)])
def test_thresholds_of_the_file_go_before_a_card_beside_the_model(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], repository: Path
) -> None:
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path / "store"))
    folder = world / f"carded{len(options)}"
    folder.mkdir()
    for suffix in ("onnx", "yaml"):
        (folder / f"street.{suffix}").symlink_to(repository / "models" / f"street.{suffix}")
    thresholds = "[class-attrs-all]\npre-cluster-threshold=0.4\nnms-iou-threshold=0.5\n[class-attrs-2]\nthreshold=0.7\n"
    (folder / "app.txt").write_text(
        "[property]\nonnx-file=street.onnx\nlabelfile-path=../labels.txt\ncluster-mode=2\n" + thresholds
    )

    pipeline, _ = imported(world, f"{folder.name}/app.txt", *options)

    detect = options_of(pipeline, "detect")
    given = {"confidence": 0.4, "class_confidence": {"car": 0.7}, "iou": 0.5}
    assert {key: detect[key] for key in given} == given
    assert "color" not in detect, "the card has it"


def test_two_models_with_one_id_are_two_steps(world: Path) -> None:
    models = {"primary-gie": "detector.txt", "secondary-gie0": "colours.txt"}
    text = "".join(f"[{name}]\nconfig-file=../four_files/{file}\n" for name, file in models.items())
    (world / "rules" / "twice.txt").write_text(f"[source0]\nuri=file:a.mp4\n{text}")

    pipeline, _ = imported(world, "rules/twice.txt")

    assert [options["id"] for name, options in steps(pipeline) if "id" in options] == ["gie-1", "gie-1-2"]


def test_messages_go_to_the_same_brokers(world: Path) -> None:
    pipeline, _ = imported(world, "cameras_to_kafka/app.txt")
    kafka, amqp = options_of(pipeline, "kafka"), options_of(pipeline, "amqp")

    assert (kafka["url"], kafka["topic"], kafka["format"], kafka["send"], kafka["max_rate"]) == (
        "kafka://127.0.0.1:9092",
        "detections",
        "deepstream",
        ["objects"],
        1.0,
    )
    assert kafka["options"] == {"linger.ms": "20"}
    assert amqp["url"] == "amqp://${AMQP_USER}:${AMQP_PASSWORD}@127.0.0.1:5672"
    assert (amqp["format"], amqp["max_rate"]) == ("deepstream_minimal", 3.0)
    assert pipeline["sources"]["source0"]["uri"].startswith("rtsp://operator:${SOURCE0_PASSWORD}@")


def test_rules_are_in_fractions_and_in_goes_along_the_arrow(world: Path) -> None:
    pipeline, report = imported(world, "rules/app.txt")
    lines = options_of(pipeline, "lines")

    assert lines["Down"] == {"from": [0.0, 0.55556], "to": [1.0, 0.55556], "classes": ["car", "van"]}
    assert (lines["Up"]["from"], lines["Up"]["to"]) == (lines["Down"]["to"], lines["Down"]["from"])
    assert options_of(pipeline, "crowd")["Square"]["at_least"] == 2
    elsewhere = next(one for one in report["keys"] if one["key"] == "line-crossing-Elsewhere")
    assert (elsewhere["outcome"], elsewhere["text"]) == ("no_effect", "there is no stream 3: the configuration has 1")


def test_compat_counts_as_deepstream_does(world: Path) -> None:
    pipeline, report = imported(world, "rules/app.txt", "--compat")
    lines = options_of(pipeline, "lines")

    assert (lines["compat"], lines["window"]) == ("deepstream", 500)
    assert lines["Down"]["arrow"] == [[0.5, 0.27778], [0.5, 0.83333]]
    assert (lines["Down"]["mode"], lines["Down"]["extended"]) == ("balanced", True)
    assert [name for name, _ in steps(pipeline)][2:] == ["zones", "zones", "lines", "direction", "stopped", "jsonl"]
    assert {one["outcome"] for one in report["keys"] if one["key"].startswith("line-crossing-Down")} == {"taken"}
    load_description(world / "rules--compat.yaml")


def test_rules_alone_are_about_tracks_of_a_detector_that_is_missing(world: Path) -> None:
    pipeline, report = imported(world, "rules/analytics.txt")

    assert [name for name, _ in steps(pipeline)] == ["track", "zones", "crowd", "lines", "direction", "lines", "jsonl"]
    assert any(one.startswith("no detector was found") for one in report["missing"])


def test_regions_of_nvdspreprocess_are_those_of_the_model(world: Path) -> None:
    pipeline, _ = imported(world, "regions/app.txt")

    assert options_of(pipeline, "detect")["regions"] == {
        "source0": [[0.0, 0.5, 0.46875, 0.96296], [0.5, 0.0, 0.83333, 0.33333]],
        "source1": [[0.05208, 0.27778, 0.36458, 0.92593]],
    }


def test_an_imported_pipeline_runs(world: Path) -> None:
    imported(world, "rules/app.txt")

    result = called("run", "rules.yaml", "--frames", "40", folder=world)

    assert result.returncode == 0, result.stderr
    frames = [json.loads(line) for line in (world / "out" / "source0.jsonl").read_text().splitlines()]
    assert len(frames) == 40
    labels = {one["label"] for frame in frames for one in frame["objects"]}
    assert "car" in labels
    assert labels <= set(LABELS)
    assert any(one.get("track_id", -1) > 0 for one in frames[-1]["objects"])
