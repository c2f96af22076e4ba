"""Compile the C sources of the wheel, and put sample models, clips, pipelines of the demo and documentation into it.

Hatchling runs this hook for wheels (`pyproject.toml`). The compiler is Clang as the package `ziglang` brings it: pip
installs it for the build, so nobody needs a compiler, and the library comes out the same on every machine, for every
system in `SYSTEMS` (`SIGHTLINE_SYSTEM` names another one than this). An editable install has the library in its
tree, where `python -m tools.release.wheel_hook` compiles it again; samples are found in the repository.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SAMPLES = (
    "configs/demo.yaml",
    "configs/town.yaml",
    *(f"sample_videos/{name}.mp4" for name in ("dusk", "entrance", "gate", "street")),
)
"""Files of the repository that the wheel holds beside `models/`, at the same paths below its folder of samples."""
PAGES = ("docs/*.md", *(f"docs/{name}/*.md" for name in ("commands", "elements", "extend", "guide", "sources")))
"""The documentation that `sightline mcp` gives to assistants, at the same paths below that folder, too."""
TARGET = "sightline_plugins/samples/data"
SOURCES = "plugins/sightline_plugins"
"""Where C sources lie beside the Python that calls them."""
LIBRARY = "sightline_plugins/native/libsightline.so"
"""The compiled library in the wheel, and below `plugins/` in an editable install."""
VARIABLE = "SIGHTLINE_SYSTEM"
FLAGS = (
    "-std=c11",
    "-O3",
    "-g0",
    "-s",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    "-Werror",
)
"""Results are the same on every processor: nothing is contracted or reassociated."""


class System(NamedTuple):
    """A system that the library is compiled for: the compiler's name of it, and the wheel's."""

    target: str
    tag: str


SYSTEMS = {
    "Linux-x86_64": System("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "Linux-aarch64": System("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
    "Darwin-arm64": System("aarch64-macos.11.0", "macosx_11_0_arm64"),
}


def system() -> System:
    """Return the system to compile for. Raises ValueError for one that Sightline does not run on."""
    name = os.environ.get(VARIABLE) or f"{platform.system()}-{platform.machine()}"
    if name not in SYSTEMS:
        raise ValueError(f"Sightline is not built for {name}, only for {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def compile_library(root: Path, target: Path, *, of: System) -> None:
    """Compile all C sources of a tree to a library. Raises RuntimeError with what the compiler said."""
    sources = sorted(str(path) for path in (root / SOURCES).rglob("*.c"))
    if not sources:
        raise RuntimeError(f"no C sources in {root / SOURCES}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, "-target", of.target, "-I", str(root / SOURCES)]
        environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
        done = subprocess.run(
            [*command, *sources, "-o", str(target)], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"the C sources cannot be compiled for {of.target}:\n{done.stderr}")


class WheelHook(BuildHookInterface):  # type: ignore[type-arg]  # its parameter is the configuration of the builder
    """Adds the library to a wheel, and the samples to one that is not editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the files for the wheel; raise FileNotFoundError when the tree lacks one."""
        root, compiled = Path(self.root), system()
        build_data["tag"], build_data["pure_python"] = f"py3-none-{compiled.tag}", False
        if version == "editable":
            compile_library(root, root / "plugins" / LIBRARY, of=compiled)
            return
        self._folder = tempfile.TemporaryDirectory()
        library = Path(self._folder.name) / Path(LIBRARY).name
        compile_library(root, library, of=compiled)
        build_data["force_include"][str(library)] = LIBRARY
        models = sorted(str(path.relative_to(root)) for path in (root / "models").rglob("*") if path.is_file())
        if not models:
            raise FileNotFoundError(f"no sample models in {root / 'models'}")
        pages = sorted(str(path.relative_to(root)) for pattern in PAGES for path in root.glob(pattern))
        for name in (*SAMPLES, *models, *pages):
            if not (root / name).is_file():
                raise FileNotFoundError(f"the wheel needs {name}, which is missing in {root}")
            build_data["force_include"][str(root / name)] = f"{TARGET}/{name}"


if __name__ == "__main__":
    _ROOT = Path(__file__).parents[2]
    compile_library(_ROOT, _ROOT / "plugins" / LIBRARY, of=system())
