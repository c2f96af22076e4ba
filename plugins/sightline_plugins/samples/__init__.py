"""Sample models, clips and the pipelines of the demo, wherever this installation has them.

A wheel holds them beside this module, in `data/`. In an editable install they are at the root of the repository, under
the same relative paths: `configs/demo.yaml`, `models/`, `sample_videos/`.
"""

from __future__ import annotations

from pathlib import Path

from sightline.errors import ConfigurationError

CLIPS = tuple(f"sample_videos/{name}.mp4" for name in ("dusk", "entrance", "gate", "street"))
"""The clips that every installation has."""
PIPELINES = ("configs/demo.yaml", "configs/town.yaml")
"""The pipelines of the demo: clips from end to end, and clips as cameras."""

_HERE = Path(__file__).resolve().parent


def samples_folder() -> Path:
    """Return the folder that holds the samples.

    Raises ConfigurationError when the installation has none, such as a copy of the packages without their data.
    """
    for folder in (_HERE / "data", _HERE.parents[2]):
        if (folder / PIPELINES[0]).is_file():
            return folder
    raise ConfigurationError(
        f"this installation lacks the sample models and clips (searched {_HERE / 'data'}): "
        "install Sightline from its wheel, or from a clone of the repository with `pip install -e .`"
    )


def sample_models() -> tuple[str, ...]:
    """Return the paths of the sample models and their cards below the folder of the samples, sorted."""
    folder = samples_folder()
    return tuple(
        str(path.relative_to(folder))
        for path in sorted((folder / "models").rglob("*"))
        if path.suffix in (".onnx", ".yaml", ".json")
    )
