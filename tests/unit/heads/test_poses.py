"""Heads of one thing's keypoints: maps and rows built from known points by the published encoders, and read back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline.errors import ModelError
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.head import DecodeContext, MatchScore, Points, Signature
from sightline_plugins.heads.keypoints import HeatmapOptions
from sightline_plugins.heads.registry import HEADS

WIDTH, HEIGHT = 192, 256
COLUMNS, ROWS = 48, 64
Floats = npt.NDArray[np.float32]


def known_points(count: int = 17) -> Floats:
    random = np.random.default_rng(5)
    return random.uniform((16, 16), (WIDTH - 16, HEIGHT - 16), (count, 2)).astype(np.float32)


def encoded_maps(points: Floats, *, peak: float = 0.9, sigma: float = 2.0) -> Floats:
    """A Gaussian around each point, cell by cell, as Simple Baselines makes its targets (without rounding)."""
    maps = np.zeros((1, len(points), ROWS, COLUMNS), np.float32)
    for number, (x, y) in enumerate(points.tolist()):
        for row in range(ROWS):
            for column in range(COLUMNS):
                distance = (column - x / 4) ** 2 + (row - y / 4) ** 2
                maps[0, number, row, column] = peak * np.exp(-distance / (2 * sigma**2))
    return maps


def encoded_rows(points: Floats, *, split: int = 2, peak: float = 0.8) -> tuple[Floats, Floats]:
    """A Gaussian in each of two rows whose places are half pixels, as SimCC makes its targets."""
    across = np.zeros((1, len(points), WIDTH * split), np.float32)
    down = np.zeros((1, len(points), HEIGHT * split), np.float32)
    for number, (x, y) in enumerate(points.tolist()):
        across[0, number] = peak * np.exp(-((np.arange(WIDTH * split) - x * split) ** 2) / 72)
        down[0, number] = peak * np.exp(-((np.arange(HEIGHT * split) - y * split) ** 2) / 72)
    return across, down


def read(name: str, *outputs: Floats, **options: object) -> Floats:
    settings = HeatmapOptions.model_validate(options) if options else None
    found = HEADS[name].decode(outputs, DecodeContext((WIDTH, HEIGHT), options=settings))
    assert isinstance(found, Points)
    return found.values


@pytest.mark.parametrize(("refine", "error"), [("quarter", 1.01), ("dark", 0.2), ("none", 2.01)])
def test_points_come_back_from_heatmaps(refine: str, error: float) -> None:
    points = known_points()

    found = read("heatmap", encoded_maps(points), refine=refine)

    assert np.abs(found[:, :2] - points).max() <= error


def test_a_quarter_is_better_than_none() -> None:
    points = known_points()
    maps = encoded_maps(points)

    errors = [np.abs(read("heatmap", maps, refine=how)[:, :2] - points).mean() for how in ("quarter", "none")]

    assert errors[0] < 0.7 * errors[1]


def test_the_confidence_is_the_height_of_the_hill() -> None:
    cell = np.array([[80, 120]], np.float32)

    found = read("heatmap", encoded_maps(cell, peak=0.625))

    assert found[0].tolist() == [80, 120, 0.625]


def test_points_at_the_edge_stay_where_their_cell_is() -> None:
    corners = np.array([[0, 0], [WIDTH - 4, HEIGHT - 4]], np.float32)

    assert np.array_equal(read("heatmap", encoded_maps(corners), refine="dark")[:, :2], corners)


def test_a_map_that_is_nowhere_above_zero_has_confidence_zero() -> None:
    assert read("heatmap", np.full((1, 2, ROWS, COLUMNS), -1, np.float32))[:, 2].tolist() == [0, 0]


def test_a_heatmap_of_another_rank_is_an_error() -> None:
    with pytest.raises(ModelError, match="must be \\(1, keypoints, rows, columns\\)"):
        read("heatmap", np.zeros((17, ROWS, COLUMNS), np.float32))


@pytest.mark.parametrize("split", [1, 2, 3])
def test_points_come_back_from_rows(split: int) -> None:
    points = known_points()

    found = read("simcc", *encoded_rows(points, split=split))

    assert np.abs(found[:, :2] - points).max() <= 0.5 / split + 1e-3
    assert np.allclose(found[:, 2], 0.8, atol=0.02)


def test_rows_down_may_come_first() -> None:
    points = known_points()
    across, down = encoded_rows(points)

    assert np.array_equal(read("simcc", down, across), read("simcc", across, down))


def test_the_lower_of_both_scores_counts() -> None:
    across, down = encoded_rows(known_points(1))

    assert read("simcc", across, down * np.float32(0.5))[0, 2] == pytest.approx(0.4, abs=0.01)


def test_simcc_needs_two_outputs_of_as_many_rows() -> None:
    with pytest.raises(ModelError, match="two outputs"):
        read("simcc", np.zeros((1, 17, 384), np.float32))


@pytest.mark.parametrize(
    ("shapes", "name"),
    [
        ([(1, 17, 64, 48)], "heatmap"),
        ([(None, 17, None, None)], "heatmap"),
        ([(1, 17, 384), (1, 17, 512)], "simcc"),
        ([(None, 133, 512), (None, 133, 384)], "simcc"),
    ],
)
def test_the_head_is_matched_by_the_shapes(shapes: list[tuple[int | None, ...]], name: str) -> None:
    outputs = tuple(TensorSpec(str(n), shape, np.dtype(np.float32)) for n, shape in enumerate(shapes))
    signature = Signature(outputs, (WIDTH, HEIGHT))

    sure = [
        head.name
        for head in HEADS.values()
        if head.task == "pose" and head.match_score(signature) is MatchScore.CERTAIN
    ]

    assert sure == [name]
