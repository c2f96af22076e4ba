"""Output files: the one opener. Inside the output root, no link followed, a full disk told apart from other trouble."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import IO

from pydantic import BaseModel

from sightline.errors import OutputError, ReaderGone
from sightline.graph.fields import PathRole, is_url, paths_of
from sightline.graph.ownership import is_foreign, mark

_FILES_REPORTED = 1000
FOREIGN = "was not written by Sightline: name another file, or allow it with --overwrite (in YAML `overwrite: true`)"
"""The end of a message about an existing file that is not replaced."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def safe_name(name: str) -> str:
    """A stream's name as part of a file name: letters, digits, `.`, `_`, `-`; at most 64, never empty nor hidden."""
    return _UNSAFE.sub("_", name).lstrip(".")[:64] or "_"


class Outputs:
    """Opens what a pipeline writes, below one folder (the working directory unless told otherwise).

    A file that was there before and that Sightline did not write is left alone, unless `may_overwrite`.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = Path.cwd() if root is None else root
        self.may_overwrite = False
        self.files: dict[Path, None] = {}
        """What was opened, for the report; the first thousand."""
        self._claimed: set[Path] = set()
        self._claiming = Lock()
        self._protected: dict[Path, str] = {}

    def protect(self, path: Path, what: str) -> None:
        """Never write to this file, `what` (`the model of detect-1`), by whatever path it is named."""
        self._protected[path] = what

    def protect_inputs(self, model: BaseModel, *, of: str) -> None:
        """Never write to a file that an element or a source, called `of`, reads."""
        for key, role, path in paths_of(model):
            if role is not PathRole.OUTPUT and not is_url(path):
                self.protect(Path(path), f"the {'.'.join(key)} of {of}")

    @property
    def protected(self) -> Mapping[Path, str]:
        """The files that are never written to, and what each is."""
        return self._protected

    def protected_as(self, path: Path) -> str | None:
        """Return what a file is that must not be written, whether it is there yet or not; None for another file."""
        for other, what in self._protected.items():
            if os.path.normpath(path.absolute()) == os.path.normpath(other.absolute()):
                return what
            with contextlib.suppress(OSError):
                if path.samefile(other):
                    return what
        return None

    def path(self, template: str, *, stream: str | None = None) -> Path:
        """The file that a template means for a stream: `{stream}` is replaced; relative paths start at the root.

        Raises OutputError when a relative path leaves the root, or names a folder.
        """
        filled = template.replace("{stream}", safe_name(stream)) if stream is not None else template
        if filled.endswith("/"):
            raise OutputError(f"output {filled!r} is a folder: name a file in it")
        path = Path(os.path.normpath(self.root / Path(filled).expanduser()))
        if not Path(filled).expanduser().is_absolute() and not path.is_relative_to(self.root):
            raise OutputError(
                f"output {filled!r} leaves the output folder {self.root}: give a path inside it, or an absolute one"
            )
        return path

    def claim(self, path: Path) -> Path:
        """The path itself, or `name-2`, `name-3` and so on where this run has written that one already: because a
        stream came again, its image changed, or a step was built anew. What is no ordinary file keeps its name.
        """
        with self._claiming:
            free, number = path, 1
            while free in self._claimed and (free.is_file() or not free.exists()):
                number += 1
                free = path.with_stem(f"{path.stem}-{number}")
            self._claimed.add(free)
            return free

    def reserve(self, path: Path) -> bool:
        """Make an empty file, and its folder, so that no other process takes that name; False if it is taken.

        Another reason why it cannot be made is reported when the file is opened.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
        except FileExistsError:
            return not path.parent.is_dir()
        except OSError:
            return True
        return True

    def prepare(self, path: Path) -> Path:
        """Make the folder of an output and see that a plain file can be written there. Raises OutputError.

        A file that has content is not opened, for the reason that `mark` gives: it may be open in this process.
        """
        with contextlib.suppress(OSError):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_size and os.access(path, os.W_OK):
                self._check_replaced(path)
                mark(path)
                self._report(path)
                return path
        os.close(self._opened(path))
        return path

    def mark(self, path: Path) -> None:
        """Mark a file that another library has made for us as written by Sightline; none is made.

        It is not opened: closing it would take away the locks that a library, such as SQLite, holds on it in this
        process, and another process would take the file for one that nobody uses.
        """
        with contextlib.suppress(OSError):
            mark(path)

    def lock(self, path: Path) -> IO[bytes] | None:
        """Take the lock of a file, which stands beside it, until the returned file is closed or the process ends; None
        when another process has it. Raises OutputError.
        """
        beside = path.with_name(f"{path.name}.lock")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            file = os.fdopen(os.open(beside, flags, 0o644), "r+b", buffering=0)
        except OSError as error:
            raise output_error(beside, error, doing="open") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return None
        return file

    def check_replaceable(self, path: Path) -> None:
        """See that a file written aside may take this name: it would replace a device or pipe, not write to it.

        Raises OutputError.
        """
        self._check_replaced(path)
        if path.exists() and not path.is_file():
            raise OutputError(f"cannot write {path}: it is no ordinary file, and would be replaced by one")

    def rename(self, part: Path, *, to: Path) -> None:
        """Give a file that was written aside the name it is meant to have, in a folder that is made. Raises
        OutputError.
        """
        self.check_replaceable(to)
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            part.replace(to)
        except OSError as error:
            raise output_error(to, error, doing="write") from error
        self.files.pop(part, None)
        self._report(to)

    def remove(self, part: Path) -> None:
        """Take away a file that was only needed meanwhile. Raises OutputError."""
        try:
            part.unlink()
        except OSError as error:
            raise output_error(part, error, doing="remove") from error
        self.files.pop(part, None)

    def obstacle(self, path: Path) -> str | None:
        """Return why a file cannot be written there, as far as is known without writing, or None."""
        try:
            if path.is_symlink() or path.is_dir():
                return f"{path} is a {'symbolic link' if path.is_symlink() else 'folder'}: name a file"
            if what := self.protected_as(path):
                return f"{path} is {what}: write to another file"
            if not self.may_overwrite and is_foreign(path):
                return f"{path} {FOREIGN}"
            place = next(place for place in (path, *path.parents) if place.exists())
        except OSError as error:
            return str(output_error(path, error, doing="write"))
        if place != path and not place.is_dir():
            return f"{path} cannot be written: {place} is no folder"
        if not os.access(place, os.W_OK):
            return f"{path} cannot be written: no permission to write to {place}"
        return None

    def open_lines(self, path: Path) -> LineFile:
        """Open a file anew for writing whole lines. Raises OutputError."""
        return LineFile(path, self.open_binary(path))

    def open_again(self, path: Path, *, whole_bytes: int) -> LineFile:
        """Open a file once more, for lines behind its first `whole_bytes`; what comes after those is cut off. It may
        have been removed meanwhile, and a pipe must have its reader: nobody waits for one. Raises OutputError.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(os.open(path, flags, 0o644), "ab", buffering=0)
        except OSError as error:
            raise output_error(path, error, doing="open") from error
        try:
            _lock(file.fileno(), path)
            os.set_blocking(file.fileno(), True)
            size = os.fstat(file.fileno()).st_size
            if size > whole_bytes:
                file.truncate(whole_bytes)
        except OSError as error:
            file.close()
            raise output_error(path, error, doing="write") from error
        except OutputError:
            file.close()
            raise
        return LineFile(path, file, whole_bytes=min(size, whole_bytes))

    def read_back(self, path: Path, *, most_bytes: int) -> bytes | None:
        """Return what an earlier run has written to a plain file; None when it is not there, or empty. Raises
        OutputError, also where it is a link or no plain file, or holds more bytes.
        """
        try:
            file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise output_error(path, error, doing="read") from error
        with file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > most_bytes:
                regular = stat.S_ISREG(about.st_mode)
                reason = f"it has more than {most_bytes} bytes" if regular else "it is no ordinary file"
                raise OutputError(f"cannot read {path}: {reason}", reason=reason)
            try:
                return file.read(most_bytes) or None
            except OSError as error:
                raise output_error(path, error, doing="read") from error

    def open_binary(self, path: Path) -> IO[bytes]:
        """Open a file anew for writing, unbuffered: what was written is in the file. Raises OutputError."""
        descriptor = self._opened(path)
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.ftruncate(descriptor, 0)
        except OSError as error:
            os.close(descriptor)
            raise output_error(path, error, doing="open") from error
        return os.fdopen(descriptor, "wb", buffering=0)

    def _opened(self, path: Path) -> int:
        """Open a file for writing, its folder made, locked and marked as ours; return the descriptor. Raises
        OutputError, also where another run writes the file.
        """
        self._check_replaced(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise output_error(path, error, doing="open") from error
        try:
            _lock(descriptor, path)
        except OutputError:
            os.close(descriptor)
            raise
        mark(descriptor)
        self._report(path)
        return descriptor

    def _check_replaced(self, path: Path) -> None:
        if what := self.protected_as(path):
            raise OutputError(f"cannot write {path}: it is {what}")
        if not self.may_overwrite and is_foreign(path):
            raise OutputError(f"cannot write {path}: it {FOREIGN}")

    def _report(self, path: Path) -> None:
        if len(self.files) < _FILES_REPORTED:
            self.files[path] = None


class LineFile:
    """A file that grows by whole lines: what was written is in the file, and a failed write leaves no torn line.

    The first OSError becomes an OutputError and closes the file; writing to a closed file does nothing. `whole_bytes`
    is how much of it is whole lines, also after an error, and what `Outputs.open_again` asks for.
    """

    def __init__(self, path: Path, file: IO[bytes], *, keep_open: bool = False, whole_bytes: int = 0) -> None:
        self.path = path
        self.whole_bytes = whole_bytes
        self._file: IO[bytes] | None = file
        self._keep_open = keep_open

    @property
    def is_open(self) -> bool:
        """Whether it can be written to: it was neither closed nor given up after an error."""
        return self._file is not None

    def write(self, lines: bytes | bytearray) -> None:
        """Append complete lines in one go. Raises OutputError."""
        if self._file is None:
            return
        rest, written = memoryview(lines), 0
        try:
            while written < len(rest):
                written += self._file.write(rest[written:])
            self._file.flush()
        except OSError as error:
            self._abandon(torn_bytes=written)
            raise output_error(self.path, error, doing="write") from error
        self.whole_bytes += written

    def synchronize(self) -> None:
        """Wait until all is on the disk, so that not even a power cut takes it away. Raises OutputError."""
        if self._file is None:
            return
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            self._abandon(torn_bytes=0)
            raise output_error(self.path, error, doing="write") from error

    def take_back(self, whole_bytes: int) -> None:
        """Take back all but the first `whole_bytes`, which must end with a line. Raises OutputError."""
        self.whole_bytes = min(self.whole_bytes, whole_bytes)
        if self._file is None:
            return
        try:
            self._file.seek(self.whole_bytes)
            self._file.truncate()
        except OSError as error:
            self._abandon(torn_bytes=0)
            raise output_error(self.path, error, doing="write") from error

    def close(self) -> None:
        """Close the file; harmless when it is closed. Raises OutputError."""
        file, self._file = self._file, None
        if file is None or self._keep_open:
            return
        try:
            file.close()
        except OSError as error:
            raise output_error(self.path, error, doing="close") from error

    def _abandon(self, *, torn_bytes: int) -> None:
        file, self._file = self._file, None
        if file is None or self._keep_open:
            return
        with contextlib.suppress(OSError):
            if torn_bytes:
                file.truncate(file.tell() - torn_bytes)
        with contextlib.suppress(OSError):
            file.close()


def _lock(descriptor: int, path: Path) -> None:
    """Let all others see, until the file is closed or this process ends, that it is being written (see `take_over`).

    Where the file system has no locks, and for pipes and devices, it does nothing. Raises OutputError when somebody
    else writes the file, or compresses it.
    """
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OutputError(
            f"cannot write {path}: another run is writing it; end that run, or name another file",
            reason="another run is writing it",
        ) from error
    except OSError:
        return


def take_over(path: Path) -> IO[bytes] | None:
    """Open a file for reading, locked, that nobody writes any more: its run has closed it, or was killed.

    None where it is being written or was taken over by another process, where that cannot be known, and where it is
    empty: a file is locked before anything is written to it.
    """
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except OSError:
        return None
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        about = os.fstat(file.fileno())
    except OSError:
        file.close()
        return None
    if not stat.S_ISREG(about.st_mode) or not about.st_size or not about.st_nlink:
        file.close()
        return None
    return file


_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ELOOP: "it is a symbolic link, and links are not followed",
    errno.EISDIR: "it is a folder",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.EEXIST: "a part of its path is not a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOENT: "its folder is not there and cannot be made",
    errno.ENXIO: "nobody reads from this pipe",
    errno.EFBIG: "it has reached the largest size a file may have here",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open on this machine",
}
_KEPT = "what was written before is kept"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ADVICE = {
    errno.EMFILE: "raise the limit (ulimit -n), or write fewer files at once",
}


STANDARD_OUTPUT_NAME = Path("standard output")
"""What standard output is called where a path is; files have absolute ones."""


def output_error(path: Path, error: OSError, *, doing: str) -> OutputError:
    """The error to raise when the system refuses to open, write or close an output."""
    number = error.errno or 0
    reason = _REASONS.get(number, error.strerror or str(error))
    advice = _KEPT if number in _NO_ROOM and _holds_something(path) else _ADVICE.get(number)
    text = "; ".join(filter(None, (reason, advice)))
    kind = ReaderGone if number == errno.EPIPE and path == STANDARD_OUTPUT_NAME else OutputError
    return kind(f"cannot {doing} {path}: {text}", reason=reason)


def _holds_something(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
