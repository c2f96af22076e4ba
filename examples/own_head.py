"""Read a model's outputs with your own functions.

    python examples/own_head.py [CLIP]

In YAML the first step is `- infer: {model: models/street.onnx, head: own_head.py:vehicles}` (a file beside the YAML
file) or `head: my_package.my_module:vehicles`. Sightline has heads for both models; they serve as examples.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sightline import Pipeline
from sightline_plugins import Infer
from sightline_plugins.heads.head import Array, Candidates, DecodeContext

ROOT = Path(__file__).resolve().parent.parent
COLOURS = ("white", "black", "grey", "red", "blue", "green", "yellow")


def vehicles(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Return boxes from rows of centre, size and class scores (YOLOv8's table), in pixels of the network's input."""
    table = outputs[0][0].T
    scores = table[:, 4:].max(axis=1)
    kept = scores >= context.confidence
    centre, half = table[kept, :2], table[kept, 2:4] / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    return Candidates.from_arrays(boxes, scores[kept], table[kept, 4:].argmax(axis=1))


def colour(outputs: Sequence[Array], context: DecodeContext) -> dict[str, str | float]:
    """Return attributes of the object that the model ran on."""
    shares = outputs[context.outputs.index("colour")][0]
    return {"colour": COLOURS[int(shares.argmax())], "colour_confidence": float(shares.max())}


def main(clip: Path) -> None:
    """Print vehicles and their colours on the first frames of a clip."""
    models = ROOT / "models"
    steps = [
        Infer(model=models / "street.onnx", head=f"{__file__}:vehicles", confidence=0.5),
        Infer.model_validate(
            {"model": models / "vehicle.onnx", "head": f"{__file__}:colour", "on": ["car", "van", "truck", "bus"]}
        ),
    ]
    pipeline = Pipeline(sources={"street": {"uri": str(clip), "duration": "400ms"}}, steps=steps)
    for frame in pipeline:
        for obj in frame.objects:
            print(frame.index, obj.label, obj.attributes.get("colour", "-"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "sample_videos" / "street.mp4")
