"""The folder of the store: find, add, verify and remove versions, safely beside other processes.

A version appears whole: it is put together in `.adding`, written to the disk, and renamed to its place. Versions never
change; what comes later is another version. One lock is held while a place is chosen and taken, not while files are
copied. What a process left behind when it died is removed by the next one that adds something.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from sightline.cache import MODELS_VARIABLE, store_folder
from sightline.errors import ConfigurationError, ModelError
from sightline.graph.outputs import output_error
from sightline.graph.wording import suggest
from sightline_plugins.store.record import (
    RECORD_FILE,
    FileRecord,
    Record,
    Reference,
    encoded,
    is_name,
    is_version,
    read_record,
    version_key,
)

_ADDING = ".adding"
_DOWNLOADS = ".downloads"
_LOCK = ".lock"
_FEW = 12
_ADVICE = "versions never change: remove it (`sightline models remove {named}`) and add it again"


@dataclass(frozen=True, slots=True)
class Stored:
    """A version that is in the store: its folder and its record."""

    folder: Path
    record: Record

    @property
    def reference(self) -> Reference:
        """The name and version that pipelines use."""
        return self.record.reference

    @property
    def model(self) -> Path:
        """The model's file."""
        return self.folder / self.record.model

    @property
    def torn(self) -> str | None:
        """What is wrong with it, as far as the sizes of its files tell; None where nothing is."""
        return self._damaged(self._wrong_sizes())

    @property
    def damage(self) -> str | None:
        """What is wrong with its files, all of which are read once in a process: sizes and SHA-256; None where nothing
        is.
        """
        return self._damaged([*self._wrong_sizes(), *self._wrong_contents()])

    def _damaged(self, found: list[str]) -> str | None:
        if not found:
            return None
        named = f"{self.record.name}@{self.record.version}"
        return f"{self.reference} is damaged: {'; '.join(found)}; {_ADVICE.format(named=named)}"

    def _wrong_sizes(self) -> list[str]:
        found = []
        for name, expected in self.record.files.items():
            size = _size(self.folder / name)
            if size is None:
                found.append(f"{name} is missing")
            elif size != expected.bytes:
                found.append(f"{name} has {size:,} bytes, and had {expected.bytes:,}")
        return found

    def _wrong_contents(self) -> list[str]:
        found = []
        for name, expected in self.record.files.items():
            path = self.folder / name
            if _size(path) != expected.bytes:
                continue
            try:
                digest = _digest(path, _stamp(path))
            except OSError as error:
                found.append(f"{name} cannot be read: {error.strerror}")
                continue
            if digest != expected.sha256:
                found.append(f"{name} has SHA-256 {digest[:16]}..., and had {expected.sha256[:16]}...")
        return found


class Store:
    """The models below one folder: `$SIGHTLINE_MODELS` or its default, unless another one is given.

    Reading takes no lock and needs no right to write. Methods that write raise OutputError where they cannot.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = store_folder() if folder is None else folder

    def names(self) -> tuple[str, ...]:
        """Return the names that have a version, in alphabetical order."""
        return tuple(name for name in _entries(self.folder) if is_name(name) and self.versions(name))

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a name, the newest last; none for a name that is not there. Reads no record."""
        found = [one for one in _entries(self.folder / name) if is_version(one)]
        return tuple(sorted(found, key=lambda one: (version_key(one), one)))

    def stored(self, name: str, version: str) -> Stored:
        """Return a version that is there. Raises ModelError when its record cannot be read."""
        folder = self.folder / name / version
        try:
            return Stored(folder, read_record(folder))
        except ModelError as error:
            advice = _ADVICE.format(named=f"{name}@{version}")
            raise ModelError(f"{Reference(name, version)} is damaged: {error}; {advice}") from error

    def find(self, reference: Reference | str) -> Stored:
        """Return the version that is named, or the newest one.

        Raises ConfigurationError, with what there is, when it is not in the store, and ModelError when it is damaged.
        """
        wanted = Reference.parse(reference) if isinstance(reference, str) else reference
        versions = self.versions(wanted.name)
        if not versions:
            raise ConfigurationError(
                f"there is no model {wanted.name!r} in the store {self.folder}{self._near(wanted)}"
            )
        version = wanted.version or versions[-1]
        if version not in versions:
            raise ConfigurationError(
                f"there is no version {version} of {wanted.name!r} in the store {self.folder}; there: "
                f"{', '.join(versions[-_FEW:])}"
            )
        return self.stored(wanted.name, version)

    def usable(self, reference: Reference | str) -> Stored:
        """Return the version that `find` does if its files are all there. Raises as `find` does."""
        found = self.find(reference)
        if found.torn is not None:
            raise ModelError(found.torn)
        return found

    @contextmanager
    def adding(self) -> Iterator[Path]:
        """Yield an empty folder to put a version together in; afterwards nothing of it is left there."""
        place = self.folder / _ADDING
        try:
            with self._locked():
                place.mkdir(exist_ok=True)
                _sweep(place)
                folder = Path(tempfile.mkdtemp(dir=place))
                lock = _lock(folder / "lock")
            files = folder / "files"
            files.mkdir()
        except OSError as error:
            raise output_error(self.folder, error, doing="write") from error
        try:
            yield files
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    @contextmanager
    def downloading(self, name: str) -> Iterator[Path]:
        """Yield the folder that files of a model are brought to before they are a version, for one process at a time.

        What an attempt leaves there, the next one finds. Raises OutputError.
        """
        folder = self.folder / _DOWNLOADS / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _lock(folder / _LOCK)
        except OSError as error:
            raise output_error(folder, error, doing="write") from error
        try:
            yield folder
        finally:
            os.close(lock)

    def publish(self, files: Path, record: Record, *, version: str | None) -> tuple[Stored, bool]:
        """Move a folder that was put together to its place. Return the version, and whether it is new.

        Without a version it becomes the one after the newest, unless a version with the same files is there: then
        that one is returned, and so is the asked version if it has the same files. Raises ConfigurationError when it
        has others.
        """
        try:
            record = replace(record, files=recorded(files))
            with self._locked():
                known = self._same(record, version)
                if known is not None:
                    return known, False
                chosen = version or self._next(record.name)
                target = self.folder / record.name / chosen
                whole = replace(record, version=chosen)
                (files / RECORD_FILE).write_bytes(encoded(whole))
                _to_disk(files)
                target.parent.mkdir(exist_ok=True)
                files.rename(target)
                for folder in (target.parent, self.folder):
                    _sync(folder)
        except OSError as error:
            raise output_error(self.folder / record.name, error, doing="write") from error
        return Stored(target, whole), True

    def remove(self, name: str, version: str) -> None:
        """Remove a version, damaged ones as well: at once for who looks for it. Raises OutputError."""
        folder = self.folder / name / version
        try:
            with self._locked():
                place = self.folder / _ADDING
                place.mkdir(exist_ok=True)
                aside = Path(tempfile.mkdtemp(dir=place))
                folder.rename(aside / "files")
                with suppress(OSError):  # another version is there
                    folder.parent.rmdir()
                shutil.rmtree(aside)
        except OSError as error:
            raise output_error(folder, error, doing="remove") from error

    def _near(self, wanted: Reference) -> str:
        names = self.names()
        if not names:
            return f", which is empty: `sightline models add PATH` adds one ({MODELS_VARIABLE} names another folder)"
        return suggest(wanted.name, names) or f"; there: {', '.join(names[:_FEW])}" + (", ..." if names[_FEW:] else "")

    def _same(self, record: Record, version: str | None) -> Stored | None:
        """Return the version whose files are those of a record; with `version`, that one."""
        for one in reversed(self.versions(record.name)):
            if version not in (None, one):
                continue
            with suppress(ModelError):
                found = self.stored(record.name, one)
                if found.record.files == record.files and found.torn is None:
                    return found
            if version is not None:
                raise ConfigurationError(
                    f"{Reference(record.name, version)} is there with other files, and versions never change: give "
                    f"another --version, or none for {self._next(record.name)}"
                )
        return None

    def _next(self, name: str) -> str:
        versions = self.versions(name)
        return str(version_key(versions[-1])[0] + 1) if versions else "1"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the store's lock. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = _lock(self.folder / _LOCK)
        try:
            yield
        finally:
            os.close(lock)


def stored_model(path: Path) -> Stored | None:
    """Return the version of the store that a model's file belongs to; None for a file elsewhere. Raises nothing."""
    folder = path.parent
    if not is_version(folder.name) or not (folder / RECORD_FILE).is_file():
        return None
    with suppress(ModelError):
        return Stored(folder, read_record(folder))
    return None


def _entries(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(path.name for path in folder.iterdir() if path.is_dir())
    return []


def _lock(path: Path, *, waits: bool = True) -> int:
    """Return the descriptor of a file whose lock is held until it is closed. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(place: Path) -> None:
    """Remove what processes that have died were putting together; those that live hold a lock."""
    for left in place.iterdir():
        lock: int | None
        try:
            lock = _lock(left / "lock", waits=False)
        except BlockingIOError:
            continue
        except OSError:
            lock = None
        shutil.rmtree(left, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def link_or_copy(source: Path, target: Path) -> None:
    """Put a file to another place of the same disk, and leave it where it is: linked, or copied where links are not
    possible. Raises OSError.
    """
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def recorded(folder: Path) -> dict[str, FileRecord]:
    """Return what the files of a folder are. Raises OSError."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): FileRecord(_digest(path, _stamp(path)), path.stat().st_size) for path in paths
    }


def _to_disk(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written again. Raises OSError."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=64)
def _digest(path: Path, stamp: tuple[int, ...]) -> str:
    """Return the SHA-256 of a file, which is read once while it stays the same. Raises OSError."""
    del stamp
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _size(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else None
    return None
