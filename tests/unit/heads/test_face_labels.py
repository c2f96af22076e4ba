from __future__ import annotations

from pathlib import Path

from sightline_plugins import Detect


def test_a_face_detector_needs_no_labels(shared_data: Path) -> None:
    faces = Detect(model=shared_data / "models" / "yunet_n_dynamic.onnx")

    assert faces.found_labels() == frozenset({"face"})
