"""The differences between two mappings of sources, and how streams of a run come, go and start again for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription, SourceElement
from sightline.runtime.run import Run
from sightline.runtime.sources.manager import PendingChange

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """The differences between two mappings of sources: names, and the sources wanted now."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    wanted: Mapping[str, SourceElement]

    @classmethod
    def between(cls, old: Mapping[str, SourceElement], new: Mapping[str, SourceElement]) -> Self:
        """Compare two mappings of sources."""
        return cls(
            added=tuple(name for name in new if name not in old),
            removed=tuple(name for name in old if name not in new),
            changed=tuple(name for name in old if name in new and old[name] != new[name]),
            wanted=new,
        )

    def carry_out(self, runner: Run, *, now: Mapping[str, SourceElement]) -> list[PendingChange]:
        """Add, remove and replace streams of a run, whose sources are `now`."""
        under_way = [runner.remove_source(name) for name in self.removed if name in now]
        for name in (*self.changed, *self.added):
            change = runner.replace_source if name in now else runner.add_source
            under_way.append(change(name, self.wanted[name]))
        return under_way

    def applied(self, now: Mapping[str, SourceElement]) -> dict[str, SourceElement]:
        """Return the sources after the changes."""
        kept = {name: source for name, source in now.items() if name not in self.removed}
        return {**kept, **{name: self.wanted[name] for name in (*self.changed, *self.added)}}


def with_streams_of_its_file(description: PipelineDescription) -> PipelineDescription:
    """Return the description with the streams that its sources file holds now. Raises ConfigurationError."""
    from sightline.config import read_streams

    file = description.sources_file
    assert file is not None
    read = read_streams(file.path)
    own = {name: source for name, source in description.sources.items() if name not in file.streams}
    doubled = [name for name in read if name in own]
    if doubled:
        raise ConfigurationError(f"{file.path}: there are streams {', '.join(doubled)} besides it: rename them")
    new_file = file.model_copy(update={"streams": tuple(read)})
    return description.model_copy(update={"sources": {**own, **read}, "sources_file": new_file})


def with_streams_of_the_file_of(present: PipelineDescription, description: PipelineDescription) -> PipelineDescription:
    """Return a former description with the streams that the sources file of the present one holds, if both name the
    same file: that file, and not a former version, says which streams there are.
    """
    file, former = present.sources_file, description.sources_file
    if file is None or former is None or file.path != former.path:
        return description
    own = {name: source for name, source in description.sources.items() if name not in former.streams}
    listed = {name: present.sources[name] for name in file.streams if name in present.sources}
    return description.model_copy(update={"sources": {**own, **listed}, "sources_file": file})
