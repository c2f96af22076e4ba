"""Entry points are read once, as long as modules are imported from the same places."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from sightline import installed as module
from sightline.installed import installed


def test_metadata_is_read_again_when_the_path_changes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saw = EntryPoint("saw", "acme_tools:SAW", "sightline.tests")
    readings: list[EntryPoints] = []

    def read() -> EntryPoints:
        readings.append(EntryPoints([saw]))
        return readings[-1]

    monkeypatch.setattr(module, "entry_points", read)
    monkeypatch.syspath_prepend(str(tmp_path / "one"))

    assert list(installed("sightline.tests")) == [saw]
    assert list(installed("sightline.others")) == []
    assert len(readings) == 1
    monkeypatch.syspath_prepend(str(tmp_path / "another"))
    assert list(installed("sightline.tests")) == [saw]
    assert len(readings) == 2
