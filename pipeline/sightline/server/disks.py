"""What a pipeline keeps on disk: the files of its outputs, what limits them, and the room that is left."""

from __future__ import annotations

import glob
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from sightline.api import DiskState, OutputState
from sightline.errors import OutputError
from sightline.graph import Outputs, PipelineDescription
from sightline.graph.fields import PathRole, is_url, paths_of
from sightline.graph.masked import masked
from sightline.redaction import redact
from sightline.server.history_store import history_path

_FRESH_SECONDS = 15.0
_MOST_FILES = 20_000
"""Files that are counted for one output at most: that takes a tenth of a second."""
_LIMITS = ("keep", "rotate", "limit", "segment", "longest")
"""Options of steps that say how much is kept."""
_HISTORY_LIMITS = {"size": "256MB", "age": "30d"}
_PLACEHOLDER = re.compile(r"\{[^{}/]*\}")
_STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class _Kept:
    """Files that belong together: whose they are, the path as in YAML, and what limits them."""

    id: str
    template: str
    limits: dict[str, Any]


class DiskSurvey:
    """Looks at the disks at most every 15 seconds, however many ask; from any thread."""

    def __init__(self, outputs_root: Path | None) -> None:
        self._root = outputs_root
        self._lock = Lock()
        self._found: list[DiskState] = []
        self._of: PipelineDescription | None = None
        self._until = 0.0

    def look(self, description: PipelineDescription) -> list[DiskState]:
        """Return the disks that the outputs of a pipeline are on."""
        with self._lock:
            if self._of is not description or time.monotonic() >= self._until:
                self._found = _survey(description, Outputs(self._root))
                self._of, self._until = description, time.monotonic() + _FRESH_SECONDS
            return self._found


def _survey(description: PipelineDescription, outputs: Outputs) -> list[DiskState]:
    disks: dict[int, DiskState] = {}
    for kept in _kept(description):
        try:
            path = outputs.path(kept.template)
        except OutputError:
            continue  # it is refused when the step opens it
        place = next((one for one in path.parents if one.is_dir()), None)
        if place is None or (path.exists() and not path.is_file()):
            continue
        try:
            device, room = place.stat().st_dev, shutil.disk_usage(place)
        except OSError:
            continue
        disk = disks.setdefault(
            device,
            DiskState(path=str(_mount_of(place)), total_bytes=room.total, free_bytes=room.free, outputs=[]),
        )
        disk.outputs.append(_measured(kept, path))
    return list(disks.values())


def _mount_of(folder: Path) -> Path:
    return next(one for one in (folder, *folder.parents) if one.is_mount() or one == one.parent)


def _kept(description: PipelineDescription) -> Iterator[_Kept]:
    for name, element in description.elements():
        options = masked(element)
        limits = {key: options[key] for key in _LIMITS if options.get(key) is not None}
        for _, role, path in paths_of(element):
            if role is PathRole.OUTPUT and path != _STANDARD_OUTPUT and not is_url(path):
                yield _Kept(name, path, limits)
    limits = description.outbox.model_dump(mode="json", include={"size", "age"})
    yield _Kept("outbox", description.outbox_path, limits)
    if description.state_path is not None:
        yield _Kept("state", description.state_path, {})
    yield _Kept("history", str(history_path(Path(description.outbox_path), description)), _HISTORY_LIMITS)


def _measured(kept: _Kept, path: Path) -> OutputState:
    """Add up the files, with those that have a number behind their name, or stand beside a database."""
    found = _Found()
    for candidate in islice(_candidates(path), _MOST_FILES + 1):
        found.looked += 1
        if found.looked <= _MOST_FILES:
            found.add(candidate)
    return OutputState(
        id=kept.id,
        path=redact(kept.template),
        files=found.files,
        size_bytes=found.size_bytes,
        complete=found.looked <= _MOST_FILES,
        limits=kept.limits,
    )


@dataclass(slots=True)
class _Found:
    """Files as they are counted; `looked` counts all that were looked at."""

    files: int = 0
    size_bytes: int = 0
    looked: int = 0

    def add(self, path: Path) -> None:
        """Count a file; what is none, or was removed meanwhile, is left out."""
        with suppress(OSError):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode):
                self.files += 1
                self.size_bytes += about.st_size


def _candidates(path: Path) -> Iterator[Path]:
    """Find what has the name of an output in which placeholders stand for anything."""
    parts = path.parts
    first = next((number for number, part in enumerate(parts) if "{" in part), len(parts) - 1)
    folder = Path(*parts[:first])
    suffix = path.suffix
    stem = "/".join(parts[first:]).removesuffix(suffix)
    literals = _PLACEHOLDER.split(stem)
    whole = re.compile(rf"{'[^/]*'.join(map(re.escape, literals))}(-\d+)?{re.escape(suffix)}(\.gz|\.zst|-wal|-shm)?")
    pattern = re.sub(r"\*+", "*", "*".join(map(glob.escape, literals)) + "*")
    return (one for one in folder.glob(pattern) if whole.fullmatch(str(one.relative_to(folder))))
