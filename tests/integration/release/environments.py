"""Virtual environments that hold Sightline from a wheel and share the other packages of this environment."""

from __future__ import annotations

import fcntl
import os
import shutil
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
    """Make an environment in a folder with what a wheel installs; other packages are linked from this environment.

    `without` are beginnings of names in `site-packages` that are not linked. No package index is asked.
    """
    made, base = _empty_environment(folder), _base(wheel)
    left_out = ("sightline", "_editable_impl_sightline", *without)
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(left_out) and path.suffix != ".pth":
            (made.packages / path.name).symlink_to(path)
    shutil.copytree(base.packages, made.packages, dirs_exist_ok=True)
    program = (base.folder / "bin" / "sightline").read_text()
    (folder / "bin" / "sightline").write_text(program.replace(str(base.folder), str(folder)))
    (folder / "bin" / "sightline").chmod(0o755)
    return made


def _base(wheel: Path) -> Environment:
    """An environment beside the wheel with nothing else in it, which pip makes once for all processes of the run: it
    takes 3 s of the processor to install the wheel and to compile its modules.
    """
    base = Environment(wheel.parent / "base")
    with (wheel.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base.folder / "bin" / "sightline").exists():
            made = _empty_environment(wheel.parent / "base")
            options = ("--no-index", "--no-deps", "--quiet", "--no-warn-script-location")
            pip = (sys.executable, "-m", "pip", "--python", str(made.folder / "bin" / "python"))
            subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    return base


def _empty_environment(folder: Path) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return Environment(folder)
