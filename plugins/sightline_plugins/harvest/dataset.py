"""The folder of a harvest: images, `frames.jsonl`, and the pre-labels that are written from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from sightline.errors import OutputError
from sightline.graph import Clock, Outputs
from sightline.graph.outputs import LineFile, output_error
from sightline.graph.ownership import is_foreign
from sightline_plugins.harvest.formats import DEFAULT_IMAGE_URL, DOCUMENTS, IMAGES, LABELS, documents, label_path
from sightline_plugins.harvest.harvest import MANIFEST, Harvest
from sightline_plugins.harvest.manifest import (
    HarvestRecord,
    Labels,
    alive_lines,
    decoded,
    header_line,
    kept_of,
    record_line,
    removed_line,
)
from sightline_plugins.harvest.selection import Kept

_EXPORT_NS = 60_000_000_000
_MOST_BYTES = 1 << 31
_PART = ".part"


class Dataset:
    """Images with their records, on disk at every moment, and pre-labels from time to time. Used by one thread.

    An image is there before its line, and goes after the line that takes it back; so a kill leaves images without a
    line at most, which the next run removes. Every file but `frames.jsonl` is written aside and renamed. Methods raise
    OutputError; what they were to do may be tried again.
    """

    def __init__(self, element: Harvest, *, outputs: Outputs, clock: Clock) -> None:
        self._element = element
        self._outputs = outputs
        self._clock = clock
        self._folder = outputs.path(f"{element.path}/{MANIFEST}").parent
        self._manifest = self._folder / MANIFEST
        self.labels = Labels(element.classes)
        self._lock: IO[bytes] | None = None
        self._file: LineFile | None = None
        self._images: set[str] = set()
        self._label_files: set[str] = set()
        self._written_labels: int | None = None
        self._is_compact = True
        self._is_exported = True
        self._exported_ns = clock.monotonic_ns()

    @property
    def is_open(self) -> bool:
        """Whether it can take frames."""
        return self._file is not None

    def open(self) -> list[Kept]:
        """Open the folder, and return what earlier runs have kept. Raises OutputError, also where another process
        writes to it.
        """
        outputs = self._outputs
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(self._folder, error, doing="make") from error
        if self._lock is None:
            self._lock = outputs.lock(self._manifest)
        if self._lock is None:
            text = f"cannot write {self._folder}: another process harvests into it"
            raise OutputError(f"{text}; name another folder", reason="another process writes there")
        content = outputs.read_back(self._manifest, most_bytes=_MOST_BYTES) or b""
        whole = content[: content.rfind(b"\n") + 1]
        alive = alive_lines(whole.splitlines(keepends=True), self.labels, name=str(self._manifest))
        try:
            kept = [kept_of(record, self.labels) for record in decoded(alive.values())]
        except (ValueError, IndexError, ZeroDivisionError) as error:
            text = f"cannot go on with {self._manifest}: it is not as `harvest` has written it ({error})"
            raise OutputError(f"{text}: name another folder", reason="its folder is damaged") from error
        self._images = set(alive)
        if whole:
            self._take_over_files()
            file = outputs.open_again(self._manifest, whole_bytes=len(whole))
        else:
            file = outputs.open_lines(self._manifest)
        self._is_compact = whole.count(b"\n") <= len(alive) + 1
        self._is_exported = not whole
        self._written_labels = len(self.labels.names) if whole else None
        self._file = file
        return kept

    def free_name(self, name: str) -> str:
        """Return the name of an image that is not taken yet, without suffix to begin with."""
        free, number = f"{name}.jpg", 1
        while free in self._images:
            number += 1
            free = f"{name}-{number}.jpg"
        return free

    def add(self, record: HarvestRecord, image: bytes, *, replaced: Sequence[str]) -> None:
        """Write an image and its record, and take back the frames that it replaces; on an error, nothing is changed."""
        path = self._folder / IMAGES / record.image
        self._replace(path, image)
        lines = [record_line(record), *map(removed_line, replaced)]
        is_known, is_first = self._written_labels == len(self.labels.names), self._written_labels is None
        if not is_known:
            lines.insert(0, header_line(self.labels))
        try:
            self._append(b"".join(lines))
        except OutputError:
            with suppress(OutputError):
                self._outputs.remove(path)
            raise
        self._written_labels = len(self.labels.names)
        self._images.add(record.image)
        self._images.difference_update(replaced)
        self._is_compact = self._is_compact and not replaced and (is_known or is_first)
        self._is_exported = False
        for name in replaced:
            self._remove_files(name)

    def export_if_due(self) -> bool:
        """Write the pre-labels if something has changed, once a minute; return whether they were written."""
        is_due = not self._is_exported and self._clock.monotonic_ns() - self._exported_ns >= _EXPORT_NS
        if is_due:
            self.export()
        return is_due

    def export(self) -> None:
        """Write the pre-labels of all frames, and `frames.jsonl` without those that were replaced."""
        if self._file is None or self._is_exported:
            return
        self._exported_ns = self._clock.monotonic_ns()
        if not self._is_compact:
            self._compact()
        url = self._element.image_url or DEFAULT_IMAGE_URL
        found = documents(
            self._element.format, decoded(self._lines()), self.labels, image_url=url, known=self._label_files
        )
        for name, content in found:
            self._replace(self._folder / name, content)
            if name.startswith(f"{LABELS}/"):
                self._label_files.add(name)
        self._is_exported = True

    def close(self) -> None:
        """Write what is left to write, and release the folder. Harmless when called again."""
        try:
            self.export()
        finally:
            file, self._file = self._file, None
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.close()
            if file is not None:
                file.close()

    def _append(self, lines: bytes) -> None:
        assert self._file is not None, "it is open"
        if not self._file.is_open:  # after an error
            self._file = self._outputs.open_again(self._manifest, whole_bytes=self._file.whole_bytes)
        self._file.write(lines)

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of the frames that are kept; there are no others once it is compact."""
        try:
            with self._manifest.open("rb") as file:
                yield from (line for line in file if line.startswith(b'{"stream":'))
        except OSError as error:
            raise output_error(self._manifest, error, doing="read") from error

    def _compact(self) -> None:
        """Write `frames.jsonl` anew, with the lines of the frames that are kept."""
        try:
            with self._manifest.open("rb") as file:
                alive = alive_lines(file, self.labels, name=str(self._manifest))
        except OSError as error:
            raise output_error(self._manifest, error, doing="read") from error
        content = b"".join([header_line(self.labels), *alive.values()])
        self._replace(self._manifest, content)
        self._written_labels = len(self.labels.names)
        if self._file is not None:
            self._file.close()
        self._file = self._outputs.open_again(self._manifest, whole_bytes=len(content))
        self._is_compact = True

    def _replace(self, path: Path, content: bytes) -> None:
        """Write a file aside, and give it its name."""
        part = path.with_name(f".{path.name}{_PART}")
        try:
            file = self._outputs.open_lines(part)
            file.write(content)
            file.close()
            self._outputs.rename(part, to=path)
        except OutputError:
            with suppress(OutputError):
                self._outputs.remove(part)
            raise

    def _remove_files(self, image: str) -> None:
        """Remove the image and the labels of a frame that is no longer kept; where that fails, the next run does."""
        labels = label_path(image)
        self._label_files.discard(labels)
        for path in (self._folder / IMAGES / image, self._folder / labels):
            with suppress(OutputError):
                self._outputs.remove(path)

    def _take_over_files(self) -> None:
        """Remove what a killed run has left: files that were not finished, and images of ours without a record. Mark
        what has one, where the file system has lost the marks.
        """
        ours = {self._folder / name for name in (MANIFEST, *DOCUMENTS)}
        ours |= {self._folder / IMAGES / name for name in self._images}
        ours |= {self._folder / label_path(name) for name in self._images}
        for path in _files_of((self._folder, self._folder / IMAGES, self._folder / LABELS)):
            is_part = path.name.startswith(".") and path.name.endswith(_PART)
            if path in ours:
                self._outputs.mark(path)
            elif is_part or (path.parent.name == IMAGES and path.suffix == ".jpg" and not is_foreign(path)):
                self._outputs.remove(path)


def _files_of(folders: Iterable[Path]) -> list[Path]:
    """Return the plain files in folders, as far as these are there."""
    return [path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()]
