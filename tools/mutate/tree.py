"""A copy of the tree in which modules are changed and tests run. The checkout itself is only read."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tools.mutate.changes import Change

CODE = ("pipeline", "plugins")
_MEMORY_BYTES = 12 << 30
_LATER_NS = 10_000_000_000
_WAITING = 10


class Tree:
    """The files that git tracks or would track, in a folder of their own. Used by one thread.

    Processes that run there import the copy's packages and have a home and a temporary folder inside `work`.
    """

    def __init__(self, checkout: Path, *, work: Path) -> None:
        self.root = work / "tree"
        self._home = work / "home"
        self._home.mkdir(parents=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=checkout,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (checkout / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / name, self.root / name)
        subprocess.run([sys.executable, "-m", "compileall", "-q", *CODE, "tests"], cwd=self.root, check=True)

    def modules(self) -> list[str]:
        """All modules of the wheel, as paths from the root."""
        return sorted(
            str(module.relative_to(self.root)) for folder in CODE for module in (self.root / folder).rglob("*.py")
        )

    def source(self, path: str) -> bytes:
        """The content of a module."""
        return (self.root / path).read_bytes()

    def fingerprint(self, suites: Sequence[str]) -> str:
        """The same for the same code, tests and suites."""
        digest = hashlib.sha256("\0".join(suites).encode())
        for folder in (*CODE, "tests"):
            for path in sorted((self.root / folder).rglob("*.py")):
                digest.update(str(path.relative_to(self.root)).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()[:16]

    @contextlib.contextmanager
    def changed(self, path: str, change: Change) -> Iterator[None]:
        """Apply a change to a module while the block runs. What was compiled from it knows it by its size and its time
        in seconds: it is later with the change, and as it was with its content.
        """
        module = self.root / path
        source, times = module.read_bytes(), module.stat()
        try:
            module.write_bytes(change.applied(source))
            os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns + _LATER_NS))
            yield
        finally:
            module.write_bytes(source)
            os.utime(module, ns=(times.st_atime_ns, times.st_mtime_ns))

    def pytest(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> int | None:
        """Run pytest in the copy; returns its exit code, or None when it took longer than `seconds`.

        These are seconds of a processor, so that other work of the machine does not count; a test that only waits has
        ten times as long. It ends with all processes that it started, and its temporary files go.
        """
        temporary = self._home / "tmp"
        temporary.mkdir()
        own = {
            "PYTHONPATH": os.pathsep.join(str(self.root / folder) for folder in (*CODE, "")),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self._home),
            "TMPDIR": str(temporary),
            "OMP_NUM_THREADS": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.root,
            env={**os.environ, **own, **(environment or {})},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=partial(_limit, seconds),
        )
        try:
            code = process.wait(None if seconds is None else _WAITING * seconds)
            return None if code == -signal.SIGXCPU else code
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            shutil.rmtree(temporary, ignore_errors=True)


def _limit(seconds: float | None) -> None:
    """A change may ask for any amount of memory and compute without end; the machine goes on."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    if seconds is not None:
        whole = math.ceil(seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 1))
