from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline.graph.registry import Extensions

GROUP = "sightline.tests"


@dataclass
class Tool:
    name: str


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Extensions[Tool]:
    """Extensions of a package with one that is right, and three that are not."""
    metadata = tmp_path / "acme_tools-1.0.dist-info"
    metadata.mkdir()
    (tmp_path / "acme_tools.py").write_text(
        f"from {__name__} import Tool\nSAW, AXE, WORD = Tool('saw'), Tool('hatchet'), 'word'\n"
    )
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tools\nVersion: 1.0\n")
    entries = {"word": "WORD", "saw": "SAW", "axe": "AXE", "none": "NONE"}
    lines = "".join(f"{name} = acme_tools:{value}\n" for name, value in entries.items())
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_tools", raising=False)
    return Extensions(GROUP, accepts=lambda found: isinstance(found, Tool), kind="tool")


def test_names_are_listed_in_order_without_an_import(tools: Extensions[Tool]) -> None:
    assert list(tools) == ["axe", "none", "saw", "word"]
    assert "saw" in tools
    assert "acme_tools" not in sys.modules


def test_an_extension_is_loaded_by_its_name(tools: Extensions[Tool]) -> None:
    assert tools["saw"] == Tool("saw")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("axe", "calls itself 'hatchet', its entry point says 'axe'"),
        ("word", "is no tool"),
        ("none", "cannot be loaded"),
    ],
)
def test_what_is_no_extension_is_an_error_that_names_the_package(
    tools: Extensions[Tool], name: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        tools[name]
    assert "acme-tools" in str(raised.value)


def test_an_unknown_name_is_a_key_error(tools: Extensions[Tool]) -> None:
    with pytest.raises(KeyError):
        tools["drill"]
