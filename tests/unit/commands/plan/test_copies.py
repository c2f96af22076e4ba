"""Pipelines with more streams, without decoders, and without what has effects outside."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from sightline import Pipeline
from sightline.cli.bench import endless
from sightline.config import description_from
from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline_plugins.commands.plan.copies import HELD_FRAMES, copied, limited, plain, without_decoding

BARS = {"pattern": "bars", "frames": 3}
LINES = {"jsonl": {"path": "out.jsonl"}}


def described(*steps: object, sources: dict[str, object] | None = None) -> PipelineDescription:
    return description_from({"sources": sources or {"gate": BARS, "yard": BARS}, "pipeline": list(steps)})


def test_steps_for_some_streams_work_on_the_copies_of_these() -> None:
    whole = described({"jsonl": {"streams": ["ga*"], "path": "gate.jsonl"}}, LINES)
    made = copied(whole, streams=5)

    assert list(made.sources) == ["gate", "yard", "gate.2", "yard.2", "gate.3"]
    assert [element.streams for _, element in made.elements()] == [("gate", "gate.2", "gate.3"), None]
    assert list(copied(whole, streams=1).sources) == ["gate"]
    taken = described(LINES, sources={"gate": BARS, "gate.2": BARS})
    assert len(copied(taken, streams=6).sources) == 6


def test_what_has_effects_outside_is_left_out() -> None:
    whole = described({"webhook": {"url": "http://127.0.0.1:9/"}}, LINES)
    kept = plain(whole.model_copy(update={"processes": whole.processes.model_copy(update={"count": 3})}))
    assert [one for one, _ in kept.elements()] == ["jsonl-1"]
    assert kept.state is False
    assert kept.process_count == 1


def test_a_camera_is_refused_with_what_to_give_instead() -> None:
    camera = described(LINES, sources={"gate": "rtsp://127.0.0.1:9/gate"})
    with pytest.raises(ConfigurationError, match=r"sources\.gate: a camera .* --source gate=recording\.mp4"):
        plain(camera)
    with pytest.raises(ConfigurationError, match=r"--fps: the source 'gate' \(pattern\) has no max_fps"):
        limited(described(LINES), fps=5)


def test_held_frames_come_forwards_and_backwards_and_time_goes_on(repository: Path, tmp_path: Path) -> None:
    whole = endless(described(LINES, sources={"gate": str(repository / "sample_videos/street.mp4")}))
    count = 2 * HELD_FRAMES + 3
    pipeline = Pipeline.from_description(without_decoding(whole), outputs=tmp_path)
    seen = [(view.index, view.pts_seconds, view.rgb().copy()) for view in itertools.islice(pipeline, count)]
    pipeline.stop()
    pipeline.wait()

    assert [index for index, _, _ in seen] == list(range(count))
    assert np.diff([seconds for _, seconds, _ in seen]) == pytest.approx(seen[1][1] - seen[0][1])
    images = [image for _, _, image in seen]
    back = 2 * HELD_FRAMES - 2
    assert np.array_equal(images[HELD_FRAMES], images[HELD_FRAMES - 2])
    assert not np.array_equal(images[HELD_FRAMES], images[HELD_FRAMES - 1])
    assert np.array_equal(images[back : back + 4], images[:4])
