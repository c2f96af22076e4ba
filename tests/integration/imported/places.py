"""The configurations of these tests, in a folder with the models and videos that they name."""

from __future__ import annotations

import shutil
from pathlib import Path

KINDS = "black;blue;gold;red;white;silver;green\nsedan;suv;van;truck\n"
LABELS = ("person", "bicycle", "car", "van", "truck", "bus")
CONFIGURATIONS = Path(__file__).with_name("configurations")


def prepared(folder: Path, repository: Path) -> Path:
    """The folder, with everything in it but the model for re-identification. Models have no cards beside them."""
    shutil.copytree(CONFIGURATIONS, folder, dirs_exist_ok=True)
    (folder / "sample_videos").symlink_to(repository / "sample_videos")
    for place in ("models/street.onnx", "models/vehicle.onnx", "repository/street/1/model.onnx"):
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        name = "street.onnx" if target.name == "model.onnx" else target.name
        target.symlink_to(repository / "models" / name)
    (folder / "labels.txt").write_text("\n".join(LABELS) + "\n")
    (folder / "kinds.txt").write_text(KINDS)
    return folder
