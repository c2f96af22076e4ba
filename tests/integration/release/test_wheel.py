"""What the wheel holds is enough: it is installed alone, and the demo runs outside the repository."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from zipfile import ZipFile

from sightline_plugins.samples import CLIPS, DEMO, sample_models
from tests.integration.release.environments import Environment

DATA = "sightline_plugins/samples/data/"


def test_the_wheel_holds_the_samples_of_the_repository(wheel: Path, repository: Path) -> None:
    with ZipFile(wheel) as archive:
        held = {
            name.removeprefix(DATA): hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name.startswith(DATA)
        }

    wanted = (DEMO, *CLIPS, *sample_models())
    assert held == {name: hashlib.sha256((repository / name).read_bytes()).hexdigest() for name in wanted}


def test_an_editable_install_holds_no_second_copy_of_the_samples(repository: Path) -> None:
    assert not (repository / "plugins" / DATA).exists()


def test_sightline_comes_from_the_wheel(installed: Environment, tmp_path: Path) -> None:
    code = "import sightline, sightline_plugins as p; print(sightline.__file__, p.__file__, sep='\\n')"

    done = installed.run("python", "-c", code, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert all(Path(line).is_relative_to(installed.packages) for line in done.stdout.splitlines())


def test_the_demo_runs_from_the_wheel(installed: Environment, tmp_path: Path, repository: Path) -> None:
    done = installed.run("sightline", "demo", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "road: in 12, out 10" in done.stderr
    assert "door: in 5, out 5" in done.stderr
    lines = (tmp_path / "sightline-demo" / "out" / "demo" / "street.jsonl").read_text().splitlines()
    truth = json.loads((repository / "sample_videos" / "street.truth.json").read_text())
    assert len(lines) == truth["frames"]
