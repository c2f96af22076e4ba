"""Put the sample models, two clips and the demo into the wheel, from where they are in the repository.

Hatchling runs this hook for wheels (`pyproject.toml`). An editable install gets no copies, because its modules find the
files in the repository: `sightline_plugins/samples/__init__.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SAMPLES = ("configs/demo.yaml", "sample_videos/street.mp4", "sample_videos/entrance.mp4")
"""Files of the repository that the wheel holds beside `models/`, at the same paths below its folder of samples."""
TARGET = "sightline_plugins/samples/data"


class SamplesHook(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is the configuration of the builder
    """Adds the samples to a wheel that is no editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files for the wheel; raise FileNotFoundError when the tree lacks one."""
        if version == "editable":
            return
        root = Path(self.root)
        models = sorted(str(path.relative_to(root)) for path in (root / "models").iterdir() if path.is_file())
        if not models:
            raise FileNotFoundError(f"no sample models in {root / 'models'}")
        for name in (*SAMPLES, *models):
            if not (root / name).is_file():
                raise FileNotFoundError(f"the wheel needs {name}, which is missing in {root}")
            build_data["force_include"][str(root / name)] = f"{TARGET}/{name}"
