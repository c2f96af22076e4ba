"""An element in a package of its own is found, listed, documented, checked and run like the first-party ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = '''
from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from sightline import Batch, Element, Objects, Operator
from sightline.graph import Site
from sightline.media import Origin


class Middle(Element):
    """Finds one object in the middle of every image.

    ```yaml
    - middle: {share: 0.5}
    ```
    """

    name: ClassVar[str] = "middle"

    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """How much of the width and height the object takes."""

    def build(self, site: Site) -> Operator:
        return _Middle(self.share, Origin(site.element_id, ("middle",)))


class _Middle(Operator):
    def __init__(self, share: float, origin: Origin) -> None:
        self.share, self.origin = share, origin

    def process(self, batch: Batch) -> Batch:
        size = np.array([frame.size_wh for frame in batch.frames], np.float32)
        half = size * self.share / 2
        found = Objects.from_columns(
            frame=np.arange(len(batch)), xyxy=np.hstack([size / 2 - half, size / 2 + half]),
            confidence=np.ones(len(batch)), class_id=np.zeros(len(batch)), source=self.origin,
        )
        return batch.with_objects(Objects.concat([batch.objects, found]))
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder that holds the installed form of a small distribution with one element."""
    site = tmp_path / "site"
    metadata = site / "acme_middle-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "acme_middle.py").write_text(MODULE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-middle\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[sightline.elements]\nmiddle = acme_middle:Middle\n")
    return site


def sightline(*arguments: str, package: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sightline.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def write_config(folder: Path, step: str) -> Path:
    config = folder / "p.yaml"
    config.write_text(
        "sources: {cam: {pattern: bars, size: [64, 48], frames: 3}}\n"
        f"pipeline:\n  - {step}\n  - jsonl: {{path: out.jsonl}}\n"
    )
    return config


def test_it_is_listed_with_its_package(package: Path, tmp_path: Path) -> None:
    listing = sightline("elements", package=package, folder=tmp_path)

    row = next(line for line in listing.stdout.splitlines() if "middle" in line)
    assert "acme-middle" in row


def test_it_is_documented_with_its_options_and_example(package: Path, tmp_path: Path) -> None:
    page = sightline("elements", "middle", package=package, folder=tmp_path)

    assert "How much of the width and height the object takes." in page.stdout
    assert "- middle: {share: 0.5}" in page.stdout


def test_its_options_are_checked_like_any_other(package: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, "middle: {share: 3}")

    checked = sightline("check", str(config), package=package, folder=tmp_path)

    assert checked.returncode == 2
    assert "p.yaml:3:" in checked.stdout + checked.stderr
    assert "share" in checked.stdout + checked.stderr


def test_it_runs(package: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, "middle: {share: 0.5}")

    run = sightline("run", str(config), package=package, folder=tmp_path)

    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["objects"][0]["box"] for line in lines] == [[16, 12, 48, 36]] * 3
