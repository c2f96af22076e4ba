"""The private folder of a supervised pipeline: its socket, and locks that tell who runs it."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from sightline.errors import ConfigurationError

_LONGEST_PATH = 100
"""Bytes of a Unix socket's path; the system takes some more."""
_BACKLOG = 128


def runtime_folder() -> Path:
    """`$XDG_RUNTIME_DIR/sightline`, else `sightline-UID` in the folder of temporary files; made when it is not there.

    Raises ConfigurationError when it belongs to somebody else, or others may enter it.
    """
    given = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(given) / "sightline" if given else Path(tempfile.gettempdir()) / f"sightline-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be made: {error.strerror}; set XDG_RUNTIME_DIR") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigurationError(
            f"{folder} must be a folder of yours that nobody else may enter (mode 0700): remove it, or set"
            " XDG_RUNTIME_DIR to another place"
        )
    return folder


class Claim:
    """The right of one server to run one file, and what is left of servers before.

    A lock of the server says that it runs the file. Another one goes to the worker and is held as long as that lives,
    so that a server that starts again knows whether a worker of the one before is still closing its outputs.
    """

    def __init__(self, file: Path) -> None:
        """Raises ConfigurationError when another server runs the file, or the folder cannot be used."""
        folder = runtime_folder() / hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:16]
        folder.mkdir(mode=0o700, exist_ok=True)
        self.socket = folder / "socket"
        if len(os.fsencode(self.socket)) > _LONGEST_PATH:
            raise ConfigurationError(f"{folder} is too long for a socket: set XDG_RUNTIME_DIR to a shorter path")
        self._worker = folder / "worker"
        self._server = _lock(folder / "server")
        if self._server is None:
            raise ConfigurationError(f"{file} is run by another `sightline serve`: end that one first")

    def take(self) -> int | None:
        """Return a descriptor that holds the lock of the worker, to be passed to it; None while an earlier worker
        lives.
        """
        return _lock(self._worker)

    def note(self, descriptor: int, pid: int) -> None:
        """Write down which process has the lock of the worker."""
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(pid).encode(), 0)

    def holder(self) -> int | None:
        """The process that was noted last."""
        try:
            return int(self._worker.read_text())
        except (OSError, ValueError):
            return None

    def listen(self) -> socket.socket:
        """Return a socket that listens for the requests of the server; an earlier one is removed."""
        self.socket.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(self.socket))
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        return listening

    def close(self) -> None:
        """Leave the file to others; harmless when called again."""
        self.socket.unlink(missing_ok=True)
        if self._server is not None:
            os.close(self._server)
            self._server = None


def _lock(path: Path) -> int | None:
    """Return a descriptor of a file that holds its lock, until it and its copies are closed; None when it is taken."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
