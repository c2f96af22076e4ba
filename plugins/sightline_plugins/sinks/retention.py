"""Retention of written files: limits of age, size, number and free space; the oldest are removed first."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from sightline.errors import OutputError
from sightline.graph import Clock, Outputs
from sightline.graph.described import Described
from sightline.graph.fields import Size
from sightline.media.time import Duration

_PLACEHOLDER = re.compile(r"\{[a-z]+\}")
_SAFE_NAME = r"[A-Za-z0-9._-]+"
_FREE_SHARE = 50
_FREE_BYTES = 256_000_000
KEEPS_FOR_ALL = "`keep` limits the files of all its streams together"
"""Why a step with limits cannot be part of a run in several processes."""


class Keep(Described):
    """Limits on the files of a step, over all its streams and including those of earlier runs."""

    age: Annotated[Duration, Field(gt=0)] | None = None
    """Files older than this are removed."""
    size: Annotated[Size, Field(gt=0)] | None = None
    """When the files are larger than this in all, the oldest are removed."""
    count: Annotated[int, Field(ge=1)] | None = None
    """When there are more files than this, the oldest are removed."""
    free: Size | None = None
    """While less than this is free on the disk, the oldest are removed; 2 % of it, but not more than 256 MB, when not
    given."""


@dataclass(frozen=True, slots=True)
class FileNames:
    """The file names of a path template. `placeholders` holds a regular expression for each one but `{stream}`.

    `ending` is what may stand behind such a name, as `.gz` behind that of a file that was compressed.
    """

    template: str
    placeholders: Mapping[str, str]
    ending: str = ""

    def found(self, outputs: Outputs) -> Iterator[Path]:
        """Find all files with such names, and those numbered because a name was taken."""
        path = outputs.path(self.template)
        whole = self._pattern(path)
        first = next(number for number, part in enumerate(path.parts) if "{" in part)
        folder = Path(*path.parts[:first])
        literals = _PLACEHOLDER.split("/".join((*path.parts[first:-1], path.stem)))
        pattern = "*".join(map(glob.escape, literals)) + "*" + path.suffix + ("*" if self.ending else "")
        candidates = folder.glob(re.sub(r"\*+", "*", pattern))
        return (one for one in candidates if whole.fullmatch(str(one)) and one.is_file())

    def _pattern(self, path: Path) -> re.Pattern[str]:
        expressions = {"{stream}": _SAFE_NAME, **self.placeholders}
        parts, at = [], 0
        text = str(path.with_suffix(""))
        for mark in _PLACEHOLDER.finditer(text):
            parts += [re.escape(text[at : mark.start()]), expressions.get(mark[0], re.escape(mark[0]))]
            at = mark.end()
        end = re.escape(path.suffix) + f"(?:{re.escape(self.ending)})?"
        return re.compile("".join([*parts, re.escape(text[at:]), r"(?:-\d+)?", end]))


def facts_of(path: Path) -> os.stat_result | None:
    """Size and times of a file; None when it was removed."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


class Retention:
    """Removes files beyond the limits, the oldest first; none when `keep` is None. Used by one thread.

    It never touches an open file, nor a file with a name that the step would not use.
    """

    def __init__(
        self, keep: Keep | None, *, names: FileNames, outputs: Outputs, clock: Clock, warn: Callable[[str], None]
    ) -> None:
        self._keep = keep
        self._names = names
        self._outputs = outputs
        self._clock = clock
        self._warn: Callable[[str], None] | None = warn
        self._files: deque[tuple[int, Path, int]] | None = None
        self._size_bytes = 0
        self.removed_files = 0

    def add(self, path: Path, *, size_bytes: int) -> None:
        """Add a finished file."""
        if self._keep is None:
            return
        files = self._known()
        if not any(path == known for _, known, _ in files):
            files.append((self._clock.epoch_ns(), path, size_bytes))
            self._size_bytes += size_bytes

    def forget(self, path: Path) -> None:
        """Leave a file out that is no more, because another has taken its place."""
        for entry in self._files or ():
            if entry[1] == path:
                self._known().remove(entry)
                self._size_bytes -= entry[2]
                return

    def tidy(self, *, open_bytes: int = 0) -> None:
        """Remove files beyond the limits; open files hold `open_bytes`."""
        while self._passes_a_limit(open_bytes):
            self._remove_oldest()

    def make_room(self) -> bool:
        """Remove the oldest file because the disk is full; False when that is impossible."""
        return self._keep is not None and bool(self._known()) and self._remove_oldest()

    def _passes_a_limit(self, open_bytes: int) -> bool:
        keep = self._keep
        if keep is None or not (files := self._known()):
            return False
        if keep.age is not None and self._clock.epoch_ns() - files[0][0] > keep.age:
            return True
        if keep.size is not None and self._size_bytes + open_bytes > keep.size:
            return True
        if keep.count is not None and len(files) > keep.count:
            return True
        disk = shutil.disk_usage(next(folder for folder in files[-1][1].parents if folder.exists()))
        free = min(disk.total // _FREE_SHARE, _FREE_BYTES) if keep.free is None else keep.free
        return disk.free < free

    def _remove_oldest(self) -> bool:
        _, path, size_bytes = self._known().popleft()
        self._size_bytes -= size_bytes
        if not path.exists():
            return True
        try:
            self._outputs.remove(path)
        except OutputError as error:
            if self._warn is not None:
                self._warn(f"{error}; it is kept")
                self._warn = None
            return False
        self.removed_files += 1
        return True

    def _known(self) -> deque[tuple[int, Path, int]]:
        if self._files is None:
            paths = ((path, facts_of(path)) for path in self._names.found(self._outputs))
            found = [(facts.st_mtime_ns, path, facts.st_size) for path, facts in paths if facts is not None]
            self._files = deque(sorted(found))
            self._size_bytes = sum(size for _, _, size in found)
        return self._files
