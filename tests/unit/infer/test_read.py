"""What `read` makes of text: attributes, objects for images, what counts, votes over a track."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.media import Batch, PixelFormat
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.read import Read, TextVote, TextVotes
from tests.unit.infer.mean_color import BLUE, GREEN, RED, frames, striped, tracked, write_line_reader

PAINTS = {"-": RED, "a": GREEN, "b": BLUE, "?": (140, 160, 140)}
"""What stands for the blank, the two symbols, and an `a` that is hard to read."""
WHOLE = (0, 0, 64, 16)
LEVELS = {"color": "rgb", "mean": 0, "scale": 255}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Reads stripes: red is the blank, green is a, blue is b."""
    return write_line_reader(tmp_path / "stripes.onnx")


def read(model: Path, **options: Any) -> Read:
    return Read.model_validate({"model": model, "labels": ["a", "b"], **LEVELS, **options})


def images(*lines: str) -> list[Batch]:
    """Images of lines of eight stripes."""
    painted = [striped(*(PAINTS[symbol] for symbol in line.ljust(8, "-"))) for line in lines]
    return make_batches(frames(*(surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24) for rgb in painted)))


def plates(*lines: str) -> list[Batch]:
    return [tracked(batch, WHOLE, tracks=[7]) for batch in images(*lines)]


def texts(batches: list[Batch]) -> list[Any]:
    return [batch.objects[0].attributes.get("text") for batch in batches]


def test_an_image_with_text_becomes_an_object(model: Path) -> None:
    (batch,) = run_element(read(model), images("a-ab"))

    (obj,) = batch.objects
    assert (obj.label, obj.xyxy) == ("text", WHOLE)
    assert obj.attributes == {"text": "aab", "text_confidence": pytest.approx(obj.confidence)}
    assert obj.confidence > 0.99


def test_an_image_without_text_becomes_no_object(model: Path) -> None:
    (batch,) = run_element(read(model), images("--------"))

    assert len(batch.objects) == 0


def test_an_object_gets_the_text(model: Path) -> None:
    (batch,) = run_element(read(model, on="car", attribute="plate"), plates("b-a"))

    assert batch.objects[0].attributes == {"plate": "ba", "plate_confidence": pytest.approx(1, abs=1e-3)}


def test_text_that_does_not_match_the_pattern_is_left_out(model: Path) -> None:
    assert texts(run_element(read(model, on="car", pattern="a+b"), plates("a-ab"))) == ["aab"]
    assert texts(run_element(read(model, on="car", pattern="a+b"), plates("ab-b"))) == [None]


def test_uncertain_text_is_left_out(model: Path) -> None:
    assert texts(run_element(read(model, on="car", confidence=0.6), plates("?-?"))) == [None]
    assert texts(run_element(read(model, on="car", confidence=0.4), plates("?-?"))) == ["aa"]


def test_one_misread_frame_changes_nothing(model: Path) -> None:
    batches = run_element(read(model, on="car", reinfer_interval="100ms"), plates("ab", "ab", "b", "--------", "ab"))

    assert texts(batches) == ["ab"] * 5


def test_a_confident_result_outvotes_an_uncertain_one(model: Path) -> None:
    assert texts(run_element(read(model, on="car", reinfer_interval="100ms"), plates("?", "ab"))) == ["a", "ab"]


def test_of_equal_votes_the_earlier_text_stays(model: Path) -> None:
    assert texts(run_element(read(model, on="car", reinfer_interval="100ms"), plates("a", "b"))) == ["a", "a"]


def test_without_votes_the_newest_text_that_counts_is_reported(model: Path) -> None:
    batches = run_element(read(model, on="car", reinfer_interval="100ms", vote=False), plates("ab", "b", "--------"))

    assert texts(batches) == ["ab", "b", "b"]


def test_the_lightest_of_too_many_texts_is_forgotten() -> None:
    known = TextVotes()
    for number in range(40):
        known = known.merged(TextVotes((TextVote(f"text {number}", 0.5 if number else 0.9),)))

    assert len(known.votes) <= 16
    assert known.best() is not None
    assert known.votes[0].text == "text 0"
