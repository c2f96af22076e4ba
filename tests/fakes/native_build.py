"""Build C sources: the compiled part with sanitizers, to run Python with it in a child process (see `host_build.py`).

    python -m tests.fakes.native_build LIBRARY MODULE [ARGUMENTS]

is that child: it runs a module with another library than the one that is installed.
"""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sightline_plugins import native

SOURCES = Path(native.__file__).parents[1]
_FLAGS = ("-std=c11", "-O1", "-g1", "-shared", "-fPIC")
_SANITIZED = (
    "-ffp-contract=off",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
)


def has_compiler() -> bool:
    """Whether gcc is installed."""
    return shutil.which("gcc") is not None


def build_sanitized(library: Path, *, flags: Sequence[str] = ()) -> None:
    """Compile all C sources with the address and undefined-behaviour sanitizers. Raises RuntimeError."""
    compile_library(sorted(SOURCES.rglob("*.c")), library, flags=(*_SANITIZED, *flags, f"-I{SOURCES}"))


def compile_library(sources: Sequence[Path], library: Path, *, flags: Sequence[str] = ()) -> None:
    """Compile C sources to a shared library. Raises RuntimeError with the compiler's words."""
    command = ["gcc", *_FLAGS, *flags, *map(str, sources), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"gcc cannot compile the C sources:\n{done.stderr}")


def sanitized_arguments(library: Path, module: str, *arguments: str) -> list[str]:
    """Return what `run_sanitized` takes to run a module with that library."""
    return ["-m", "tests.fakes.native_build", str(library), module, *arguments]


if __name__ == "__main__":
    native.LIBRARY = Path(sys.argv[1])
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
