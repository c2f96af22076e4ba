"""Count people at a door by iterating a pipeline.

    python examples/count_people.py [VIDEO]

The pipeline is described in Python, and the loop gets every frame with its results.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sightline import Pipeline
from sightline_plugins import Detect, Lines, Track

ROOT = Path(__file__).resolve().parent.parent


def main(video: Path) -> None:
    """Print each crossing of the line, and the totals at the end."""
    door = Lines.model_validate({"door": {"from": [0.37, 0.375], "to": [0.71, 0.415], "classes": ["person"]}})
    pipeline = Pipeline(
        sources={"entrance": video},
        steps=[Detect(model=ROOT / "models" / "street.onnx"), Track(), door],
    )
    came = went = 0
    for frame in pipeline:
        for event in frame.events:
            came += event.data["direction"] == "in"
            went += event.data["direction"] == "out"
            print(f"{frame.pts_seconds:6.2f} s  person {event.data['track_id']} goes {event.data['direction']}")
    print(f"{came} came, {went} went")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "sample_videos" / "entrance.mp4")
