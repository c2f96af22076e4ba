"""The committed clips and the truth beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict, cast

import av
import numpy as np
import pytest
from tools.world.clips import CLIPS, Clip
from tools.world.render import Renderer
from tools.world.scene import LABELS
from tools.world.truth import BOX, VISIBILITY, document, read_mot

CLIP_LIMIT_BYTES = 12_000_000
by_name = pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.name)


class Entry(TypedDict):
    """A crossing of the truth file."""

    line: str
    id: int
    frame: int


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "sample_videos"


def test_the_clips_stay_under_12_megabytes_together(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.glob("*.mp4")) < CLIP_LIMIT_BYTES


@by_name
def test_a_clip_lasts_20_seconds_or_more(clip: Clip) -> None:
    assert clip.plan.frames / clip.plan.fps >= 20


@by_name
def test_the_video_has_the_size_rate_and_frames_of_its_plan(clip: Clip, folder: Path) -> None:
    with av.open(str(folder / f"{clip.name}.mp4")) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        assert stream.frames == clip.plan.frames
        assert stream.average_rate is not None
        assert float(stream.average_rate) == clip.plan.fps
        assert (context.width, context.height, context.name) == (*clip.plan.size_wh, "h264")
        assert (context.pix_fmt, context.colorspace, context.color_range) == ("yuv420p", 1, 1)


@by_name
def test_the_truth_file_follows_from_the_boxes_and_the_rules_of_the_plan(clip: Clip, folder: Path) -> None:
    rows = read_mot(folder / f"{clip.name}.mot.txt")
    written = (folder / f"{clip.name}.truth.json").read_text(encoding="utf-8")
    assert document(rows, scene=clip.scene(), clip=f"{clip.name}.mp4") == written


@by_name
def test_nobody_hovers_around_a_line(clip: Clip, folder: Path) -> None:
    truth = json.loads((folder / f"{clip.name}.truth.json").read_text(encoding="utf-8"))
    entries = cast("list[Entry]", truth["crossings"])
    passes = [(entry["line"], entry["id"]) for entry in entries]
    assert len(passes) >= 9
    assert len(passes) == len(set(passes))


@by_name
def test_who_crosses_a_line_is_well_visible_and_large_there(clip: Clip, folder: Path) -> None:
    rows = read_mot(folder / f"{clip.name}.mot.txt")
    truth = json.loads((folder / f"{clip.name}.truth.json").read_text(encoding="utf-8"))
    for entry in cast("list[Entry]", truth["crossings"]):
        near = rows[(rows[:, 1] == entry["id"]) & (np.abs(rows[:, 0] - entry["frame"]) <= clip.plan.fps / 3)]
        sides = near[:, BOX][:, 2:] - near[:, BOX][:, :2]
        assert len(near) >= 2 * (clip.plan.fps // 3)
        assert near[:, VISIBILITY].min() > 0.5, entry
        assert sides.min(axis=1).mean() >= 16, entry
        assert sides.max(axis=1).min() >= 32, entry


@by_name
def test_a_frame_rendered_again_has_the_committed_boxes(clip: Clip, folder: Path) -> None:
    frame = 40
    rows = read_mot(folder / f"{clip.name}.mot.txt")
    _, truth = Renderer(clip.scene()).frame(frame)
    committed = rows[rows[:, 0] == frame]
    assert committed[:, 1].tolist() == truth.track_id.tolist()
    assert committed[:, 2].tolist() == truth.class_id.tolist()
    assert np.abs(committed[:, BOX] - truth.xyxy).max() < 0.3
    assert {int(label) for label in committed[:, 2]} <= set(range(len(LABELS)))
