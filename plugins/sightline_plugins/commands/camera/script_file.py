"""The script of a fake camera as a YAML file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sightline.config.load import read_document
from sightline_plugins.commands.camera.clip import Seconds
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import Step


class FileStep(Step):
    """A step that names another clip by its file."""

    clip: str | None = None
    """Another clip: a video file, from the folder of the script."""


class ScriptFile(BaseModel):
    """What a script file holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: tuple[FileStep, ...]
    """What happens, in any order."""
    repeat: Seconds | None = None
    """After this long everything happens again."""


def read_script(path: Path) -> tuple[list[Step], float | None]:
    """The steps of a script file, their clips loaded, and after how many seconds they repeat.

    Raises InvalidConfiguration with all mistakes, and StreamUnreadable when a clip cannot be used.
    """
    script = read_document(ScriptFile, path)
    return list(_with_clips(script, path.parent)), script.repeat


def _with_clips(script: ScriptFile, folder: Path) -> Iterator[Step]:
    for step in script.steps:
        if step.clip is None:
            yield step
        else:
            yield step.model_copy(update={"swap": load_clip(str(folder / step.clip))})
