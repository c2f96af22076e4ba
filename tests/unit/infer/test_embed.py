"""What `embed` makes of vectors: a column of unit vectors, their mean over a track."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.graph.messages import Message
from sightline.media import Batch
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.embed import Embed
from tests.unit.infer.mean_color import BLUE, PLAIN, RED, frames, plain_surface, tracked, write_mean_color

BOX = (8, 8, 40, 40)
BLACK = (0, 0, 0)
HALF = np.sqrt(0.5)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Twice the mean levels."""
    return write_mean_color(tmp_path / "colors.onnx", gain=2)


def embed(model: Path, **options: Any) -> Embed:
    return Embed.model_validate({"model": model, **PLAIN, **options})


def images(*colors: tuple[int, int, int]) -> list[Batch]:
    return make_batches(frames(*map(plain_surface, colors)))


def cars(*colors: tuple[int, int, int]) -> list[Batch]:
    return [tracked(batch, BOX, tracks=[7]) for batch in images(*colors)]


def vectors(batches: list[Batch]) -> list[Any]:
    """The vector of the first object of each batch."""
    return [pytest.approx(batch.objects.extra["embedding"][0].tolist(), abs=1e-3) for batch in batches]


def test_an_image_becomes_an_object_with_a_vector_of_length_1(model: Path) -> None:
    batches = run_element(embed(model), images((120, 0, 120)))

    assert vectors(batches) == [[HALF, 0, HALF]]
    assert [(obj.label, obj.xyxy) for obj in batches[0].objects] == [("image", (0, 0, 64, 48))]


def test_an_object_gets_a_vector_and_no_attribute(model: Path) -> None:
    batches = run_element(embed(model, on="car"), cars(BLUE))

    assert vectors(batches) == [[0, 0, 1]]
    assert batches[0].objects.attributes == {}


def test_a_track_has_the_mean_of_its_results(model: Path) -> None:
    batches = run_element(embed(model, on="car", reinfer_interval="100ms"), cars(RED, BLUE))

    assert vectors(batches) == [[1, 0, 0], [HALF, 0, HALF]]


def test_without_votes_the_newest_result_counts(model: Path) -> None:
    batches = run_element(embed(model, on="car", reinfer_interval="100ms", vote=False), cars(RED, BLUE))

    assert vectors(batches) == [[1, 0, 0], [0, 0, 1]]


def test_a_vector_of_zeros_is_no_result_and_is_reported(model: Path) -> None:
    messages: list[Message] = []

    (batch,) = run_element(embed(model), images(BLACK), messages=messages)

    assert len(batch.objects) == 0
    assert any("not finite numbers" in message.text for message in messages)
