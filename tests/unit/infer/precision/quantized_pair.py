"""A model and the quantised file that belongs to it, as far as their notes go."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import onnx

from sightline_plugins.infer.precision import NOTE_KEY
from tests.unit.engines.graphs import small_network
from tests.unit.engines.quantized_graphs import two_branches


def write_pair(folder: Path, *, lost_points: float = 0.25, digest: str | None = None) -> Path:
    """`small.onnx` and `small.int8.onnx`; the path of the first. `digest` is that of the model when not given."""
    model = folder / "small.onnx"
    onnx.save(small_network(), model)
    note = {
        "source_sha256": digest or hashlib.sha256(model.read_bytes()).hexdigest(),
        "measure": "AP",
        "lost_points": lost_points,
        "budget_points": 1.0,
    }
    quantized = two_branches()
    onnx.helper.set_model_props(quantized, {NOTE_KEY: json.dumps(note)})
    onnx.save(quantized, folder / "small.int8.onnx")
    return model
