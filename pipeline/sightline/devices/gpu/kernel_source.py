"""A `.cu` file as this program reads it: its text, the headers it includes, and its kernels with their parameters.

One source, two compilers: NVRTC makes what a GPU runs (`nvrtc.py`), a host compiler what tests run
(`sightline.testing.gpu`). Both are given exactly what is read here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sightline.devices.gpu.kernel_arguments import Parameter
from sightline.errors import KernelError

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*'
    r"\((?P<parameters>[^)]*)\)\s*\{"
)


@dataclass(frozen=True)
class KernelSource:
    """The text of a `.cu` file, and of the headers beside it that it includes with `#include "name.cuh"`, by name.

    Kernels are written as `extern "C" __global__ void name(parameters) {`, each by itself: a macro that makes kernels
    hides them. Sources are values: the same text is the same source, wherever it lies.
    """

    name: str
    text: str
    headers: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> KernelSource:
        """The source at that path, with all headers that it needs. Raises KernelError for a file that is not there."""
        text = _read(path, wanted_by=None)
        headers: dict[str, str] = {}
        waiting = [(path.name, text)]
        while waiting:
            including, content = waiting.pop()
            for found in _INCLUDE.finditer(content):
                header = found[1]
                if header not in headers:
                    line = content.count("\n", 0, found.start()) + 1
                    headers[header] = _read(path.parent / header, wanted_by=f"{including}:{line}")
                    waiting.append((header, headers[header]))
        return cls(path.name, text, headers)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """What the text and its headers come to: equal for equal content only."""
        digest = hashlib.sha256()
        for name, text in ((self.name, self.text), *sorted(self.headers.items())):
            for part in (name.encode(), text.encode()):
                digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()

    @cached_property
    def kernels(self) -> Mapping[str, tuple[Parameter, ...]]:
        """The kernels of the file and the parameters of each, by name."""
        plain = _COMMENT.sub(" ", self.text)
        return {found["name"]: _parameters(found["parameters"]) for found in _KERNEL.finditer(plain)}

    def replaced(self, old: str, new: str) -> KernelSource:
        """The same source with `old` replaced by `new` wherever it stands: how tests make mutants.

        Raises ValueError when `old` stands nowhere, so that no test breaks a kernel that has moved on.
        """
        texts = (self.text, *self.headers.values())
        if not any(old in text for text in texts):
            raise ValueError(f"{self.name} and its headers do not contain {old!r}")
        headers = {name: text.replace(old, new) for name, text in self.headers.items()}
        return KernelSource(self.name, self.text.replace(old, new), headers)


def _read(path: Path, *, wanted_by: str | None) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        wanted = f", which {wanted_by} includes" if wanted_by else ""
        raise KernelError(f"no file {path}{wanted}: headers lie beside the .cu file that includes them") from None


def _parameters(text: str) -> tuple[Parameter, ...]:
    return tuple(Parameter.parse(part) for part in text.split(",") if part.strip() not in ("", "void"))
