"""The step as a whole: what is in its folder, after a run, a restart, a kill, and on a full disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import cv2
import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.mask import area
from ruamel.yaml import YAML

from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Message, MessageKind, Outputs, Site
from sightline.media import Batch, Event, Objects, Origin
from sightline.media.frame import Altered
from sightline.media.shapes import Mask
from sightline.testing import run_element
from sightline.testing.run import site_for
from sightline_plugins import Harvest
from tests.disks import SmallDisk
from tests.unit.harvest.scenes import SIZE_WH, Box, at_time_of_day, batches, frame, objects

BOX: Box = (40, 60, 120, 140)


def drive(count: int = 8, *, confidence: float = 0.3, stream: str = "gate", shade: int = 0) -> list[Batch]:
    """An unsure object that moves, on frames three seconds apart."""
    return batches(
        (
            frame(n, stream=stream, seconds=3 * n, shade=shade),
            objects([(20 + 25 * n, 60, 90 + 25 * n, 140)], confidence=confidence),
        )
        for n in range(count)
    )


def harvest(given: Sequence[Batch], folder: Path, messages: list[Message] | None = None, **options: Any) -> None:
    element = Harvest.model_validate({"path": "out", "random": 0, "threshold": 0.3, **options})
    run_element(element, given, outputs=folder, messages=messages)


def records(folder: Path) -> list[dict[str, Any]]:
    """What `frames.jsonl` says, without its first line."""
    lines = (folder / "out" / "frames.jsonl").read_text().splitlines()
    assert lines[0].startswith('{"sightline_harvest":1')
    return [json.loads(line) for line in lines[1:]]


def images(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out" / "images").iterdir())


def test_a_frame_tells_its_reasons_its_objects_and_its_image(tmp_path: Path) -> None:
    sure = batches((frame(n, seconds=3 * n, shade=9), objects([BOX], confidence=0.9)) for n in range(3))
    unsure = batches([(frame(3, seconds=9, shade=1), objects([BOX], confidence=0.36))])

    harvest(sure + unsure, tmp_path)

    (record,) = records(tmp_path)
    assert (record["stream"], record["frame"], record["size"]) == ("gate", 3, list(SIZE_WH))
    about = {"label": "car", "confidence": 0.36, "objects": 1}
    assert record["reasons"] == [{"reason": "low_margin", "score": 0.3, "about": about}]
    assert record["objects"] == [{"label": "car", "class_id": 1, "confidence": 0.36, "box": list(BOX)}]
    assert images(tmp_path) == [record["image"]]
    image = cv2.imread(str(tmp_path / "out" / "images" / record["image"]))
    assert image is not None
    assert image.shape == (SIZE_WH[1], SIZE_WH[0], 3)
    np.testing.assert_allclose(image, next(iter(unsure[0])).rgb(), atol=16)


def test_coco_is_read_by_its_own_library(tmp_path: Path) -> None:
    given = drive(4)
    mask = Mask(20, 60, np.tri(80, 70, dtype=np.bool_))
    given[0] = given[0].with_objects(given[0].objects.with_columns(mask=np.array([mask])))
    harvest(given, tmp_path)

    coco = COCO(str(tmp_path / "out" / "annotations.json"))

    assert [one["name"] for one in coco.loadCats(coco.getCatIds())] == ["person", "car", "bus"]
    assert sorted(one["file_name"] for one in coco.loadImgs(coco.getImgIds())) == images(tmp_path)
    found = coco.loadAnns(coco.getAnnIds(catIds=coco.getCatIds(catNms=["car"])))
    assert [one["bbox"] for one in found] == [[20 + 25 * n, 60, 70, 80] for n in range(4)]
    assert [one["area"] for one in found] == [mask.area, 5600, 5600, 5600]
    assert area(coco.annToRLE(found[0])) == mask.area
    assert {one["reasons"][0]["reason"] for one in coco.loadImgs(coco.getImgIds())} == {"low_margin"}


def test_yolo_has_a_file_of_labels_for_each_image(tmp_path: Path) -> None:
    harvest(drive(4), tmp_path, format="yolo")

    data = YAML(typ="safe").load(tmp_path / "out" / "data.yaml")
    assert data == {"train": "images", "val": "images", "names": {0: "person", 1: "car", 2: "bus"}}
    texts = {path.stem: path.read_text() for path in (tmp_path / "out" / "labels").iterdir()}
    assert sorted(texts) == [Path(name).stem for name in images(tmp_path)]
    first = np.array(texts[sorted(texts)[0]].split(), np.float64)
    np.testing.assert_allclose(first, [1, 55 / 320, 100 / 240, 70 / 320, 80 / 240], atol=1e-6)


def test_label_studio_gets_tasks_with_predictions_in_percent(tmp_path: Path) -> None:
    harvest(drive(4), tmp_path, format="label_studio", image_url="s3://bucket/")

    tasks = json.loads((tmp_path / "out" / "tasks.json").read_text())
    assert sorted(task["data"]["image"] for task in tasks) == [f"s3://bucket/{name}" for name in images(tmp_path)]
    (result,) = tasks[0]["predictions"][0]["result"]
    assert result["value"] == {
        "x": 6.25,
        "y": 25,
        "width": 21.875,
        "height": 33.3333,
        "rotation": 0,
        "rectanglelabels": ["car"],
    }
    view = ET.parse(tmp_path / "out" / "label_config.xml").getroot()
    control, image = view.find("RectangleLabels"), view.find("Image")
    assert control is not None
    assert image is not None
    assert (result["from_name"], result["to_name"]) == (control.get("name"), image.get("name"))
    assert (control.get("toName"), image.get("value")) == (image.get("name"), "$image")
    assert [label.get("value") for label in control] == ["person", "car", "bus"]


def test_cvat_gets_images_with_boxes_of_labels_that_it_knows(tmp_path: Path) -> None:
    harvest(drive(4), tmp_path, format="cvat")

    root = ET.parse(tmp_path / "out" / "annotations.xml").getroot()
    assert root.findtext("version") == "1.1"
    assert [label.findtext("name") for label in root.findall("meta/task/labels/label")] == ["person", "car", "bus"]
    assert sorted(one.attrib["name"] for one in root.findall("image")) == images(tmp_path)
    (box,) = root.findall("image[1]/box")
    assert [float(box.attrib[key]) for key in ("xtl", "ytl", "xbr", "ybr")] == [20, 60, 90, 140]
    assert (box.attrib["label"], box.attrib["occluded"], box.attrib["z_order"]) == ("car", "0", "0")


def test_boxes_are_cut_to_the_image_in_every_format(tmp_path: Path) -> None:
    outside = batches([(frame(0), objects([(-10, 200, 50, 300), (400, 0, 500, 50)], confidence=0.3))])

    harvest(outside, tmp_path, format="yolo")

    (path,) = (tmp_path / "out" / "labels").iterdir()
    np.testing.assert_allclose(
        np.array(path.read_text().split(), float), [1, 25 / 320, 220 / 240, 50 / 320, 40 / 240], atol=1e-6
    )


def test_a_run_that_is_started_again_keeps_nothing_twice_and_goes_on(tmp_path: Path) -> None:
    harvest(drive(4), tmp_path)
    before = (tmp_path / "out" / "annotations.json").read_bytes()

    harvest(drive(4), tmp_path)
    assert (tmp_path / "out" / "annotations.json").read_bytes() == before

    harvest(drive(8), tmp_path)
    assert [one["frame"] for one in records(tmp_path)] == list(range(8))
    assert len(images(tmp_path)) == 8


def test_a_quota_goes_on_over_a_restart(tmp_path: Path) -> None:
    times = [(40, 0.34), (80, 0.36), (200, 0.32), (3700, 0.4)]
    given = batches(
        (at_time_of_day(frame(n, shade=n), 7200 + at), objects([BOX], confidence=confidence))
        for n, (at, confidence) in enumerate(times)
    )

    harvest(given[:2], tmp_path, quota=1, per="1h")
    harvest(given[2:], tmp_path, quota=1, per="1h")

    assert [one["image"] for one in records(tmp_path)] == [
        "gate-19700101T020320000.jpg",
        "gate-19700101T030140000.jpg",
    ]
    assert len(images(tmp_path)) == 2


def test_another_video_of_the_same_name_has_a_quota_of_its_own_and_replaces_nothing(tmp_path: Path) -> None:
    harvest(drive(3, confidence=0.4, shade=1), tmp_path, quota=3)
    harvest(drive(3, confidence=0.3, shade=2), tmp_path, quota=3)

    assert len(images(tmp_path)) == 6


def test_frames_that_show_the_same_are_kept_once(tmp_path: Path) -> None:
    still = batches((frame(n, seconds=3 * n), objects([BOX], confidence=0.3)) for n in range(5))

    harvest(still, tmp_path)

    assert len(images(tmp_path)) == 1


def test_images_that_were_replaced_are_gone_with_their_labels(tmp_path: Path) -> None:
    better = batches((frame(n, seconds=3 * n, shade=n), objects([BOX], confidence=0.4 - 0.02 * n)) for n in range(5))

    harvest(better, tmp_path, quota=1, format="yolo")

    (record,) = records(tmp_path)
    assert record["frame"] == 4
    assert images(tmp_path) == [record["image"]]
    assert len(list((tmp_path / "out" / "labels").iterdir())) == 1


def test_what_a_kill_has_left_is_taken_up_or_removed(tmp_path: Path) -> None:
    element = Harvest.model_validate({"path": "out", "random": 0, "threshold": 0.3})
    running = element.build(site_for("harvest", tmp_path / "running"))
    for batch in drive(3):
        running.process(batch)
    out = tmp_path / "out"
    shutil.copytree(tmp_path / "running" / "out", out)  # as the disk is when the process is killed
    running.close()
    stray = Outputs(tmp_path).open_lines(out / "images" / "gate-stray.jpg")
    stray.write(b"x")
    stray.close()
    (out / "images" / ".gate-half.jpg.part").write_bytes(b"x")
    (out / "images" / "own.jpg").write_bytes(b"somebody's")
    with (out / "frames.jsonl").open("ab") as file:
        file.write(b'{"stream":"gate","fra')

    harvest(drive(4), tmp_path)

    assert [one["frame"] for one in records(tmp_path)] == [0, 1, 2, 3]
    assert images(tmp_path) == sorted([*(one["image"] for one in records(tmp_path)), "own.jpg"])
    assert len(json.loads((out / "annotations.json").read_text())["images"]) == 4


def test_a_full_disk_is_reported_once_and_what_is_there_stays_whole(tmp_path: Path) -> None:
    class Clock:
        now_ns = 0

        def monotonic_ns(self) -> int:
            return self.now_ns

        def epoch_ns(self) -> int:
            return self.now_ns

    messages: list[Message] = []
    disk, clock = SmallDisk(tmp_path, capacity=12_000), Clock()
    site = Site(device=Device(), element_id="harvest-1", outputs=disk, clock=clock, post=messages.append)
    sink = Harvest.model_validate({"path": "out", "random": 0, "threshold": 0.3}).build(site)
    given = drive(8)
    for batch in given[:6]:
        clock.now_ns += 3_000_000_000
        sink.process(batch)
    assert [one.kind for one in messages] == [MessageKind.SINK_DEGRADED]
    assert "the disk is full" in messages[0].text

    disk.capacity = 10_000_000
    for batch in given[6:]:
        clock.now_ns += 3_000_000_000
        sink.process(batch)
    sink.close()

    assert [one.kind for one in messages] == [MessageKind.SINK_DEGRADED, MessageKind.SINK_RECOVERED]
    found = records(tmp_path)
    assert 2 < len(found) < 8
    assert images(tmp_path) == sorted(one["image"] for one in found)
    totals = sink.totals()["gate"]
    assert (totals["frames"], totals["kept"], totals["replaced"]) == (8, len(found), 0)
    assert totals["lost"] == {"the disk is full": 8 - len(found)}


def test_a_second_process_does_not_write_into_the_folder(tmp_path: Path) -> None:
    element = Harvest.model_validate({"path": "out", "random": 0, "threshold": 0.3})
    first, messages = element.build(site_for("harvest", tmp_path)), list[Message]()
    first.process(drive(1)[0])

    harvest(drive(4), tmp_path, messages)
    first.close()

    (message,) = messages
    assert "another process harvests into it" in message.text
    assert len(records(tmp_path)) == 1


def test_a_folder_with_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "frames.jsonl").write_text('{"mine": true}\n')
    messages: list[Message] = []

    harvest(drive(4), tmp_path, messages)

    assert "name another folder" in messages[0].text
    assert (tmp_path / "out" / "frames.jsonl").read_text() == '{"mine": true}\n'


def test_a_list_that_names_files_elsewhere_is_refused(tmp_path: Path) -> None:
    harvest(drive(1), tmp_path)
    path = tmp_path / "out" / "frames.jsonl"
    path.write_text(path.read_text().replace('"image":"gate', '"image":"../gate'))
    messages: list[Message] = []

    harvest(drive(4), tmp_path, messages)

    assert "is no name of an image" in messages[0].text


def test_random_frames_are_a_share_of_the_quota(tmp_path: Path) -> None:
    sure = batches((frame(n, seconds=3 * n, shade=n), objects([BOX])) for n in range(60))

    harvest(sure, tmp_path, quota=10, random=0.5)

    assert [one["reasons"][0]["reason"] for one in records(tmp_path)] == ["random"] * 5
    assert max(one["frame"] for one in records(tmp_path)) > 20


def test_events_count_on_frames_without_a_detector_and_nothing_else_does(tmp_path: Path) -> None:
    given = [batch.with_detection(set()) for batch in drive(4)]
    given[2] = given[2].with_events([Event("line", "gate", 0, {"direction": "out"}, "lines-1")])

    harvest(given, tmp_path, random=0.5, on="lines.gate.out")

    (record,) = records(tmp_path)
    assert record["frame"] == 2
    assert record["reasons"] == [{"reason": "event", "score": 1.0, "about": {"rule": "gate", "kind": "line"}}]


def test_detectors_are_compared_and_the_first_gives_the_labels(tmp_path: Path) -> None:
    second, aside = Origin("detect-2", ("car",)), (220, 60, 280, 140)
    given = [
        batch.with_objects(
            Objects.concat([batch.objects, objects([aside] if n == 2 else [], class_id=0, origin=second)])
        )
        for n, batch in enumerate(drive(4, confidence=0.9))
    ]

    harvest(given[2:3], tmp_path, between=["detect-1", "detect-2"])

    (record,) = records(tmp_path)
    assert record["reasons"] == [{"reason": "disagreement", "score": 1.0, "about": {"objects": 1, "others": 1}}]
    assert [one["box"] for one in record["objects"]] == [[70, 60, 140, 140]]


def test_detectors_are_compared_only_where_both_ran(tmp_path: Path) -> None:
    given = [
        batch.with_search("detect-1", {0}).with_search("detect-2", {0} if n < 2 else set())
        for n, batch in enumerate(drive(4, confidence=0.9))
    ]

    harvest(given, tmp_path, between=["detect-1", "detect-2"])

    assert [one["frame"] for one in records(tmp_path)] == [0, 1]


def test_labels_that_come_later_are_numbered_behind_the_others(tmp_path: Path) -> None:
    given = drive(3)
    more = objects([(220, 160, 280, 220)], class_id=1, origin=Origin("detect-2", ("car", "dog")))
    given[2] = given[2].with_objects(Objects.concat([given[2].objects, more]))

    harvest(given, tmp_path, format="yolo")

    out = tmp_path / "out"
    names = YAML(typ="safe").load(out / "data.yaml")["names"]
    assert names == {0: "person", 1: "car", 2: "bus", 3: "dog"}
    last = out / "labels" / f"{Path(records(tmp_path)[2]['image']).stem}.txt"
    assert [line.split()[0] for line in last.read_text().splitlines()] == ["1", "3"]
    assert json.loads((out / "frames.jsonl").read_text().splitlines()[0])["labels"] == list(names.values())


def test_embeddings_that_are_new_are_a_reason_also_after_a_restart(tmp_path: Path) -> None:
    vectors = np.array([[1, 0, 0], [0.98, 0.199, 0], [0, 1, 0], [0, 0.98, 0.199]], np.float32)
    given = [
        batch.with_objects(batch.objects.with_columns(embedding=vectors[n : n + 1]))
        for n, batch in enumerate(drive(4, confidence=0.9))
    ]

    harvest(given[:3], tmp_path)
    harvest(given, tmp_path)

    assert [one["frame"] for one in records(tmp_path)] == [0, 2]
    assert [one["reasons"][0]["reason"] for one in records(tmp_path)] == ["novelty"] * 2


def test_only_the_classes_asked_for_count_and_are_labelled(tmp_path: Path) -> None:
    both = batches([(frame(0), objects([BOX, (200, 60, 280, 140)], confidence=0.3, class_id=[0, 2]))])

    harvest(both, tmp_path, classes=["bus"], format="yolo")

    (path,) = (tmp_path / "out" / "labels").iterdir()
    assert path.read_text().split()[0] == "0"
    assert [one["label"] for one in records(tmp_path)[0]["objects"]] == ["bus"]


def test_drawn_frames_are_warned_about_and_a_full_folder_is_as_well(tmp_path: Path) -> None:
    drawn = [replace(batch, frames=(replace(batch.frames[0], altered=Altered.DRAWN),)) for batch in drive(6)]
    messages: list[Message] = []

    harvest(drawn, tmp_path, messages, limit=2)

    assert ["before `draw`" in one.text for one in messages] == [True, False]
    assert "2 frames are kept, which is the limit" in messages[1].text
    assert len(images(tmp_path)) == 2


WRONG: Sequence[tuple[dict[str, Any], str]] = (
    ({"reasons": ["event"]}, "the reason event needs the option on"),
    ({"reasons": ["flicker"], "on": "lines.gate"}, "on has a meaning with the reason event only"),
    ({"between": ["detect-1", "detect-1"]}, "two different steps"),
    ({"image_url": "s3://b/"}, "label_studio only"),
    ({"quota": 0}, "quota"),
    ({"random": "120%"}, "random"),
)


@pytest.mark.parametrize(("options", "text"), WRONG)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Harvest(path="out", **options)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    context = CheckContext(Device(), ("gate",), Outputs(tmp_path))

    def problems(path: str) -> str:
        return " ".join(one.message for one in Harvest(path=path).check(context))

    assert "is no folder" in problems("out")
    assert "leave placeholders out" in problems("out/{stream}")
    assert "standard output" in problems("-")
    assert problems("harvested/") == ""
