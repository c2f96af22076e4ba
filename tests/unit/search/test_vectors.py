"""Nearest vectors of an index: the same as by brute force in float32, with and without filters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightline_plugins.search.database import quantised
from sightline_plugins.search.vectors import UNKNOWN_TIME, TrackVectors

COUNT, DIMENSIONS = 4_000, 96


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    drawn = np.random.default_rng(4).standard_normal((COUNT, DIMENSIONS)).astype(np.float32)
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


@pytest.fixture(scope="module")
def tracks(vectors: np.ndarray) -> TrackVectors:
    codes, factors = zip(*map(quantised, vectors), strict=True)
    number = np.arange(COUNT)
    return TrackVectors(
        ids=number + 100,
        start_ns=number * 10,
        end_ns=number * 10 + 5,
        stream=(number % 4).astype(np.int32),
        label=(number % 3).astype(np.int32),
        streams=("a", "b", "c", "d"),
        labels=("car", "van", "bus"),
        direction=(number % 5 - 1).astype(np.int8),
        codes=np.stack(codes),
        factors=np.array(factors, np.float32),
    )


@pytest.mark.parametrize(
    "filters", [{}, {"streams": ["b", "c"]}, {"labels": ["bus"], "since_ns": 9_000, "until_ns": 30_000}]
)
def test_finds_what_brute_force_in_float32_finds(
    filters: dict[str, object], tracks: TrackVectors, vectors: np.ndarray
) -> None:
    mask, same = tracks.chosen(**filters), 0  # type: ignore[arg-type]
    for query in vectors[::400] * 0.7 + vectors[::-400] * 0.3:
        query /= np.linalg.norm(query)
        cosines = np.where(mask, vectors @ query, -2)
        rows, scores = tracks.nearest(query, count=10, mask=mask)
        assert mask[rows].all()
        assert (np.diff(scores) <= 0).all()
        assert scores == pytest.approx(cosines[rows], abs=0.01)
        same += len(set(rows.tolist()) & set(np.argsort(-cosines)[:10].tolist()))
    assert same >= 0.95 * 100


def test_a_track_counts_where_it_overlaps_the_time_and_one_without_a_time_never_does(tracks: TrackVectors) -> None:
    times = tracks.start_ns.copy()
    times[5] = UNKNOWN_TIME
    some = replace(tracks, start_ns=times, end_ns=np.where(times == UNKNOWN_TIME, UNKNOWN_TIME, tracks.end_ns))
    assert np.flatnonzero(some.chosen(since_ns=44, until_ns=60)).tolist() == [4, 6]
    assert not some.chosen(streams=["nowhere"]).any()


def test_fewer_tracks_than_asked_for_are_all_of_them(tracks: TrackVectors, vectors: np.ndarray) -> None:
    rows, _ = tracks.nearest(vectors[7], count=10, mask=tracks.ids <= 102)
    assert sorted(rows.tolist()) == [0, 1, 2]
    assert tracks.nearest(vectors[7], count=10, mask=tracks.ids < 0)[0].tolist() == []
