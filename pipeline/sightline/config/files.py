"""The files of a pipeline: inputs that are there, outputs inside their folder that do not overwrite each other."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sightline.config.problems import Key, dotted
from sightline.errors import OutputError
from sightline.graph.element import Element
from sightline.graph.fields import PathRole, is_folder, is_there, is_url, paths_of
from sightline.graph.outputs import Outputs
from sightline.graph.registry import suggest
from sightline.graph.streams import matching
from sightline.graph.tree import PipelineDescription

Found = tuple[Key, str]
_NUMBERED = re.compile(r"%\d*d")


def file_problems(
    description: PipelineDescription, elements: Sequence[tuple[Key, Element]], outputs: Outputs
) -> Iterator[Found]:
    """Inputs that are missing, outputs outside the output folder, and files that two would write."""
    for name, source in description.sources.items():
        for field, role, path in paths_of(source):
            yield from _missing(("sources", name, field), role, path)
    taken = _read_by_sources(description)
    for key, element in elements:
        for field, role, path in paths_of(element):
            if role is PathRole.OUTPUT:
                streams = matching(element.streams, description.sources)
                yield from _written((*key, field), path, streams, outputs, taken)
            else:
                yield from _missing((*key, field), role, path)


def _missing(key: Key, role: PathRole, path: str) -> Iterator[Found]:
    if "{stream}" in path:  # one file for each stream: the element looks for them
        return
    if role is PathRole.OUTPUT or (role is PathRole.INPUT_URI and (is_url(path) or _NUMBERED.search(path))):
        return
    if role is PathRole.INPUT_URI and glob.has_magic(path):
        if not is_there(Path(path)) and not _matches(Path(path)):
            yield key, f"no file matches {path}"
        return
    if not is_there(Path(path).expanduser()):
        yield key, f"there is no file {path}{_near(Path(path))}"


def _matches(pattern: Path) -> bool:
    absolute = pattern.expanduser().absolute()
    try:
        return any(Path(absolute.anchor).glob(str(absolute.relative_to(absolute.anchor))))
    except OSError:  # a name that no file can have
        return False


def _near(path: Path) -> str:
    try:
        return suggest(path.name, [other.name for other in path.parent.iterdir()])
    except OSError:
        return f"; the folder {path.parent} does not exist either" if not is_folder(path.parent) else ""


def _read_by_sources(description: PipelineDescription) -> dict[Path, str]:
    return {
        Path(path).expanduser().absolute(): f"the source {name!r} reads it"
        for name, source in description.sources.items()
        for _, role, path in paths_of(source)
        if role is not PathRole.OUTPUT and not is_url(path)
    }


def _written(
    key: Key, template: str, streams: Sequence[str], outputs: Outputs, taken: dict[Path, str]
) -> Iterator[Found]:
    mine: dict[Path, str] = {}
    for stream in streams if "{stream}" in template else (None,):
        try:
            path = outputs.path(template, stream=stream)
        except OutputError as error:
            yield key, str(error)
            return
        if path in taken:
            yield key, f"{path} cannot be written: {taken[path]}"
            return
        if path.suffix:
            mine[path] = f"{dotted(key[:-1])} writes it too"
    taken.update(mine)
