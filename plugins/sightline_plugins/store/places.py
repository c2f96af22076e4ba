"""Other stores, which versions are pushed to and pulled from: what they have in common, and the folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sightline.errors import SightlineError
from sightline.graph.outputs import output_error
from sightline_plugins.store.folder import Store, Stored, recorded
from sightline_plugins.store.record import Record

Progress = Callable[[int], None]
"""Told how many more bytes have arrived, again and again."""


class TransferError(SightlineError):
    """A version could not be brought to or from another store; nothing of it is used there."""


class Place(Protocol):
    """A store somewhere else. It has the layout of a folder of models: NAME/VERSION with files and `model.json`.

    Methods raise TransferError where the place does not answer, or refuses.
    """

    @property
    def address(self) -> str:
        """What people call it: the folder, or the URL."""

    def names(self) -> tuple[str, ...]:
        """Return the names that have a version, in alphabetical order."""

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a name that are whole, in no order; none for a name that is not there."""

    def record(self, name: str, version: str) -> Record:
        """Return the record of a version that is there. Raises ModelError when it cannot be read."""

    def fetch(self, record: Record, file: str, part: Path, *, progress: Progress) -> None:
        """Bring a file of a version, and go on where an earlier attempt ended in `part`. The content is not compared.

        Raises OutputError when `part` cannot be written.
        """

    def put(self, stored: Stored, *, progress: Progress) -> None:
        """Add a version that is not there: whole, or not visible. Its files are read there and compared by SHA-256.

        Raises ConfigurationError when somebody else adds another one of that number at the same time.
        """


class FolderPlace:
    """A store in another folder: another disk, or one that several machines have mounted."""

    def __init__(self, folder: Path) -> None:
        self._store = Store(folder)

    @property
    def address(self) -> str:
        """The folder."""
        return str(self._store.folder)

    def names(self) -> tuple[str, ...]:
        """Return the names that have a version."""
        return self._store.names()

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a name."""
        return self._store.versions(name)

    def record(self, name: str, version: str) -> Record:
        """Return the record of a version."""
        return self._store.stored(name, version).record

    def fetch(self, record: Record, file: str, part: Path, *, progress: Progress) -> None:
        """Copy a file; a copy begins anew."""
        source = self._store.folder / record.name / record.version / file
        try:
            content = source.open("rb")
        except OSError as error:
            raise TransferError(f"{source} cannot be read: {error.strerror}") from error
        with content:
            try:
                with part.open("wb") as target:
                    shutil.copyfileobj(content, target)
            except OSError as error:
                raise output_error(part, error, doing="write") from error
        progress(record.files[file].bytes)

    def put(self, stored: Stored, *, progress: Progress) -> None:
        """Copy the version aside, compare it, and rename it to its place."""
        record = stored.record
        with self._store.adding() as folder:
            try:
                for file, expected in record.files.items():
                    target = folder / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(stored.folder / file, target)
                    progress(expected.bytes)
                if recorded(folder) != dict(record.files):
                    raise TransferError(f"{self.address} does not keep what is written to it: nothing was added")
            except OSError as error:
                raise output_error(self._store.folder / record.name, error, doing="write") from error
            self._store.publish(folder, record, version=record.version)
