"""Runs Python under AddressSanitizer and UndefinedBehaviorSanitizer, so that kernels built with them can be loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sightline.errors import KernelError
from sightline.testing.gpu.host_build import SANITIZE_VARIABLE, compiler

_OPTIONS = "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1"


def run_sanitized(arguments: Sequence[str], *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python` with these arguments (`["-c", "..."]`, `["-m", "pytest", ...]`) in a child process.

    Kernels are built with both sanitizers there. The first access outside of an allocation, or at an address that is
    no multiple of what is read, ends the child with a status other than 0 and a report in `stderr` that names the
    kernel's file and line.
    """
    environment = {
        **os.environ,
        "LD_PRELOAD": _runtime(),
        "ASAN_OPTIONS": _OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        SANITIZE_VARIABLE: "1",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def _runtime() -> str:
    """The sanitizer's own library, which must be the first in the process."""
    asked = [compiler(), "-print-file-name=libasan.so"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    if not Path(path).is_absolute():
        raise KernelError("AddressSanitizer's library is not there: install libasan of the C++ compiler")
    return path
