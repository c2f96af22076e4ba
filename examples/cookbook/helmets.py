"""Report people without a helmet, or without any other equipment.

Needs: a detector with one class for people and one for the equipment; here, recorded detections stand in for it.
Makes: an attribute `helmet` of each person, and a line for each track when it is first seen without.
"""

from pathlib import Path

import numpy as np

from sightline import Batch, Pipeline
from sightline_plugins import Apply, Replay, Track

PERSON, EQUIPMENT, UPPER = "person", "helmet", 0.4


def mark(batch: Batch) -> Batch:
    """Say of each person whether the middle of a piece of equipment is in the upper part of the box."""
    objects = batch.objects
    worn = objects.select(objects.has_label([EQUIPMENT]))
    middle = (worn.xyxy[:, :2] + worn.xyxy[:, 2:]) / 2
    low, high = objects.xyxy[:, None, :2], objects.xyxy[:, None, 2:].copy()
    high[..., 1] = low[..., 1] + UPPER * (high[..., 1] - low[..., 1])
    inside = ((middle >= low) & (middle < high)).all(axis=2) & (worn.frame == objects.frame[:, None])
    values = np.where(objects.has_label([PERSON]), np.where(inside.any(axis=1), "yes", "no"), "")
    return batch.with_objects(objects.with_columns(helmet=values))


if __name__ == "__main__":
    finds = Replay(path=Path(__file__).with_name("helmets.jsonl"))  # Detect(model="ppe.onnx")
    site = {"pattern": "bars", "frames": 20, "size": [320, 180]}
    reported = set()
    for frame in Pipeline(sources={"site": site}, steps=[finds, Track(), Apply(function=f"{__file__}:mark")]):
        for person in frame.objects:
            if person.attributes.get("helmet") == "no" and person.track_id not in reported:
                reported.add(person.track_id)
                print(f"frame {frame.index}: person {person.track_id} has no {EQUIPMENT}")
