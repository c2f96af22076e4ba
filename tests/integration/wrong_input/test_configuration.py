"""Mistakes in the configuration and on the command line: told before anything runs, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.wrong_input.running import (
    CAMERA,
    CONFIG,
    QUIET_RUN,
    SECRET,
    Mistake,
    assert_told_once,
    call_apart,
    call_here,
    steps,
)

JSONL = "{jsonl: 'out/{stream}.jsonl'}"
FOUND = "{replay: {path: det.txt, format: mot, label: car}}"
TRACKED = f"{FOUND}, track"
GOOD = steps(JSONL)


def wrong(config: str | bytes, *told: str) -> Mistake:
    return Mistake(config, told)


def called(*arguments: str, told: tuple[str, ...], config: str = GOOD) -> Mistake:
    return Mistake(config, told, arguments=arguments)


FILES = {
    "unknown key": wrong(f"{GOOD}pipelin: []\n", f"{CONFIG}:3:1: pipelin: ", "did you mean 'pipeline'?"),
    "doubled key": wrong(f"{GOOD}sources: {{}}\n", f"{CONFIG}:3:1: ", "already in line 1"),
    "unknown step": wrong(steps("detekt"), f"{CONFIG}:2:12: pipeline.0.detekt: ", "did you mean 'detect'?"),
    "unknown option": wrong(steps("{jsonl: {pfad: a.jsonl, path: b.jsonl}}"), "pipeline.0.jsonl.pfad", "Allowed: path"),
    "no pipeline": wrong(CAMERA, f"{CONFIG}:", "pipeline: there are no steps"),
    "no sources": wrong(steps("draw", sources=""), "sources: there are no sources"),
    "unknown kind of source": wrong(
        steps(JSONL, sources="sources: {cam: {patern: bars}}\n"), "sources.cam: needs `uri:`", "did you mean 'pattern'?"
    ),
    "wrong type": wrong(steps(JSONL, sources="sources: {cam: {pattern: bars, frames: many}}\n"), "frames: must be"),
    "out of limits": wrong(steps(JSONL, sources="sources: {cam: {pattern: bars, fps: 0}}\n"), "fps: must be more than"),
    "unset variable": wrong(
        steps(JSONL, sources="sources: {cam: '${NO_SUCH_CAMERA}/main'}\n"),
        f"{CONFIG}:1:16: sources.cam: the environment variable NO_SUCH_CAMERA is not set",
    ),
    "bad YAML": wrong("sources: {cam: gate.mp4\npipeline: []\n", f"{CONFIG}:2:", "(opened in line 1)"),
    "tab": wrong(f"{CAMERA}pipeline:\n\t- draw\n", f"{CONFIG}:3:1: a tab stands here"),
    "not UTF-8": wrong(b"name: caf\xe9\n", f"{CONFIG}:1:10: is not UTF-8 (byte 0xe9): save it as UTF-8"),
    "empty file": wrong("", f"{CONFIG}: is empty", "sources", "pipeline"),
    "a list": wrong("- draw\n", f"{CONFIG}: is no mapping"),
    "lines without a tracker": wrong(
        steps(f"{FOUND}, {{lines: {{g: {{from: [0, 0], to: [1, 1]}}}}}}"),
        "pipeline.1.lines: lines needs tracks",
        "put track before it",
    ),
    "a tracker alone": wrong(
        steps("track"),
        "track needs objects, and no step before it gives any: put one of classify, detect,",
        "segment before it",
    ),
    "line without an end": wrong(steps(f"{TRACKED}, {{lines: {{g: {{from: [0, 0]}}}}}}"), "lines.g.to: is required"),
    "line of no length": wrong(
        steps(f"{TRACKED}, {{lines: {{g: {{from: [0, 0], to: [0, 0]}}}}}}"), "lines.g: from and to are the same point"
    ),
    "point outside": wrong(
        steps(f"{TRACKED}, {{lines: {{g: {{from: [0, 0], to: [1, 90]}}}}}}"), "lines.g.to: [1, 90]", "pixels: true"
    ),
    "polygon of two points": wrong(
        steps(f"{TRACKED}, {{zones: {{g: {{polygon: [[0, 0], [1, 1]]}}}}}}"), "zones.g.polygon: must have at least 3"
    ),
    "class that nothing finds": wrong(
        steps(f"{TRACKED}, {{lines: {{g: {{from: [0, 0], to: [1, 1], classes: [carr]}}}}}}"),
        f"{CONFIG}:2:120: pipeline.2.lines.g.classes.0: no step before it finds 'carr'",
        "did you mean 'car'? They find: car",
    ),
    "streams that match nothing": wrong(
        steps("{jsonl: {path: out/a.jsonl, streams: [gate]}}"), "jsonl.streams.0: no stream matches 'gate'", "cam"
    ),
    "two steps of one id": wrong(
        steps("{jsonl: {path: a.jsonl, id: x}}, {jsonl: {path: b.jsonl, id: x}}"), "jsonl.id: the id 'x' is already"
    ),
    "recording that is none": wrong(
        steps("{replay: {path: street.yaml, format: mot}}"), "replay.path: ", "street.yaml, line 1: ", "MOT text is"
    ),
    "device that is not there": wrong(f"{GOOD}device: cuda:0\n", f"{CONFIG}:3:9: device: device 'cuda:0' cannot be"),
    "device that is none": wrong(f"{GOOD}device: gpu\n", f"{CONFIG}:3:9: device: ", "use auto, cpu, cuda or cuda:N"),
    "secret in an option": Mistake(
        steps(JSONL, sources="sources: {cam: {uri: 'rtsp://u:${PW}@h/a', transport: '${PW}'}}\n"),
        ("sources.cam.transport: must be tcp, udp or auto", "${PW}"),
        environment={"PW": SECRET},
    ),
    "secret in a URL of no scheme that is read": Mistake(
        steps(JSONL, sources="sources: {cam: 'gopher://u:${PW}@h/a'}\n"),
        (f"{CONFIG}:1:11: sources.cam: no installed kind of source reads",),
        environment={"PW": SECRET},
    ),
    "port that is none": wrong(
        steps(JSONL, sources=f"sources: {{cam: 'rtsp://u:{SECRET}@h:99999/a'}}\n"), "sources.cam.uri: ", "1 to 65535"
    ),
}

CALLS = {
    "no such command": called("rnu", CONFIG, told=("Error: No such command 'rnu'. Did you mean 'run'?",)),
    "no such option": called("run", CONFIG, "--fram", "3", told=("No such option", "--frames")),
    "no file": called("run", told=("Missing argument 'CONFIG'",)),
    "missing file": called("run", "-q", "none.yaml", told=("none.yaml: cannot be read: there is no such file",)),
    "folder for a file": called("run", "-q", "folder", told=("folder: cannot be read: ",)),
    "frames": called("run", CONFIG, "--frames", "0", told=("'--frames'", "x>=1")),
    "duration": called("run", CONFIG, "--duration", "soon", told=("'--duration'", '"40ms", "2s" or "5m"')),
    "frames and duration": called(
        "run", CONFIG, "--frames", "1", "--duration", "1s", told=("--frames and --duration",)
    ),
    "report in no folder": called("run", CONFIG, "--report", "no/r.json", told=("--report", "does not exist")),
    "report on a folder": called("run", CONFIG, "--report", "folder", told=("--report", "is a folder")),
    "set without a value": called(
        *QUIET_RUN, "--set", "device", told=("--set device: is written --set key.path=value",)
    ),
    "set nothing that is there": called(
        *QUIET_RUN, "--set", "batch.sise=3", told=("--set batch.sise: ", "did you mean 'size'?")
    ),
    "set in no step": called(*QUIET_RUN, "--set", "pipeline.draw.line=3", told=("--set pipeline.draw.line: ", "jsonl")),
    "source without a name": called(
        *QUIET_RUN, "--source", "a.mp4", told=("--source a.mp4: is written --source NAME=",)
    ),
    "source that is missing": called(*QUIET_RUN, "--source", "cam=a.mp4", told=("--source cam: ", "there is no file")),
    "device on the command line": called(
        *QUIET_RUN, "--device", "gpu", told=("--device: ", "use auto, cpu, cuda or cuda:N")
    ),
    "no such element": called("elements", "detekt", told=("'detekt'", "did you mean 'detect'?")),
    "no such drawing": called("graph", CONFIG, "--format", "png", told=("'--format'", "'mermaid', 'dot', 'svg'")),
}
MISTAKES = {**FILES, **CALLS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "det.txt").write_text("1,-1,1,1,5,5,0.9,-1,-1,-1\n")
    return tmp_path


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_once_with_its_place_and_what_to_do(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mistake = MISTAKES[name]

    outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, folder)
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", ["unknown step", "not UTF-8", "device that is not there", "no such command"])
def test_a_process_of_its_own_says_the_same(name: str, folder: Path) -> None:
    outcome = call_apart(MISTAKES[name], folder)

    assert_told_once(outcome, MISTAKES[name], folder)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = "device: gpu\nsources: {cam: none.mp4}\nbatch: {size: 0}\npipeline: [detekt, {jsonl: {}}]\n"

    outcome = call_here(Mistake(config, ()), folder, monkeypatch=monkeypatch, capfd=capfd)

    keys = [line.split(": ")[1] for line in outcome.stderr.splitlines()]
    assert keys == ["device", "sources.cam.uri", "batch.size", "pipeline.0.detekt", "pipeline.1.jsonl.path"]
    assert outcome.code == 2
