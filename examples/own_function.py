"""Use a plain function as a step: no class, no options.

    python examples/own_function.py

In YAML the same step is `- apply: own_function.py:only_large` (a file beside the YAML file) or
`- apply: my_package.my_module:only_large`.
"""

from __future__ import annotations

from pathlib import Path

from sightline import Batch, Pipeline
from sightline.media.boxes import area
from sightline_plugins import Apply, Replay

ROOT = Path(__file__).resolve().parent.parent
SMALLEST_PIXELS = 3000


def only_large(batch: Batch) -> Batch:
    """Keep objects with large boxes; `batch.objects` is a table whose columns are arrays."""
    return batch.with_objects(batch.objects.select(area(batch.objects.xyxy) >= SMALLEST_PIXELS))


def main() -> None:
    """Print the number of large objects per frame; they come from a recording, so no model is needed."""
    clip = ROOT / "sample_videos" / "street.mp4"
    pipeline = Pipeline(
        sources={"street": {"uri": str(clip), "duration": "1s"}},
        steps=[Replay(path=clip.with_suffix(".mot.txt")), Apply(function=f"{__file__}:only_large")],
    )
    for frame in pipeline:
        print(frame.index, len(frame.objects))


if __name__ == "__main__":
    main()
