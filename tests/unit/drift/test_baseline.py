"""How far samples are from a baseline: what chance does, what is usual, and what time of day it is."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.media.frame import NANOSECONDS
from sightline_plugins.drift.baseline import Baseline, Block, Key
from sightline_plugins.drift.distance import ALARM_RATE, critical, distances, median_position
from sightline_plugins.drift.quantities import BINS, QUANTITIES, SCALES, mean_count

HOUR_NS = 3600 * NANOSECONDS
KEYS: list[Key] = [("confidence", "car"), ("brightness", "")]


def block(
    random: np.random.Generator, at_ns: int, *, samples: int = 60, light: float = 100, sure: float = 0.7
) -> Block:
    confidence = SCALES["confidence"].bins(np.clip(random.normal(sure, 0.15, samples), 0, 1))
    brightness = SCALES["brightness"].bins(random.normal(light, 10, 60))
    counts = np.stack([np.bincount(bins, minlength=BINS) for bins in (confidence, brightness)])
    return Block(at_ns, 60, counts.astype(np.uint32), np.array([samples, 0], np.uint32))


def test_samples_of_one_distribution_exceed_the_limit_as_seldom_as_stated() -> None:
    """A hundred baselines of a day, and ten windows for each: with the limits of chance alone, 0.2 are expected."""
    alarms = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        baseline = Baseline(KEYS, [block(random, hour * HOUR_NS) for hour in range(24)])
        for hour in range(24, 34):
            found = baseline.compare(block(random, hour * HOUR_NS), KEYS, threshold=0.01)
            assert found.is_known.all()
            alarms += int((found.distance >= found.limit).sum())
    assert 2000 * ALARM_RATE < 1
    assert alarms <= 2


def test_the_critical_distance_is_that_of_smirnov() -> None:
    random = np.random.default_rng(3)
    exceeded, factor = 0, np.sqrt(-np.log(0.05 / 2) / 2) / np.sqrt(-np.log(ALARM_RATE / 2) / 2)
    for _ in range(400):
        first, second = (np.bincount((random.random(200) * 512).astype(int), minlength=512) for _ in range(2))
        distance, _ = distances(first, second)
        exceeded += bool(distance > factor * critical(np.array(200), np.array(200)))
    assert 4 <= exceeded <= 36  # of 20, less what is lost by bins


def test_few_samples_are_not_compared_and_some_more_need_a_larger_distance() -> None:
    random = np.random.default_rng(4)
    baseline = Baseline(KEYS, [block(random, hour * HOUR_NS, samples=200) for hour in range(6)])
    few, some, many = (
        baseline.compare(block(random, 7 * HOUR_NS, samples=samples, sure=0.4), KEYS, threshold=0.3)
        for samples in (20, 40, 400)
    )
    assert few.is_known.tolist() == [False, True]
    assert some.limit[0] > many.limit[0]
    assert many.distance[0] > many.limit[0]


def test_a_night_is_compared_with_nights() -> None:
    random = np.random.default_rng(5)
    lights = [110 if 7 <= hour % 24 < 19 else 30 for hour in range(50)]
    baseline = Baseline(KEYS, [block(random, hour * HOUR_NS, light=lights[hour]) for hour in range(48)])
    night, dark_day = (
        baseline.compare(block(random, (48 + hour) * HOUR_NS, light=30), KEYS, threshold=0.3) for hour in (2, 12)
    )
    assert night.distance[1] < night.limit[1]
    assert dark_day.distance[1] > dark_day.limit[1]
    assert SCALES["brightness"].value(median_position(dark_day.before[1])) == pytest.approx(110, abs=8)


def test_what_differs_from_window_to_window_by_itself_is_usual() -> None:
    random = np.random.default_rng(6)
    levels = (60, 110, 160, 90, 140, 75, 125, 100)
    baseline = Baseline(KEYS, [block(random, number * HOUR_NS, light=light) for number, light in enumerate(levels)])
    found = baseline.compare(block(random, 9 * HOUR_NS, light=118), KEYS, threshold=0.1)
    assert found.distance[1] < found.limit[1]
    assert found.limit[1] > 0.5 > found.limit[0]


def test_a_label_that_was_never_there_is_counted_from_nothing() -> None:
    random = np.random.default_rng(7)
    keys: list[Key] = [*KEYS, ("count", "person")]
    baseline = Baseline(KEYS, [block(random, hour * HOUR_NS) for hour in range(6)])
    now = block(random, 7 * HOUR_NS)
    people = np.zeros((1, BINS), np.uint32)
    people[0, SCALES["count"].bins(np.array(2))] = 55
    window = Block(now.at_ns, now.frames, np.concatenate([now.counts, people]), np.append(now.objects, np.uint32(0)))
    found = baseline.compare(window, keys, threshold=0.3)
    assert found.distance[2] == pytest.approx(55 / 60)
    assert mean_count(found.before[2]) == 0
    assert mean_count(found.now[2]) == pytest.approx(2 * 55 / 60)


def test_a_baseline_that_was_saved_is_the_same_and_damage_is_refused() -> None:
    random = np.random.default_rng(8)
    baseline = Baseline(KEYS, [block(random, hour * HOUR_NS) for hour in range(6)])
    saved = dict(baseline.save())
    again, now = Baseline.restored(saved), block(random, 7 * HOUR_NS)
    one, other = (each.compare(now, KEYS, threshold=0.3) for each in (baseline, again))
    assert one.distance.tolist() == other.distance.tolist()
    assert one.limit.tolist() == other.limit.tolist()
    only = Baseline.restored(saved, is_wanted=lambda key: key[0] == "brightness")
    assert only.keys == (("brightness", ""),)
    damages: list[dict[str, object]] = [
        {"series": [["taste", ""], ["brightness", ""]]},
        {"frames": [60]},
        {"counts": saved["counts"][:40]},
        {"counts": "AAAA"},
        {"at_ns": [], "frames": []},
    ]
    for damage in damages:
        with pytest.raises((ValueError, KeyError, TypeError)):
            Baseline.restored({**saved, **damage})


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_scales_hold_their_values(quantity: str) -> None:
    scale = SCALES[quantity]  # type: ignore[index]
    positions = np.arange(1, BINS - 1) + 0.5
    values = np.array([scale.value(position) for position in positions])
    assert np.allclose(scale.positions(values), positions)
    assert scale.bins(np.array([-1.0, 1e9])).tolist() == [0, BINS - 1]
