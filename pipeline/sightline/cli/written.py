"""The files that options of commands name: one rule for what may be replaced.

What a command reads is never written over. A file that Sightline did not write is replaced only with `--overwrite`, and
one that people edit, such as a configuration, even when Sightline wrote it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sightline.graph.tree import PipelineDescription

overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Let outputs replace files that Sightline did not write."
)
STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that an option (`--report`) names. `reads` are files that the command reads, and what each is. `is_edited`
    says that people edit such files, and `may_be` names one that may be replaced in any case.
    """

    option: str
    path: Path
    overwrite: bool = False
    reads: Mapping[Path, str] = field(default_factory=dict)
    is_edited: bool = False
    may_be: Path | None = None
    makes_folder: bool = False

    def check(self) -> None:
        """See that it may be written, before the command does anything. Raises click.BadParameter."""
        if (reason := self._obstacle()) is not None:
            raise click.BadParameter(f"{reason}.", param_hint=self.option)

    def write(self, content: str | bytes) -> None:
        """Write it anew, marked as written by Sightline, in a folder that is made. Raises OutputError."""
        from sightline.graph.outputs import output_error
        from sightline.graph.ownership import mark

        try:
            if self.makes_folder:
                self.path.absolute().parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("wb") as file:
                mark(file.fileno())
                file.write(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise output_error(self.path, error, doing="write") from error

    def _obstacle(self) -> str | None:
        from sightline.graph.outputs import FOREIGN, Outputs
        from sightline.graph.ownership import is_foreign

        path, folder = self.path, self.path.absolute().parent
        if str(path) == STANDARD_OUTPUT:
            return "it writes to a file, and not to standard output: name one"
        if path.is_dir():
            return f"{path} is a folder: name a file in it"
        read = Outputs()
        for one, what in self.reads.items():
            read.protect(one, what)
        if what_is_read := read.protected_as(path):
            return f"{path} is {what_is_read}: write to another file"
        if not (self.overwrite or self._is(self.may_be)):
            if self.is_edited and path.is_file() and path.stat().st_size:
                return f"{path} is there already: name another file, or allow it with --overwrite"
            if is_foreign(path.resolve()):
                return f"{path} {FOREIGN}"
        if not folder.is_dir() and not self.makes_folder:
            return f"the folder {folder} does not exist"
        place = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
        if not os.access(place, os.W_OK):
            return f"{path} cannot be written: permission denied"
        return None

    def _is(self, other: Path | None) -> bool:
        return other is not None and self.path.exists() and other.exists() and self.path.samefile(other)


def files_read(description: PipelineDescription, *, config: Path) -> dict[Path, str]:
    """What a pipeline reads: clips, models, cards and more, and its own file."""
    from sightline.graph.outputs import Outputs

    read = Outputs()
    description.limit(read)
    return {**read.protected, config: "the configuration"}
