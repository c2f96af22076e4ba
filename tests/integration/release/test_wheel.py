"""What the wheel holds is enough: it is installed alone, and the demo runs outside the repository."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from zipfile import ZipFile

from sightline_plugins.commands.mcp.documentation import pages
from sightline_plugins.samples import CLIPS, PIPELINES, sample_models
from tests.integration.release.environments import Environment

DATA = "sightline_plugins/samples/data/"


def test_the_wheel_holds_the_samples_and_the_documentation_of_the_repository(wheel: Path, repository: Path) -> None:
    with ZipFile(wheel) as archive:
        held = {
            name.removeprefix(DATA): hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if name.startswith(DATA)
        }

    texts = (str(path.relative_to(repository)) for path in pages().values())
    wanted = (*PIPELINES, *CLIPS, *sample_models(), *texts)
    assert held == {name: hashlib.sha256((repository / name).read_bytes()).hexdigest() for name in wanted}


def test_an_editable_install_holds_no_second_copy_of_the_samples(repository: Path) -> None:
    assert not (repository / "plugins" / DATA).exists()


def test_sightline_comes_from_the_wheel(installed: Environment, tmp_path: Path) -> None:
    code = "import sightline, sightline_plugins as p; print(sightline.__file__, p.__file__, sep='\\n')"

    done = installed.run("python", "-c", code, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert all(Path(line).is_relative_to(installed.packages) for line in done.stdout.splitlines())


def test_the_demo_of_the_wheel_runs(installed: Environment, tmp_path: Path) -> None:
    """Its first frames; all of them run from the repository (`cli/test_demo.py`), with the same model and clips."""
    config = str(installed.packages / DATA / "configs" / "demo.yaml")
    done = installed.run("sightline", "run", config, "--frames", "50", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    for clip in ("street", "entrance"):
        lines = (tmp_path / "out" / "demo" / f"{clip}.jsonl").read_text().splitlines()
        assert len(lines) == 50
        assert any(json.loads(line).get("objects") for line in lines)


def test_the_demo_is_written_from_the_wheel(installed: Environment, tmp_path: Path) -> None:
    code = "import pathlib, sightline_plugins.commands.demo.files as files; files.write_demo(pathlib.Path('demo'))"

    done = installed.run("python", "-c", code, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "demo" / "sample_videos").iterdir()} == {
        Path(clip).name for clip in CLIPS
    }


def test_the_wheel_holds_the_dashboard(wheel: Path, repository: Path) -> None:
    folder = repository / "pipeline" / "sightline" / "server" / "dashboard"

    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("sightline/server/dashboard/")}

    assert held == {
        f"sightline/server/dashboard/{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file()
    }
