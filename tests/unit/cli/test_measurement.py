"""What a benchmark says."""

from __future__ import annotations

from typing import Any

from tests.unit.config.parts import Media, Pattern, Track

from sightline.cli.bench import endless
from sightline.cli.summary import Measurement, measurement_text
from sightline.graph import PipelineDescription


def report(*, cpu_seconds: float = 10.0, detect_busy: float = 4.0) -> dict[str, Any]:
    return {
        "frames": 1000,
        "fps": 200.0,
        "wall_seconds": 5.0,
        "cpu_seconds": cpu_seconds,
        "framework_cpu_seconds": 0.1,
        "engine_cpu_seconds": 5.0,
        "streams": {"a": {"read_cpu_seconds": 1.0}, "b": {"read_cpu_seconds": 0.5}},
        "elements": {
            "detect-1": {"cpu_seconds": 2.0, "busy_seconds": detect_busy},
            "track-1": {"cpu_seconds": 0.4, "busy_seconds": 0.4},
        },
    }


def test_processor_time_is_told_by_part_for_one_frame_of_the_run() -> None:
    parts = {part.name: part.cpu_ms_per_frame for part in Measurement.of(report(), cores=2).parts}

    assert parts == {
        "sources (read, decode)": 1.5,
        "detect-1": 2.0,
        "track-1": 0.4,
        "threads of engines": 5.0,
        "framework": 0.1,
    }


def test_the_limit_is_what_all_cores_could_do() -> None:
    measured = Measurement.of(report(cpu_seconds=5.0), cores=2)

    assert measured.limit_fps == 400
    assert measured.load == 0.5


def test_full_cores_are_the_bottleneck() -> None:
    found = Measurement.of(report(), cores=2).bottleneck()

    assert found == "the processor: 100% of 2 cores are used; threads of engines takes the largest share, 50%"


def test_a_busy_thread_is_the_bottleneck_while_cores_idle() -> None:
    assert Measurement.of(report(detect_busy=4.9), cores=8).bottleneck().startswith("detect-1: its thread is busy 98%")


def test_with_room_everywhere_the_sources_set_the_pace() -> None:
    assert Measurement.of(report(), cores=8).bottleneck().startswith("the pace of the sources or a wait")


def test_a_run_without_frames_is_told_without_failing() -> None:
    empty = {**report(cpu_seconds=0.0), "frames": 0, "fps": 0.0, "wall_seconds": 0.0}

    assert "0 frames" in measurement_text(Measurement.of(empty, cores=2), title="p.yaml")


def test_files_are_read_again_and_again_and_not_in_real_time() -> None:
    sources = {"a": Media(uri="a.mp4", realtime=True), "p": Pattern(pattern="bars", realtime=True)}

    looped = endless(PipelineDescription(sources=sources, steps=(Track(),))).sources

    assert looped["a"] == Media(uri="a.mp4", loop=True)
    assert not looped["p"].realtime
