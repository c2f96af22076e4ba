"""A stream is learned, compared, and reported when it drifts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sightline.media import Objects
from sightline_plugins.drift.baseline import Key
from sightline_plugins.drift.drift import PARTS
from tests.unit.drift.series import Scene, played, second, watch_of

LEARNED, WINDOW = 600, 100
USUAL = Scene()
SHIFTS: dict[Key, Scene] = {
    ("confidence", "car"): replace(USUAL, confidence=0.6),
    ("size", "car"): replace(USUAL, side=0.04),
    ("count", "car"): replace(USUAL, cars=3),
    ("brightness", ""): replace(USUAL, image={"brightness": 80}),
    ("contrast", ""): replace(USUAL, image={"contrast": 30}),
    ("sharpness", ""): replace(USUAL, image={"sharpness": 0.18}),
}


@pytest.mark.parametrize("tracked", [True, False])
def test_the_same_scene_is_no_drift(tracked: bool) -> None:
    watch = watch_of()
    scene = replace(USUAL, tracked=tracked)
    assert list(played(lambda _: scene, LEARNED + 600, watch=watch)) == []
    assert watch.states.keys() == SHIFTS.keys()


@pytest.mark.parametrize("key", SHIFTS, ids=lambda key: key[0])
def test_a_shift_is_reported_within_a_window_and_when_it_is_over(key: Key) -> None:
    begin, end = LEARNED + 2 * WINDOW, LEARNED + 5 * WINDOW
    found = list(played(lambda now: SHIFTS[key] if begin <= now < end else USUAL, LEARNED + 7 * WINDOW))

    own = [(now, change) for now, change in found if change.key == key]
    assert [change.began for _, change in own] == [True, False]
    assert begin < own[0][0] <= begin + WINDOW + WINDOW // PARTS + 1
    assert end < own[1][0] <= end + WINDOW + WINDOW // PARTS + 1
    state = own[0][1].state
    assert state is not None
    assert state.distance >= state.limit >= 0.3
    assert own[1][1].lasted_ns == (own[1][0] - own[0][0]) * 1_000_000_000


def test_medians_tell_before_and_now() -> None:
    begin = LEARNED + WINDOW
    watch = watch_of()
    list(played(lambda now: SHIFTS["size", "car"] if now >= begin else USUAL, LEARNED + 4 * WINDOW, watch=watch))
    size, count = watch.states["size", "car"], watch.states["count", "car"]
    assert size.before == pytest.approx(0.08, rel=0.15)
    assert size.now == pytest.approx(0.04, rel=0.15)
    assert count.before == pytest.approx(6, abs=0.5)


def test_what_moves_by_a_trifle_is_no_drift() -> None:
    darker = replace(USUAL, image={"brightness": 104})
    even = replace(USUAL, image={"brightness": 110})
    assert list(played(lambda now: darker if now > LEARNED else even, LEARNED + 4 * WINDOW)) == []


def test_cars_that_stay_are_few_samples_however_often_they_are_seen() -> None:
    watch = watch_of(quantities=["size", "count"])
    parked = replace(USUAL, cars=1.5, side=0.4)  # ten a window, each for ten seconds
    found = list(played(lambda now: parked if now >= LEARNED else USUAL, LEARNED + 3 * WINDOW, watch=watch))
    assert [change.key[0] for _, change in found] == ["count"]
    assert watch.states.keys() == {("count", "car")}


def test_what_a_tracker_has_not_taken_up_is_few_samples() -> None:
    watch = watch_of(quantities=["size"])
    for number in range(LEARNED + 3 * WINDOW):
        now_ns = number * 1_000_000_000
        tracked, _ = second(USUAL, number, 1)
        other, _ = second(replace(USUAL, cars=2, tracked=False, side=0.3 if number >= LEARNED else 0.1), 0, 1)
        person = other.with_columns(class_id=np.ones(len(other), np.int32))
        watch.is_due(now_ns)
        assert watch.add(Objects.concat([tracked, person]), (1000, 1000), {}, now_ns=now_ns, at_ns=now_ns) == []
    assert watch.states.keys() == {("size", "car")}


def test_a_drift_that_lasts_is_learned_where_that_is_wanted() -> None:
    watch = watch_of(relearn="5m", quantities=["brightness"])
    dark = SHIFTS["brightness", ""]
    found = list(played(lambda now: dark if now >= 900 else USUAL, 3000, watch=watch))
    assert [(change.began, change.reason) for _, change in found] == [(True, ""), (False, "relearned")]
    assert watch.states["brightness", ""].before == pytest.approx(80, abs=8)


def test_what_was_learned_and_what_drifts_goes_on_in_another_process() -> None:
    begin = LEARNED + WINDOW
    scenes = {True: SHIFTS["confidence", "car"], False: USUAL}
    first, second, late = watch_of(), watch_of(), watch_of()
    (began,) = played(lambda now: scenes[now >= begin], 900, watch=first)
    saved = json.loads(json.dumps(first.save()))
    for watch, gap_s in ((second, 10), (late, 5000)):
        watch.restore(saved, epoch_ns=(900 + gap_s) * 1_000_000_000)
    ended = list(played(lambda _: USUAL, 400, watch=second, start=910))
    ended_late = list(played(lambda _: USUAL, 400, watch=late, start=5900))

    assert began[1].began
    assert [change.began for _, change in ended] == [False]
    assert ended[0][1].lasted_ns == pytest.approx((ended[0][0] - began[0]) * 1e9, abs=15e9)
    assert [change.began for _, change in ended_late] == [False]
    assert second.events == {("confidence", "car"): 1}


def test_half_a_baseline_is_learned_on_and_other_options_take_what_fits() -> None:
    first, second, other = watch_of(), watch_of(), watch_of(window="60s")
    list(played(lambda _: USUAL, 350, watch=first))
    saved = first.save()
    assert saved is not None
    for watch in (second, other):
        watch.restore(saved, epoch_ns=350_000_000_000)
    assert (second.learned, other.learned) == (0.5, 0)
    list(played(lambda _: USUAL, 310, watch=second, start=350))
    assert second.learned == 1


def test_learning_anew_ends_what_drifts() -> None:
    begin = LEARNED + WINDOW
    watch = watch_of()
    list(played(lambda now: SHIFTS["size", "car"] if now >= begin else USUAL, 900, watch=watch))
    (change,) = watch.learn_anew()
    assert (change.key, change.began, change.reason) == (("size", "car"), False, "relearned")
    assert (watch.learned, watch.states, watch.lasts_ns()) == (0, {}, {})
