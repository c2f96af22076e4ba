"""Global ids on a real clip: people who come one by one are different people, though the model finds them alike."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from sightline import Pipeline

PEOPLE = 6


def test_people_who_come_one_by_one_get_different_ids(shared_data: Path) -> None:
    models = shared_data / "models"
    clip = shared_data / "videos" / "one-by-one-person-detection.mp4"
    detector = {"model": str(models / "yolox_nano.onnx"), "labels": str(models / "coco80.names"), "classes": ["person"]}
    pipeline = Pipeline(
        sources={"room": {"uri": str(clip), "max_fps": 3}},
        steps=[
            {"detect": detector},
            "track",
            {"embed": {"model": str(models / "osnet_x0_25_msmt17.onnx"), "on": "person"}},
            "multi_camera",
        ],
    )
    found: dict[int, set[int]] = defaultdict(set)
    for frame in pipeline:
        for one in frame.objects:
            global_id = one.attributes.get("global_id")
            if one.track_id is not None and isinstance(global_id, int):
                found[one.track_id].add(global_id)

    people = set().union(*found.values())
    assert len(found) >= PEOPLE
    assert all(len(ids) == 1 for ids in found.values())
    assert PEOPLE - 1 <= len(people) <= PEOPLE, "two men in black may share an id"
