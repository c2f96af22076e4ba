"""Compiled libraries: which distribution provides one, what to do when its import fails, and what they report.

Some modules come from one of several distributions: `cv2` from `opencv-python-headless` or `opencv-python`,
`onnxruntime` from `onnxruntime` or `onnxruntime-gpu`. pip does not know that they exclude each other. Installed
together, the files of one replace those of the other, and removing one breaks what is left.

Two engines report to their authors by default: OpenVINO each import (the package
`openvino_telemetry`), ONNX Runtime (1.32, on Linux) each session. Sightline sends nothing anywhere unasked, so both are
silenced, in every process that imports them through Sightline.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

OPENCV = ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python")
"""Distributions of the module `cv2`; the first is the one that Sightline asks for."""

_REPORTER = "openvino_telemetry"
_MISSING_LIBRARY = re.compile(r"(?P<library>[\w.+-]+\.so[\w.]*): cannot open shared object file")


def installed_versions(distributions: Sequence[str]) -> dict[str, str]:
    """Return the versions of those distributions that are installed, by name, in the order given."""
    versions: dict[str, str] = {}
    for name in distributions:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def clash(distributions: Sequence[str], *, keep: str | None = None) -> str | None:
    """Return what to do when several distributions of one module are installed; None when there is one at most.

    `keep` is what to install instead of them, as pip takes it; None for the first.
    """
    found = installed_versions(distributions)
    if len(found) < 2:
        return None
    named = " and ".join(f"{name} {number}" for name, number in found.items())
    return f"{named} overwrite each other's files; keep one, for example: {_exchange(found, keep or distributions[0])}"


def import_advice(error: Exception, distributions: Sequence[str]) -> str:
    """Return what to do when the import of a module of these distributions failed with an error."""
    if several := clash(distributions):
        return several
    found = installed_versions(distributions)
    if not found:
        return f"it is not installed: pip install {distributions[0]}"
    (name,) = found
    if name == distributions[0]:
        return f"its files are damaged or incomplete: pip install --force-reinstall --no-deps {name}"
    if missing := _MISSING_LIBRARY.search(str(error)):
        return (
            f"{name} needs {missing['library']}, which this system lacks; {distributions[0]} does not need it: "
            f"{_exchange(found, distributions[0])}"
        )
    return f"try {distributions[0]} instead: {_exchange(found, distributions[0])}"


def _exchange(found: dict[str, str], kept: str) -> str:
    return f"pip uninstall -y {' '.join(found)} && pip install {kept}"


def decline_telemetry() -> None:
    """Have ONNX Runtime report nothing when it is imported afterwards; a variable that the user has set stands."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def import_silently(module: str) -> ModuleType:
    """Import a library without letting it report that; OpenVINO takes a stand-in for the package that does it.

    Raises whatever the import raises.
    """
    decline_telemetry()
    hidden = _REPORTER not in sys.modules
    if hidden:
        sys.modules[_REPORTER] = None  # type: ignore[assignment]
    try:
        return import_module(module)
    finally:
        if hidden:
            sys.modules.pop(_REPORTER, None)
