"""The pipeline that is being put together: sources, batch, and steps by the stage that they belong to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sightline.errors import ConfigurationError
from sightline_plugins.deepstream_import.file_forms import read_configuration
from sightline_plugins.deepstream_import.outcomes import Outcomes
from sightline_plugins.deepstream_import.sections import Configuration, Section
from sightline_plugins.deepstream_import.settings import Settings, Table
from sightline_plugins.deepstream_import.source_text import is_file

if TYPE_CHECKING:
    from sightline_plugins.model_import.package import ModelPackage

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9]+")
_FILE_KEYS = ("config-file", "config-file-path", "cfg-file-path")


class Template(str):
    """A text that holds `${NAME}` on purpose; in other texts a dollar sign is only itself."""

    __slots__ = ()


class Stage(IntEnum):
    """Where a step stands: in the order in which DeepStream's elements are linked."""

    DETECT = 0
    FOUND = 1
    EMBED = 2
    TRACK = 3
    OBJECTS = 4
    RULES = 5
    RESULTS = 6
    DRAW = 7
    VIDEO = 8


@dataclass(slots=True)
class Step:
    """A step with its options, and the comment that stands above it."""

    element: str
    options: dict[str, Any]
    comment: str
    package: ModelPackage | None = None
    """The model of the step with its card, where it is there; `of_card` are the options that the card holds as well."""
    of_card: tuple[str, ...] = ()


@dataclass(slots=True)
class Plan:
    """A pipeline. `models` are the steps with a model by the id that DeepStream gave them."""

    name: str
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    batch: dict[str, Any] = field(default_factory=dict)
    device: str | None = None
    stages: dict[Stage, list[Step]] = field(default_factory=lambda: {stage: [] for stage in Stage})
    models: dict[int, ModelStep] = field(default_factory=dict)
    streams_of: dict[int, list[str]] = field(default_factory=dict)
    """The streams of each [sourceN] by its number."""

    @property
    def streams(self) -> list[str]:
        """The names of all streams, in the order of the muxer's pads."""
        return list(self.sources)

    def add(self, stage: Stage, element: str, options: dict[str, Any], comment: str) -> Step:
        """Add a step behind those of its stage, and return it."""
        step = Step(element, options, comment)
        self.stages[stage].append(step)
        return step

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order."""
        for stage in Stage:
            yield from self.stages[stage]


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A step with a model: its id, and the labels of its classes where they are known."""

    id: str
    labels: tuple[str, ...]
    task: str


@dataclass(slots=True)
class Import:
    """One import: what was asked for, the plan that grows, and what was found.

    `folder` is where the pipeline will be, at which relative paths of inputs start. With `compat` the steps count as
    DeepStream does where they can. `fps` turns numbers of frames into times. `frame_wh` is the size of the muxer's
    frames, whose pixels DeepStream's coordinates are in. `draws_rules` says whether rules are shown in videos.
    """

    folder: Path
    plan: Plan
    compat: bool = False
    fps: float = 30.0
    outcomes: Outcomes = field(default_factory=Outcomes)
    variables: list[str] = field(default_factory=list)
    frame_wh: tuple[float, float] | None = None
    unread_parsers: list[str] = field(default_factory=list)
    draws_rules: bool = True

    def read(self, path: Path, *, named_by: str) -> Configuration | None:
        """Return the configuration of another file; None, and reported as missing, where it is not there."""
        if not is_file(path):
            self.outcomes.missing.append(
                f"{path}: the file that {named_by} names is not there; give it and import again"
            )
            return None
        return read_configuration(path)

    def read_named(self, section: Section, table: Table, *, plugin: str) -> Configuration | None:
        """Return the file that the `config-file` of a section names; None where the plugin is switched off, or the file
        is not there. Raises ConfigurationError when it names none.
        """
        settings = Settings(section, table, self.outcomes)
        if not settings.is_enabled:
            settings.close(because=f"{plugin} is switched off")
            return None
        named = next((settings.text(key) for key in _FILE_KEYS if key in settings), "")
        settings.close()
        if not named:
            raise section.place.error(f"[{section.name}] names no config-file")
        return self.read(section.place.file.parent / named, named_by=f"[{section.name}] config-file")

    def input_path(self, path: Path) -> str:
        """Return how the pipeline names a file: relative to its folder, from the root where nothing is shared."""
        whole, folder = Path(os.path.normpath(path.absolute())), Path(os.path.normpath(self.folder.absolute()))
        shared = os.path.commonpath((whole, folder))
        return str(whole) if shared == whole.anchor else os.path.relpath(whole, folder)

    def frames_to_time(self, frames: float) -> str:
        """Return a number of frames as a duration."""
        return duration(frames / self.fps)

    def without_password(self, url: str, *, name: str) -> str:
        """Return a URL whose password, if it has one, comes from an environment variable."""
        try:
            parts = urlsplit(url)
            password = parts.password
        except ValueError as error:
            raise ConfigurationError(f"the address of {name} is no URL") from error
        if password is None:
            return url
        _, _, host = parts.netloc.rpartition("@")
        user = (parts.username or "").replace("$", "$$")
        variable = self.variable(f"{name}_PASSWORD")
        rest = parts._replace(netloc="HOST").geturl().replace("$", "$$")
        return Template(rest.replace("HOST", f"{user}:${{{variable}}}@{host}", 1))

    def variable(self, name: str) -> str:
        """Return the name of an environment variable, and report that it is needed."""
        plain = _NOT_IN_VARIABLES.sub("_", name.upper()).strip("_")
        if plain not in self.variables:
            self.variables.append(plain)
        return plain


def duration(seconds: float) -> str:
    """Return a duration as YAML takes it, to a millisecond."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds // 1000}s" if milliseconds % 1000 == 0 else f"{milliseconds}ms"


def safe_name(text: str, *, default: str) -> str:
    """Return a name for streams, steps and rules that is made of a text."""
    plain = _NOT_IN_NAMES.sub("-", text).strip("-._")
    return plain[:60] or default
