"""Virtual environments that hold Sightline from a wheel and share the other packages of this environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment."""

    folder: Path

    @property
    def packages(self) -> Path:
        """The folder that its packages are in."""
        return self.folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"

    def run(self, *command: str, cwd: Path, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment's `bin`, in a folder, without what this environment's variables add.

        `changed` are variables of its own.
        """
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | changed
        return subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            cwd=cwd,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def new_environment(folder: Path, wheel: Path, *, without: tuple[str, ...] = ()) -> Environment:
    """Make an environment in a folder and install a wheel into it; other packages are linked from this environment.

    `without` are beginnings of names in `site-packages` that are not linked. No package index is asked.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    made = Environment(folder)
    left_out = ("sightline", "_editable_impl_sightline", *without)
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(left_out) and path.suffix != ".pth":
            (made.packages / path.name).symlink_to(path)
    options = ("--no-index", "--no-deps", "--quiet", "--no-warn-script-location")
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"))
    subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    return made
