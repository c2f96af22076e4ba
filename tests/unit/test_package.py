"""The face of the package."""

from __future__ import annotations

import subprocess
import sys

import sightline
import sightline_plugins
from sightline.graph import Element, Registry, SourceElement


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(sightline, name) for name in sightline.__all__)


def test_public_names_are_sorted() -> None:
    assert sightline.__all__ == sorted(sightline.__all__)


def test_importing_the_package_is_light() -> None:
    heavy = ("cv2", "av", "openvino", "onnxruntime", "numpy")
    code = f"import sys, sightline; print([name for name in {heavy} if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"


def test_every_shipped_element_and_source_can_be_imported_by_its_name() -> None:
    registry = Registry()
    described: list[type[Element] | type[SourceElement]] = [
        *(registry.element(name) for name in registry.element_names if registry.package(name) == "sightline"),
        *(registry.source(name) for name in registry.source_names if registry.package(name) == "sightline"),
    ]

    assert {one.__name__ for one in described} == set(sightline_plugins.__all__)
    assert all(getattr(sightline_plugins, one.__name__) is one for one in described)
