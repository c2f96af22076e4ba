"""Search in words, from clips to answers: it is known what the sample clips show, and so which answers are right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner
from tools.train.search_questions import described_tracks, questions, write_boxes_of_mot
from tools.world.clips import CLIPS

from sightline import Pipeline
from sightline.cli.main import cli
from sightline_plugins.search import TrackSearch

PAIR = Path("models/search").absolute()
FRAMES = {"street": 300, "dusk": 180, "entrance": 240}
QUESTIONS = 24


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """An index of the first seconds of three sample clips, with the boxes of their truth."""
    folder = tmp_path_factory.mktemp("search")
    for name in FRAMES:
        write_boxes_of_mot(repository / f"sample_videos/{name}.mot.txt", stream=name, path=folder / f"{name}.jsonl")
    for name, frames in FRAMES.items():
        steps: list[Mapping[str, object]] = [
            {"replay": {"path": str(folder / "{stream}.jsonl"), "ids": True}},
            {"search_index": {"path": "tracks.db", "encoder": str(PAIR)}},
        ]
        source = {"uri": str(repository / f"sample_videos/{name}.mp4"), "duration": f"{frames / 25}s"}
        Pipeline(sources={name: source}, steps=steps, outputs=folder).run()
    return folder / "tracks.db"


def searched(index: Path, *arguments: str) -> str:
    done = CliRunner().invoke(cli, ["search", "--in", str(index), *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_right_track_is_among_the_first_three(index: Path) -> None:
    scenes = {clip.name: clip.scene() for clip in CLIPS if clip.name in FRAMES}
    asked = questions(described_tracks(index, scenes), count=QUESTIONS, seed=2)
    assert len(asked) == QUESTIONS
    wrong = []
    with TrackSearch(index) as opened:
        for question in asked:
            found = opened.search(question.text, count=3).tracks
            if not {(track.stream, track.track_id) for track in found} & question.right:
                wrong.append(question.text)
    assert len(wrong) <= 0.1 * QUESTIONS, wrong


def test_a_track_has_one_row_and_an_image_of_it(index: Path) -> None:
    with TrackSearch(index) as opened:
        tracks = opened.search(streams=["street"], count=100).tracks
    assert len({track.track_id for track in tracks}) == len(tracks) > 10
    for track in tracks:
        assert track.image is not None
        image = np.asarray(cv2.imdecode(np.frombuffer(track.image, np.uint8), cv2.IMREAD_COLOR))
        wide, high = track.xyxy[2] - track.xyxy[0], track.xyxy[3] - track.xyxy[1]
        assert image.shape[1] / image.shape[0] == pytest.approx(wide / high, rel=0.35)


def test_an_image_of_a_track_finds_it(index: Path, tmp_path: Path) -> None:
    searched(index, "--stream", "dusk", "-n", "4", "--images", str(tmp_path / "images"))
    for image in (tmp_path / "images").iterdir():
        found = json.loads(searched(index, "--like", str(image), "-n", "1", "--json"))
        assert [f"{track['id']}.jpg" for track in found["tracks"]] == [image.name]


def test_results_are_printed_with_what_was_understood_and_drawn(index: Path, tmp_path: Path) -> None:
    lines = searched(index, "red", "car", "at the street", "-n", "3", "--montage", str(tmp_path / "a.jpg")).splitlines()
    assert lines[0] == 'understood: stream street; label car; words "red car"'
    assert lines[2].split()[2] == "street"
    assert np.asarray(cv2.imread(str(tmp_path / "a.jpg"))).shape[1] > 500


def test_what_is_forgotten_is_found_no_more(index: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy.db"
    copied.write_bytes(index.read_bytes())
    assert "deleted" in searched(copied, "--forget", "--stream", "street", "--yes")
    found = json.loads(searched(copied, "car", "-n", "100", "--json"))
    assert {track["stream"] for track in found["tracks"]} == {"dusk"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["car at 25:00"], "no time of day"),
        (["car", "--timezone", "Nowhere"], "no such zone"),
        (["car", "--encoder", "configs"], "lacks vision_model.onnx"),
        (["--like", "README.md"], "is no image"),
        (["car", "--forget", "--yes"], "by stream, label and day alone"),
        (["--forget", "--yes"], "by stream, label and day alone"),
        (["car", "--montage", "a.txt"], "must end in"),
    ],
)
def test_a_mistake_is_one_clear_error(arguments: Sequence[str], message: str, index: Path) -> None:
    done = CliRunner().invoke(cli, ["search", "--in", str(index), *arguments])
    assert done.exit_code != 0
    assert message in done.output + str(done.exception)
