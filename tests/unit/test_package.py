"""The face of the package."""

from __future__ import annotations

import subprocess
import sys

import sightline


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(sightline, name) for name in sightline.__all__)


def test_public_names_are_sorted() -> None:
    assert sightline.__all__ == sorted(sightline.__all__)


def test_importing_the_package_is_light() -> None:
    heavy = ("cv2", "av", "openvino", "onnxruntime", "numpy")
    code = f"import sys, sightline; print([name for name in {heavy} if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"
