"""Every command: exit code, what is on standard output, what on standard error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.integration.cli.conftest import Sightline

from sightline.cli.main import execute


def test_check_of_a_right_pipeline_is_one_line(called: Sightline) -> None:
    checked = called("check", "street.yaml")

    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout == "street.yaml: 1 stream, 1 step, device cpu: no mistakes\n"


def test_check_tells_every_mistake_on_standard_error(called: Sightline, folder: Path) -> None:
    (folder / "street.yaml").write_text("nam: a\nsources: {cam: {pattern: bar}}\npipeline: [trak]\n")

    checked = called("check", "street.yaml")

    assert (checked.returncode, checked.stdout) == (2, "")
    assert [line.split(": ")[0] for line in checked.stderr.splitlines()] == [
        "street.yaml:1:1",
        "street.yaml:2:26",
        "street.yaml:3:12",
    ]


def test_check_and_run_tell_what_is_probably_not_meant(called: Sightline, folder: Path, repository: Path) -> None:
    clip = folder / "mine.mp4"
    clip.symlink_to(repository / "sample_videos" / "street.mp4")
    steps = f"pipeline: [{{detect: {{model: {repository / 'models' / 'street.onnx'}}}}}]"
    (folder / "mine.yaml").write_text(f"sources: {{cam: {clip}}}\n{steps}\n")

    checked, run = called("check", "mine.yaml"), called("run", "mine.yaml", "--frames", "2")

    for done in (checked, run):
        assert done.returncode == 0
        assert done.stderr.count("note: detect-1: street.onnx is made for ") == 1


def test_check_writes_no_output(called: Sightline, folder: Path) -> None:
    called("check", "street.yaml")

    assert not (folder / "out").exists()


def test_explain_prints_values_with_their_origins(called: Sightline) -> None:
    explained = called("explain", "street.yaml", "--set", "sources.cam.frames=5", "--given")

    assert (explained.returncode, explained.stderr) == (0, "")
    assert [line.split() for line in explained.stdout.splitlines()] == [
        ["pipeline"],
        ["name", "street", "street.yaml:2"],
        ["runs", "on", "cpu", "no", *explained.stdout.splitlines()[2].split()[4:]],
        [],
        ["source", "cam:", "pattern"],
        ["pattern", "moving", "street.yaml:4"],
        ["size", "[64,", "48]", "street.yaml:4"],
        ["frames", "5", "--set", "sources.cam.frames"],
        [],
        ["step", "jsonl-1"],
        ["path", "out/{stream}.jsonl", "street.yaml:6"],
    ]


def test_explain_as_json_has_a_record_for_each_value(called: Sightline) -> None:
    records = json.loads(called("explain", "street.yaml", "--json").stdout)

    assert {"part": "step jsonl-1", "option": "embeddings", "value": "false", "origin": "default"} in records


def test_run_writes_its_outputs_and_says_so_on_standard_error(sightline: Sightline, folder: Path) -> None:
    run = sightline("run", "street.yaml")

    assert (run.returncode, run.stdout) == (0, "")
    assert "20 frames in" in run.stderr
    assert "  out/cam.jsonl" in run.stderr.splitlines()
    assert len((folder / "out" / "cam.jsonl").read_text().splitlines()) == 20


def test_run_stops_after_so_many_frames_of_each_stream(called: Sightline, folder: Path) -> None:
    second = ["--set", "sources.other={pattern: bars, frames: 9}"]

    run = called("run", "street.yaml", "--frames", "5", *second)

    assert run.returncode == 0, run.stderr
    assert {path.name: len(path.read_text().splitlines()) for path in (folder / "out").iterdir()} == {
        "cam.jsonl": 5,
        "other.jsonl": 5,
    }


def test_run_stops_after_so_much_of_a_stream(called: Sightline, folder: Path) -> None:
    run = called("run", "street.yaml", "--duration", "400ms")

    assert run.returncode == 0, run.stderr
    assert len((folder / "out" / "cam.jsonl").read_text().splitlines()) == 10


def test_run_writes_the_report(called: Sightline, folder: Path) -> None:
    called("run", "street.yaml", "--report", "report.json")

    report = json.loads((folder / "report.json").read_text())
    assert report["frames"] == 20
    assert report["streams"]["cam"]["processed"] == 20
    assert report["outputs"] == [str(folder / "out" / "cam.jsonl")]


def test_run_writes_the_report_when_no_stream_could_be_read(called: Sightline, folder: Path) -> None:
    (folder / "text.mp4").write_text("no video")

    called("run", "street.yaml", "--source", "cam=text.mp4", "--report", "report.json")

    assert json.loads((folder / "report.json").read_text())["streams"]["cam"]["state"] == "failed"


def test_run_writes_the_report_when_a_step_failed(called: Sightline, folder: Path) -> None:
    (folder / "steps.py").write_text("def fail(batch):\n    raise ValueError('no')\n")
    failing = "sources: {cam: {pattern: moving, size: [64, 48], frames: 20}}\npipeline: [{apply: 'steps.py:fail'}]\n"
    (folder / "failing.yaml").write_text(failing)

    run = called("run", "failing.yaml", "--report", "report.json")

    assert run.returncode == 1
    assert json.loads((folder / "report.json").read_text())["frames"] == 0


def test_run_prints_the_report_alone_on_standard_output(sightline: Sightline) -> None:
    assert json.loads(sightline("run", "street.yaml", "--report", "-").stdout)["frames"] == 20


def test_run_writes_below_the_output_root(called: Sightline, folder: Path) -> None:
    called("run", "street.yaml", "--output-root", "elsewhere")

    assert (folder / "elsewhere" / "out" / "cam.jsonl").exists()
    assert not (folder / "out").exists()


def test_run_quietly_says_nothing(called: Sightline) -> None:
    run = called("run", "street.yaml", "--quiet")

    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_run_in_which_one_of_two_streams_fails_ends_the_other_and_with_1(called: Sightline, folder: Path) -> None:
    (folder / "text.mp4").write_text("no video")

    run = called("run", "street.yaml", "--source", "bad=text.mp4")

    assert run.returncode == 1
    assert "text.mp4" in run.stderr
    assert "Traceback" not in run.stderr
    assert len((folder / "out" / "cam.jsonl").read_text().splitlines()) == 20


def test_run_in_which_no_stream_can_be_read_says_so_once_and_ends_with_1(called: Sightline, folder: Path) -> None:
    (folder / "text.mp4").write_text("no video")

    run = called("run", "street.yaml", "--source", "cam=text.mp4")

    assert run.returncode == 1
    assert [line for line in run.stderr.splitlines() if line.startswith("error: stream 'cam' (")]
    assert run.stderr.count("text.mp4") == 1


def test_an_output_that_can_not_be_opened_is_told_before_anything_runs(called: Sightline, folder: Path) -> None:
    (folder / "out").write_text("a file, no folder")

    run = called("run", "street.yaml")

    assert (run.returncode, len(run.stderr.splitlines())) == (2, 1)
    assert "street.yaml:6:" in run.stderr
    assert "is no folder" in run.stderr


def test_a_disk_that_fills_up_is_one_message_and_1(called: Sightline) -> None:
    run = called("run", "street.yaml", "--set", "pipeline.jsonl.path=/dev/full")

    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert "the disk is full" in run.stderr.splitlines()[-1]


WRONG_USAGE = {
    "no command of that name": (["rnu"], "No such command 'rnu'"),
    "no configuration": (["run"], "Missing argument 'CONFIG'"),
    "no such file": (["run", "nowhere.yaml"], "nowhere.yaml: cannot be read: there is no such file"),
    "no such option": (["run", "street.yaml", "--fremes", "3"], "No such option '--fremes'"),
    "no frames": (["run", "street.yaml", "--frames", "0"], "0 is not in the range x>=1"),
    "no duration": (["run", "street.yaml", "--duration", "soon"], "'soon' is not a duration"),
    "no time": (["run", "street.yaml", "--duration", "0s"], "'0s' is no time at all"),
    "frames and duration": (["run", "street.yaml", "--frames", "1", "--duration", "1s"], "cannot be given together"),
    "quiet and verbose": (["run", "street.yaml", "-q", "-v"], "cannot be given together"),
    "report in no folder": (["run", "street.yaml", "--report", "no/r.json"], "does not exist"),
    "report onto a folder": (["run", "street.yaml", "--report", "."], ". is a folder: name a file in it."),
    "device that is none": (
        ["run", "street.yaml", "--device", "tpu"],
        "device 'tpu' is unknown: use auto",
    ),
    "device that is not there": (["check", "street.yaml", "--device", "cuda:99"], "device 'cuda:99' cannot be used"),
    "value of no key": (["check", "street.yaml", "--set", "pipline.0=a"], "did you mean 'pipeline'?"),
    "element of no name": (["elements", "jsnol"], "there is no element or source 'jsnol'; did you mean 'jsonl'?"),
    "format of no name": (["graph", "street.yaml", "--format", "png"], "'png' is not one of 'mermaid', 'dot', 'svg'"),
}


@pytest.mark.parametrize("name", WRONG_USAGE)
def test_wrong_usage_is_told_on_standard_error_and_ends_with_2(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process: what `main` makes of the code and the outputs of `execute` does not depend on what was wrong."""
    arguments, told = WRONG_USAGE[name]
    monkeypatch.chdir(folder)

    code = execute(arguments)

    said = capfd.readouterr()
    assert (code, said.out) == (2, "")
    assert told in said.err
    assert "Traceback" not in said.err


def test_debug_shows_the_traceback(sightline: Sightline) -> None:
    called = sightline("check", "nowhere.yaml", "--debug")

    assert called.returncode != 0
    assert "Traceback" in called.stderr


def test_an_internal_error_is_one_line_without_passwords_and_ends_with_1(folder: Path) -> None:
    program = (
        "import sys; from sightline.cli import check, main\n"
        "def broken(**_): raise KeyError('rtsp://user:secret@10.0.0.7')\n"
        "check.command.callback = broken\n"
        "sys.argv = ['sightline', 'check', 'street.yaml']; main.main()\n"
    )

    called = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)

    assert called.returncode == 1
    assert called.stderr == "internal error: KeyError: 'rtsp://***@10.0.0.7' (--debug shows the traceback)\n"


def test_elements_lists_name_package_and_purpose(called: Sightline) -> None:
    listing = called("elements").stdout.splitlines()

    jsonl = next(line for line in listing if line.strip().startswith("jsonl "))
    assert jsonl.split()[:2] == ["jsonl", "sightline"]
    assert "Write results as JSON lines" in jsonl
    assert any(line.strip().startswith("pattern ") for line in listing)


def test_elements_explains_one_with_its_options(called: Sightline) -> None:
    page = called("elements", "media").stdout

    assert "media: source of the package sightline" in page
    assert "max_fps  number > 0" in page


def test_doctor_says_why_the_cache_can_not_be_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "file"))

    execute(["doctor"])

    cache = next(line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("cache "))
    assert f"{tmp_path / 'file'} is no folder; compiled models are not kept: set SIGHTLINE_CACHE" in cache


@pytest.mark.parametrize(("language", "begins"), [("mermaid", "flowchart TB\n"), ("dot", 'digraph "street" {')])
def test_graph_prints_the_language_asked_for(language: str, begins: str, called: Sightline) -> None:
    assert called("graph", "street.yaml", "--format", language).stdout.startswith(begins)


def test_graph_draws_svg(called: Sightline) -> None:
    assert ET.fromstring(called("graph", "street.yaml", "--format", "svg").stdout).tag.endswith("svg")


def test_schema_is_json_schema_of_all_that_is_installed(sightline: Sightline) -> None:
    schema = json.loads(sightline("schema").stdout)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "jsonl" in schema["$defs"]["Step"]["anyOf"][1]["properties"]


def test_doctor_says_what_is_there_and_ends_with_0(sightline: Sightline) -> None:
    called = sightline("doctor")

    assert called.returncode == 0
    for word in (
        "sightline",
        "python",
        "PyAV",
        "FFmpeg",
        "OpenVINO",
        "ONNX Runtime",
        "cache",
        "open files",
        "cpu",
        "cuda",
    ):
        assert word in called.stdout


def test_doctor_says_how_much_is_kept(called: Sightline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept" / "models").mkdir(parents=True)
    (tmp_path / "kept" / "models" / "a.model").write_bytes(bytes(3 << 20))

    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "kept"))
    listed = called("doctor").stdout

    assert f"{tmp_path / 'kept'}: 3.0 MiB in 1 files" in " ".join(listed.split())


def test_bench_measures_and_leaves_no_outputs(called: Sightline, folder: Path) -> None:
    measured = called("bench", "street.yaml", "--frames", "50")

    assert measured.returncode == 0, measured.stderr
    assert "CPU ms/frame" in measured.stdout
    assert "bottleneck: " in measured.stdout
    assert not (folder / "out").exists()


def test_version_is_that_of_the_package(sightline: Sightline) -> None:
    from importlib.metadata import version

    assert sightline("--version").stdout == f"sightline {version('sightline')}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["models", "show", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys; from sightline.cli.main import execute\n"
        f"execute({arguments!r})\n"
        "heavy = {'numpy', 'cv2', 'av', 'openvino', 'onnxruntime', 'pydantic', 'rich', 'ruamel'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )

    called = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert called.returncode == 0, called.stderr


def test_check_imports_no_codec_and_no_engine(folder: Path) -> None:
    program = (
        "import sys; from sightline.cli.main import execute\n"
        "execute(['check', 'street.yaml'])\n"
        "heavy = {'cv2', 'av', 'openvino', 'onnxruntime', 'onnx', 'rich'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )

    called = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)

    assert called.returncode == 0, called.stderr
