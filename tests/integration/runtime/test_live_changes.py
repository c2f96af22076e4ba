"""Changes of running pipelines on real clips: sources files, configuration files, signals, and many of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sightline import Pipeline
from sightline.config import InvalidConfiguration, load_description
from sightline.graph import PipelineDescription
from sightline.testing import assert_accounted
from tests.integration.cli.conftest import command
from tests.integration.figures import Record
from tests.waiting import wait_until

LIMIT_SECONDS = 300
CHANGES = 1000
MEMORY = Path("/dev/shm")
"""Where files are written while changes are timed: on a disk that writes back gigabytes, opening one takes seconds."""
LINE = "{from: [0.18, 0.62], to: [0.82, 0.58]}"


def counter(frames: int | str = "null") -> str:
    return f"{{pattern: counter, size: [64, 48], frames: {frames}, realtime: true}}"


@pytest.mark.row(id="A14")
def test_random_additions_and_removals_are_quick_and_leave_nothing_behind(
    repository: Path, tmp_path: Path, figure: Record
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.churn", "--changes", str(CHANGES)],
        cwd=repository,
        env={**os.environ, "MALLOC_ARENA_MAX": "1", "TMPDIR": str(MEMORY if MEMORY.is_dir() else tmp_path)},
        capture_output=True,
        check=True,
        timeout=300,
    )

    *rounds, result = [json.loads(line) for line in done.stdout.splitlines()]
    settled = rounds[3:]
    assert {(one["threads"], one["files"]) for one in settled} == {(rounds[-1]["threads"], rounds[-1]["files"])}
    slopes = [
        (later["mib"] - one["mib"]) / (number - first)
        for first, one in enumerate(settled)
        for number, later in enumerate(settled)
        if number > first
    ]
    assert float(np.median(slopes)) * len(settled) < 5
    figure(f"{CHANGES:,} random changes under load, worst", result["worst_ms"] / 1000, limit=1.0, unit="s")
    assert result["changes"] == CHANGES


def test_counts_of_lines_go_on_while_other_steps_and_streams_change(repository: Path, tmp_path: Path) -> None:
    clip = repository / "sample_videos" / "street.mp4"
    steps: list[dict[str, object]] = [
        {"replay": {"path": str(clip.with_suffix(".mot.txt")), "label": "car"}},
        {"track": {}},
        {"lines": {"road": {"from": [0.18, 0.62], "to": [0.82, 0.58]}}},
        {"video": {"path": "{stream}.mp4", "quality": 30}},
        {"jsonl": {"path": "{stream}.jsonl"}},
    ]
    alone = Pipeline(sources={"street": str(clip)}, steps=steps[:3]).run()
    pipeline = Pipeline(sources={"street": {"uri": str(clip)}}, steps=steps, outputs=tmp_path)
    came = threading.Event()
    pipeline.probe("lines-1", lambda batch: came.set() if batch.frames[-1].index > 50 else None)
    pipeline.start()
    assert came.wait(LIMIT_SECONDS)

    changed = Pipeline(
        sources={"street": {"uri": str(clip)}, "guest": {"pattern": "bars", "frames": 5}},
        steps=[*steps[:3], {"video": {"path": "{stream}.mp4", "quality": 40}}, steps[4], {"callback": "builtins:id"}],
    )
    pipeline.reload(changed.description, prove=0).wait(LIMIT_SECONDS)
    report = pipeline.wait()

    assert_accounted(report)
    assert report.totals["lines-1"]["street"] == alone.totals["lines-1"]["street"]
    records = [json.loads(line)["frame"] for line in (tmp_path / "street.jsonl").read_text().splitlines()]
    assert records == list(range(report.streams[0].received))
    assert {path.name for path in tmp_path.glob("street*.mp4")} == {"street.mp4", "street-2.mp4"}


@pytest.fixture
def sources_file(tmp_path: Path) -> Path:
    (tmp_path / "cameras").mkdir()
    path = tmp_path / "cameras" / "cameras.yaml"
    path.write_text(f"yard: {counter()}\n")
    (tmp_path / "p.yaml").write_text(
        "sources_file: cameras/cameras.yaml\n"
        f"sources: {{door: {counter()}}}\n"
        'pipeline: [jsonl: {path: "{stream}.jsonl"}]\n'
    )
    return path


@pytest.fixture
def following(sources_file: Path) -> Iterator[tuple[Pipeline, list[str]]]:
    """A pipeline that runs with a sources file, and what it tells."""
    folder = sources_file.parents[1]
    pipeline, told = Pipeline.from_yaml(folder / "p.yaml", outputs=folder), list[str]()
    pipeline.on_message(lambda message: told.append(message.text))
    pipeline.start()
    yield pipeline, told
    pipeline.stop()
    assert_accounted(pipeline.wait(), stopped=True)


def names(pipeline: Pipeline) -> list[str]:
    return sorted(status.name for status in pipeline.status())


def test_streams_follow_their_file(following: tuple[Pipeline, list[str]], sources_file: Path) -> None:
    pipeline, told = following
    assert names(pipeline) == ["door", "yard"]

    sources_file.write_text(f"gate: {counter()}\n")

    wait_until(lambda: names(pipeline) == ["door", "gate"])
    wait_until(lambda: "reloaded: added gate; removed yard" in told)
    file = pipeline.description.sources_file
    assert file is not None
    assert file.streams == ("gate",)


def test_an_empty_sources_file_has_no_streams_and_the_pipeline_waits(
    following: tuple[Pipeline, list[str]], sources_file: Path
) -> None:
    pipeline, _ = following
    pipeline.remove_source("door").wait(LIMIT_SECONDS)
    sources_file.write_text("")
    wait_until(lambda: not names(pipeline))

    sources_file.write_text(f"gate: {counter()}\n")

    wait_until(lambda: names(pipeline) == ["gate"])


def test_streams_that_code_added_stay_when_the_file_changes(
    following: tuple[Pipeline, list[str]], sources_file: Path
) -> None:
    pipeline, _ = following
    pipeline.add_source("guest", {"pattern": "bars", "frames": None, "realtime": True}).wait(LIMIT_SECONDS)

    sources_file.write_text(f"gate: {counter()}\n")

    wait_until(lambda: names(pipeline) == ["door", "gate", "guest"])


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("gate: {pattern: nonsense}\nyard/: a.mp4\n", "cameras.yaml:1:17: sources.gate.pattern: must be"),
        (f"door: {counter()}\n", "cameras.yaml: there are streams door besides it: rename them"),
        ("gate: missing.mp4\n", "there is no file"),
        ("- gate\n", "must give each stream a name"),
        ("gate: [", "cameras.yaml:"),
    ],
    ids=["wrong options", "a name twice", "a missing file", "a list", "no YAML"],
)
def test_a_wrong_sources_file_is_refused_whole_and_the_old_one_goes_on(
    text: str, mistake: str, following: tuple[Pipeline, list[str]], sources_file: Path
) -> None:
    pipeline, told = following

    sources_file.write_text(text)

    wait_until(lambda: any("the change is refused" in one for one in told))
    assert mistake in next(one for one in told if "the change is refused" in one)
    assert names(pipeline) == ["door", "yard"]
    sources_file.write_text(f"gate: {counter()}\n")
    wait_until(lambda: names(pipeline) == ["door", "gate"])


def test_a_sources_file_may_be_exchanged_by_a_link(following: tuple[Pipeline, list[str]], sources_file: Path) -> None:
    pipeline, _ = following
    other = sources_file.with_name("other.yaml")
    other.write_text(f"gate: {counter()}\n")
    link = sources_file.with_name("link")
    link.symlink_to(other)

    link.replace(sources_file)

    wait_until(lambda: names(pipeline) == ["door", "gate"])


def test_a_description_with_a_sources_file_is_the_same_after_a_journey_as_plain_data(sources_file: Path) -> None:
    from sightline.config import description_from

    description = load_description(sources_file.parents[1] / "p.yaml")

    assert list(description.sources) == ["door", "yard"]
    assert description_from(description.to_plain()) == description


def test_mistakes_of_a_sources_file_are_told_with_those_of_the_configuration(sources_file: Path) -> None:
    sources_file.write_text("door: a.mp4\ngate: ${NOWHERE}\n")
    configuration = sources_file.parents[1] / "p.yaml"

    with pytest.raises(InvalidConfiguration) as raised:
        load_description(configuration, environment={})

    text = str(raised.value)
    assert "cameras.yaml:1:1: sources.door: the stream 'door' at" in text
    assert "cameras.yaml:2:7: sources.gate: the environment variable NOWHERE is not set" in text


def test_the_command_line_replaces_what_stands_in_a_sources_file(sources_file: Path, repository: Path) -> None:
    clip = repository / "sample_videos" / "gate.mp4"

    description: PipelineDescription = load_description(sources_file.parents[1] / "p.yaml", sources=[f"yard={clip}"])

    assert description.sources["yard"].model_dump()["uri"] == str(clip)


@pytest.fixture
def watched(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """`sightline run` on a file that changes; what it says is in `said`."""
    (tmp_path / "p.yaml").write_text(configuration("one"))
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen(command("run", "p.yaml", *request.param), cwd=tmp_path, stderr=said) as process,
    ):
        (tmp_path / "pid").write_text(str(process.pid))
        wait_until(lambda: (tmp_path / "one.jsonl").exists())
        yield tmp_path
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_SECONDS) == 0
        assert "Traceback" not in (tmp_path / "said").read_text()


def configuration(output: str, *, streams: str = "cam") -> str:
    return f"sources: {{{streams}: {counter()}}}\npipeline: [jsonl: {{path: {output}.jsonl}}]\n"


def said(folder: Path, text: str) -> bool:
    return text in (folder / "said").read_text()


@pytest.mark.parametrize("watched", [["--watch"]], indirect=True)
def test_a_watched_configuration_is_taken_over_and_a_wrong_one_refused(watched: Path) -> None:
    (watched / "p.yaml").write_text(configuration("two").replace("jsonl:", "jsonk:"))
    wait_until(lambda: said(watched, "p.yaml:2:12: pipeline.0.jsonk: there is no element 'jsonk'"))
    assert said(watched, "the change is refused, and everything goes on as it was")

    (watched / "p.yaml").write_text(configuration("two", streams="yard"))

    wait_until(lambda: said(watched, "reloaded: rebuilt jsonl-1; added yard; removed cam"))
    wait_until(lambda: (watched / "two.jsonl").exists())


@pytest.mark.parametrize("watched", [[]], indirect=True)
def test_a_hangup_signal_lets_the_configuration_be_read_again(watched: Path) -> None:
    (watched / "p.yaml").write_text(configuration("two"))

    os.kill(int((watched / "pid").read_text()), signal.SIGHUP)

    wait_until(lambda: said(watched, "reloaded: rebuilt jsonl-1"))
    os.kill(int((watched / "pid").read_text()), signal.SIGHUP)
    wait_until(lambda: said(watched, "reloaded: nothing has changed"))
