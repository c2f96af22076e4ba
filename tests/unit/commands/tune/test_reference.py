"""What a run loses against one that detects every frame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.tune.reference import Reference, smoothed

FPS = 25.0


def tracks(*, frames: int = 60, identity: int = 1, tremble: float = 0.0, seed: int = 0) -> Annotations:
    """Return the track of a box that moves to the right and grows, whose sides tremble by so many pixels."""
    number = np.arange(frames)
    growth = 0.02 * number**2
    xyxy = np.stack([100 + 4 * number - growth, 80 - growth, 160 + 4 * number + growth, 140 + growth], axis=1)
    xyxy += np.random.default_rng(seed).normal(0, tremble, xyxy.shape)
    return Annotations.from_rows(
        frame=number,
        xyxy=xyxy,
        confidence=np.ones(frames),
        label=np.full(frames, "object"),
        identity=np.full(frames, identity),
    )


def without(table: Annotations, frames: range) -> Annotations:
    return table.select(~np.isin(table.frame, list(frames)))


def test_smoothing_takes_trembling_out_and_does_not_lag() -> None:
    still, trembling = tracks(), tracks(tremble=2)
    found = smoothed(trembling, reach=4, shortest=10)

    np.testing.assert_allclose(smoothed(still, reach=4, shortest=10).xyxy, still.xyxy, atol=0.01)
    before, after = (np.abs(table.xyxy - still.xyxy).mean() for table in (trembling, found))
    assert after < 0.65 * before


def test_gaps_are_filled_and_short_tracks_ignored() -> None:
    broken = without(tracks(), range(20, 25))
    short = replace(tracks(frames=5, identity=2), frame=np.arange(30, 35))
    columns = (np.concatenate([getattr(broken, name), getattr(short, name)]) for name in Annotations.__slots__)
    found = smoothed(Annotations(*columns), reach=4, shortest=12)

    assert found.frame[found.identity == 1].tolist() == list(range(60))
    assert found.ignored.tolist() == (found.identity == 2).tolist()


def test_what_is_not_tracked_is_no_reference() -> None:
    loose = tracks(identity=-1)
    assert len(smoothed(loose, reach=4, shortest=12)) == 0
    assert Reference(loose, fps=FPS).tracks == 0


def test_a_run_loses_what_it_misses_and_the_run_itself_nothing() -> None:
    every = tracks(tremble=1)
    reference = Reference(every, fps=FPS)

    assert reference.loss_of(every).worst == 0
    assert reference.loss_of(without(every, range(15))).hota > 5
    assert reference.loss_of(tracks(tremble=1, seed=1)).hota < 2


def test_the_truth_is_the_measure_where_there_is_one() -> None:
    late = without(tracks(tremble=1), range(10))
    reference = Reference(late, fps=FPS, truth=tracks())

    assert reference.loss_of(tracks()).hota == pytest.approx(100 * (reference.scores.hota - 1))
