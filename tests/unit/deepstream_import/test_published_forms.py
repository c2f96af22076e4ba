"""Published configurations: other forms of files, sections of sample applications, keys that depend on others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sightline.errors import ConfigurationError
from sightline_plugins.deepstream_import.application import import_deepstream
from sightline_plugins.deepstream_import.plan import Import
from sightline_plugins.infer.detect import Detect

MODEL = "[property]\nonnx-file=a.onnx\ncluster-mode=2\n"
SERVED = """
infer_config {
  unique_id: 3
  backend { triton { model_name: "street" model_repo { root: "repository" } } }
  postprocess { labelfile_path: "labels.txt" detection {
    per_class_params { key: 0 value { pre_threshold: 0.4 } }
    per_class_params { key: 1 value { pre_threshold: 0.6 } }
    nms { confidence_threshold: 0.2 iou_threshold: 0.5 } } }
}
output_control { output_tensor_meta: false }
"""
SAMPLE = """
source-list: {list: "file:a.mp4;file:b.mp4"}
primary-gie: {config-file-path: pgie.txt, unique-id: 7}
secondary-gie0: {config-file-path: plates.txt, unique-id: 8, process-mode: 2}
analytics: {enable: 1, config-file: rules.txt}
msgconv: {payload-type: 1, frame-interval: 15}
msgbroker: {proto-lib: /lib/libnvds_kafka_proto.so, conn-str: localhost;9092, topic: found}
eglsink: {enable: 0}
output: {type: 1, enc: 1, bitrate: 4000000, filename: test}
"""
RULES = (
    "[property]\nconfig-width=100\nconfig-height=100\n"
    "[roi-filtering-stream-1]\nenable=1\nroi-Gate=0;0;50;0;50;50\nclass-id=-1\n"
)
BRANCHES = """
source0: {type: 3, uri: "file:a.mp4", num-sources: 3}
primary-gie0: {config-file: pgie.txt, gie-unique-id: 1}
primary-gie1: {config-file: pgie.txt, gie-unique-id: 2}
branch0: {pgie-id: 1, src-ids: 0;1;2}
branch1: {pgie-id: 2, src-ids: 1;2}
tracker0: {enable: 0, cfg-file-path: tracker.yml}
tracker1: {enable: 1, cfg-file-path: tracker.yml}
nvds-analytics1: {enable: 1, cfg-file-path: rules.txt}
secondary-gie1: {enable: 1, cfg-file-path: behind.yml}
meta-mux: {enable: 1, config-file: mux.txt}
"""
BEHIND = "secondary-gie0: {config-file: plates.txt, gie-unique-id: 30, operate-on-gie-id: 2}\n"
TRACKER = "tracker: {ll-lib-file: libnvds.so, ll-config-file: config_tracker_NvDCF_perf.yml}\n"


def imported(folder: Path, text: str, *, name: str = "app.txt", compat: bool = False) -> Import:
    """The import of a file with that text, beside the files that the others name."""
    files = {name: text, "rules.txt": RULES, "behind.yml": BEHIND, "tracker.yml": TRACKER}
    files |= {"pgie.txt": MODEL, "plates.txt": MODEL, "labels.txt": "car\nvan\n", name: text}
    for file, content in files.items():
        (folder / file).write_text(content)
    return import_deepstream(folder / name, folder=folder, compat=compat)


def steps(result: Import) -> list[tuple[str, Mapping[str, Any]]]:
    return [(step.element, step.options) for step in result.plan.steps()]


def unknown(result: Import) -> list[str]:
    return [f"{one.section}.{one.key}" for one in result.outcomes.found if one.outcome.name == "UNKNOWN"]


def outcome(result: Import, key: str) -> tuple[str, str]:
    found = next(one for one in result.outcomes.found if one.key == key)
    return found.outcome.name, found.text


def test_protobuf_text_is_read_whatever_the_name_of_its_file(tmp_path: Path) -> None:
    result = imported(tmp_path, SERVED, name="pgie.yml")
    (_, options), *_ = steps(result)

    assert outcome(result, "output_tensor_meta") == ("NO_EFFECT", "switched off")
    assert (options["id"], options["confidence"], options["iou"]) == ("gie-3", 0.2, 0.5)
    assert options["class_confidence"] == {"car": 0.4, "van": 0.6}


def test_sections_of_sample_applications_are_those_of_the_same_elements(tmp_path: Path) -> None:
    result = imported(tmp_path, SAMPLE, name="app.yml")
    by_name = dict(steps(result))

    assert unknown(result) == []
    assert [name for name, _ in steps(result)] == ["detect", "track", "detect", "zones", "kafka", "draw", "video"]
    assert [options["id"] for _, options in steps(result) if "id" in options] == ["gie-7", "gie-8"]
    assert by_name["zones"]["streams"] == ["source1"]
    assert (by_name["kafka"]["format"], by_name["kafka"]["max_rate"]) == ("deepstream_minimal", 2.0)
    assert by_name["video"] == {"path": "test-{stream}.mp4", "codec": "h265", "bitrate": "4M"}
    assert outcome(result, "filename")[0] == "TAKEN"


def test_a_branch_runs_its_model_on_its_streams_and_reads_its_files(tmp_path: Path) -> None:
    result = imported(tmp_path, BRANCHES, name="app.yml")
    (_, whole), (_, part), (_, track), (_, plates), *_ = steps(result)

    assert unknown(result) == []
    assert [name for name, _ in steps(result)][:5] == ["detect", "detect", "track", "detect", "zones"]
    assert "streams" not in whole
    assert part["streams"] == ["source0-1", "source0-2"]
    assert track["visual"] is True
    assert plates["on"] == {"from": "gie-2"}


def test_a_tracker_before_todays_is_read_alone(tmp_path: Path) -> None:
    text = "# ours\n%YAML:1.0\nNvDCF:\n  probationAge: 4\n  maxShadowTrackingAge: 15 # frames\n  filterLr: 0.1\n"
    result = imported(tmp_path, text, name="tracker.yml")

    assert unknown(result) == []
    assert steps(result)[0][1]["visual"] is True
    assert (steps(result)[0][1]["min_hits"], steps(result)[0][1]["max_lost"]) == (4, "500ms")
    assert result.outcomes.missing[0].startswith("no detector was found")


@pytest.mark.parametrize(
    ("file", "options", "with_compat"),
    [
        ("config_tracker_NvDCF_accuracy.yml", {"visual": True}, {}),
        ("config_tracker_NvSORT.yml", {"algorithm": "bytetrack"}, {"matching": "cascaded"}),
        ("config_tracker_NvDeepSORT.yml", {}, {}),
        ("config_tracker_IOU.yml", {"algorithm": "iou"}, {"motion": "none"}),
    ],
)
def test_a_file_of_deepstream_that_is_missing_is_known_by_its_name(
    tmp_path: Path, file: str, options: dict[str, Any], with_compat: dict[str, Any]
) -> None:
    text = f"[source0]\nuri=file:a.mp4\n[tracker]\nll-lib-file=libnvds_nvmultiobjecttracker.so\nll-config-file={file}\n"

    assert steps(imported(tmp_path, text))[0] == ("track", options)
    assert steps(imported(tmp_path, text, compat=True))[0] == ("track", {"algorithm": "deepstream", **with_compat})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[property]\ntarget-unique-ids=1\nprocessing-width=640\n", "nvdspreprocess"),
        ("[property]\nactive-pad=sink_0\n", "nvdsmetamux"),
        ("[message-broker]\nshare-connection=1\n", "a broker"),
        ("[sensor0]\nid=CAMERA\n[place0]\nid=1\n", "nvmsgconv"),
    ],
)
def test_a_part_of_a_configuration_says_what_it_is(tmp_path: Path, text: str, kind: str) -> None:
    with pytest.raises(ConfigurationError, match=f"is a file of {kind}, which is read with the configuration"):
        imported(tmp_path, text)


@pytest.mark.parametrize(
    ("keys", "key", "expected"),
    [
        ("onnx-file=b.onnx\nuff-input-blob-name=input_1\n", "uff-input-blob-name", "NO_EFFECT"),
        ("network-type=0 # a detector\n", "network-type", "TAKEN"),
        ("infer-dims=3;288;512 # c;h;w\n", "infer-dims", "TAKEN"),
        ("cluster-mode=2\n[class-attrs-all]\neps=0.7\n", "eps", "NO_EFFECT"),
        ("cluster-mode=1\n[class-attrs-all]\neps=0.7\n", "eps", "IMPOSSIBLE"),
        ("cluster-mode=4\n[class-attrs-all]\nnms-iou-threshold=0.4\n", "nms-iou-threshold", "NO_EFFECT"),
        ("cluster-mode=3\n[class-attrs-all]\nnms-iou-threshold=0.4\n", "nms-iou-threshold", "TAKEN"),
        ("cluster-mode=2\n[class-attrs-all]\ntopk=20\n", "topk", "TAKEN"),
    ],
)
def test_what_becomes_of_a_key_depends_on_others(tmp_path: Path, keys: str, key: str, expected: str) -> None:
    assert outcome(imported(tmp_path, f"[property]\nonnx-file=a.onnx\n{keys}"), key)[0] == expected


def test_sizes_and_numbers_of_boxes_are_those_of_each_class(tmp_path: Path) -> None:
    keys = """
[class-attrs-all]
topk=20
detected-min-w=8
detected-max-h=0
[class-attrs-0]
detected-min-h=16
detected-max-w=300
[class-attrs-1]
topk=-1
detected-min-w=0
"""
    result = imported(tmp_path, f"[property]\nonnx-file=a.onnx\ncluster-mode=2\nlabelfile-path=labels.txt\n{keys}")
    (_, options), *_ = steps(result)

    assert (options["min_size"], options["max_per_class"], "max_size" in options) == ([8, 1], 20, False)
    assert options["class_limits"] == {
        "car": {"min_size": [8, 16], "max_size": [300, 65_536]},
        "van": {"min_size": [1, 1], "max_detections": 10_000},
    }
    assert outcome(result, "detected-max-w")[0] == "TAKEN"
    Detect.model_validate({**options, "labels": ["car", "van"]})


@pytest.mark.parametrize(("mode", "iou"), [("", 0.45), ("cluster-mode=1", 0.45), ("cluster-mode=3", 0.3)])
def test_grouped_boxes_are_suppressed_whichever_head_reads_them(tmp_path: Path, mode: str, iou: float) -> None:
    assert steps(imported(tmp_path, f"[property]\nonnx-file=a.onnx\n{mode}\n"))[0][1]["iou"] == iou


@pytest.mark.parametrize(
    ("key", "model"),
    [
        ("tlt-encoded-model=nets/unetres18_v4_pruned0.65.etlt", "nets/unetres18_v4_pruned0.65.onnx"),
        ("model-engine-file=resnet18.v2.onnx_b4_gpu0_fp16.engine", "resnet18.v2.onnx"),
        ("model-engine-file=model.v2_b1_gpu0_fp32.engine", "model.v2.onnx"),
    ],
)
def test_the_onnx_file_belongs_where_the_other_one_was(tmp_path: Path, key: str, model: str) -> None:
    assert steps(imported(tmp_path, f"[property]\n{key}\n"))[0][1]["model"] == model


def test_rules_alone_are_about_as_many_streams_as_they_name(tmp_path: Path) -> None:
    result = imported(tmp_path, RULES)

    assert list(result.plan.sources) == ["source0", "source1"]
    assert dict(steps(result))["zones"]["streams"] == ["source1"]


def test_a_wall_without_room_for_all_streams_gets_a_grid_that_has(tmp_path: Path) -> None:
    wall = "[tiled-display]\nrows=1\ncolumns=1\n[sink0]\ntype=3\n"
    result = imported(tmp_path, f"[source0]\ntype=3\nuri=file:a.mp4\nnum-sources=2\n{wall}")

    assert "rows" not in dict(steps(result))["tile"]
    assert outcome(result, "rows")[0] == "DIFFERENT"


@pytest.mark.parametrize(
    ("key", "without", "with_compat"),
    [
        ("interval", ("DIFFERENT", "counted in frames of each stream"), ("TAKEN", "counted in batches")),
        ("crop-objects-to-roi-boundary", ("DIFFERENT", "drops those that reach below it"), None),
        ("scaling-filter", ("DIFFERENT", "bilinear"), ("TAKEN", "`resize: nearest`")),
    ],
)
def test_the_report_says_where_results_differ_without_compat(
    tmp_path: Path, key: str, without: tuple[str, str], with_compat: tuple[str, str] | None
) -> None:
    text = "[property]\nonnx-file=a.onnx\ninterval=3\n"
    plain, compat = (imported(tmp_path, text, compat=one) for one in (False, True))

    name, said = outcome(plain, key)
    assert (name, without[1] in said) == (without[0], True)
    found = [(one.outcome.name, one.text) for one in compat.outcomes.found if one.key == key]
    assert [(name, with_compat is not None and with_compat[1] in said) for name, said in found] == (
        [] if with_compat is None else [(with_compat[0], True)]
    )
    assert (steps(compat)[0][1]["compat"], steps(compat)[0][1]["every"]) == ("deepstream", 4)


@pytest.mark.parametrize(("shape", "head"), [((1, 3549, 6), "end_to_end"), ((1, 84, 3549), None), (None, "end_to_end")])
def test_exports_of_deepstream_yolo_are_rows_of_boxes_that_are_suppressed(
    tmp_path: Path, shape: tuple[int, ...] | None, head: str | None
) -> None:
    if shape is not None:
        save_without_nodes(tmp_path / "a.onnx", shape)
    result = imported(tmp_path, f"{MODEL}parse-bbox-func-name=NvDsInferParseYolo\n")

    assert (steps(result)[0][1].get("head"), steps(result)[0][1]["iou"]) == (head, 0.3)


def save_without_nodes(path: Path, shape: tuple[int, ...]) -> None:
    """Write a model that gives a constant of that shape, whatever it sees."""
    value = numpy_helper.from_array(np.zeros(shape, np.float32), "found")
    image, found = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, size)
        for name, size in (("images", [1, 3, 416, 416]), ("output", list(shape)))
    )
    node = helper.make_node("Identity", ["found"], ["output"])
    onnx.save(helper.make_model(helper.make_graph([node], "constant", [image], [found], [value])), path)


def test_with_compat_targets_live_in_frames(tmp_path: Path) -> None:
    text = (
        "BaseConfig: {minDetectorConfidence: 0.1}\n"
        "TargetManagement: {probationAge: 2, maxShadowTrackingAge: 42, earlyTerminationAge: 1, "
        "minIouDiff4NewTarget: 0.6}\n"
        "DataAssociator: {associationMatcherType: 1, checkClassMatch: 0}\n"
    )
    result = imported(tmp_path, text, name="tracker.yml", compat=True)

    assert steps(result)[0] == (
        "track",
        {
            "algorithm": "deepstream",
            "probation_age": 2,
            "early_termination_age": 1,
            "max_shadow_age": 42,
            "low_confidence": 0.1,
            "new_target_iou": 0.6,
            "matching": "cascaded",
            "same_class": False,
            "motion": "none",
        },
    )
    assert {one.outcome.name for one in result.outcomes.found} == {"TAKEN"}


def test_what_is_known_of_cameras_goes_into_messages(tmp_path: Path) -> None:
    (tmp_path / "sensors.yml").write_text(
        "sensor0: {enable: 1, type: Camera, id: CAM_1, location: 45.29;-75.83;48.1, coordinate: 5.2;10.1}\n"
        "place0: {enable: 1, id: 1, name: Yard, place-sub-field1: lane}\n"
        "analytics0: {enable: 0, id: COUNT}\n"
        "sensor4: {id: CAM_5}\n"
    )
    sink = "[sink0]\ntype=6\nmsg-broker-proto-lib=libnvds_kafka_proto.so\nmsg-broker-conn-str=localhost;9092\n"
    result = imported(tmp_path, f"[source0]\nuri=file:a.mp4\n{sink}msg-conv-config=sensors.yml\n")

    assert dict(steps(result))["kafka"]["sensors"] == {
        "source0": {
            "id": "CAM_1",
            "type": "Camera",
            "location": [45.29, -75.83, 48.1],
            "place": {"id": "1", "name": "Yard"},
        }
    }
    found = {(one.section, one.key): one.outcome.name for one in result.outcomes.found}
    assert found["sensor0", "coordinate"] == found["place0", "place-sub-field1"] == "IMPOSSIBLE"
    assert found["sensor4", "id"] == found["analytics0", "id"] == "NO_EFFECT"


def test_a_table_of_sensors_is_explained(tmp_path: Path) -> None:
    sink = "[sink0]\ntype=6\nmsg-broker-proto-lib=libnvds_mqtt_proto.so\nmsg-broker-conn-str=localhost;1883\n"
    result = imported(tmp_path, f"[source0]\nuri=file:a.mp4\n{sink}msg-conv-config=sensors.csv\n")

    assert outcome(result, "msg-conv-config")[0] == "IMPOSSIBLE"
