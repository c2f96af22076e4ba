"""In a notebook, a pipeline shows its graph and a frame its image."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import cv2
import numpy as np

from sightline import Pipeline


def test_a_frame_is_a_png_of_exactly_its_pixels() -> None:
    pipeline = Pipeline(sources={"test": {"pattern": "counter", "size": [70, 46], "frames": 1}})

    for frame in pipeline:
        decoded = cv2.imdecode(np.frombuffer(frame._repr_png_(), np.uint8), cv2.IMREAD_COLOR)

        assert decoded is not None
        assert np.array_equal(decoded[..., ::-1], frame.rgb())


def test_a_pipeline_is_its_graph_without_credentials() -> None:
    pipeline = Pipeline(sources={"gate": "rtsp://user:hidden@10.0.0.7/main"}, steps=["track", {"jsonl": "a.jsonl"}])

    text = pipeline._repr_svg_()

    assert ET.fromstring(text).tag.endswith("svg")
    assert all(name in text for name in ("gate", "track", "jsonl"))
    assert "hidden" not in text
