"""Which distribution provides a compiled library, and what to do when several do or when its import fails.

Some modules come from one of several distributions: `cv2` from `opencv-python-headless` or `opencv-python`,
`onnxruntime` from `onnxruntime` or `onnxruntime-gpu`. pip does not know that they exclude each other. Installed
together, the files of one replace those of the other, and removing one breaks what is left. Nothing is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

OPENCV = ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python")
"""Distributions of the module `cv2`; the first is the one that Sightline asks for."""

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


def clash(distributions: Sequence[str]) -> str | None:
    """Return what to do when several distributions of one module are installed; None when there is one at most."""
    found = installed_versions(distributions)
    if len(found) < 2:
        return None
    named = " and ".join(f"{name} {number}" for name, number in found.items())
    return f"{named} overwrite each other's files; keep one, for example: {_exchange(found, distributions[0])}"


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
