"""When a detector with `every: auto` runs, on made views whose motion is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sightline_plugins.infer.adaptive.allowance import Allowance
from sightline_plugins.infer.adaptive.budget import Budget
from sightline_plugins.infer.adaptive.pace import Reason, StreamPace
from tests.unit.infer.adaptive.scene import FRAME_NS, frames, ground, paced, panned

BEGINNING = 16
"""Frames on which it runs until it is known whether the camera moves."""


def new_pace(**options: float | str) -> StreamPace:
    budget = Budget.model_validate(options)
    return StreamPace(budget, Allowance(budget))


def test_where_nothing_moves_it_runs_as_often_as_the_longest_interval_asks() -> None:
    reasons = paced(frames(150), Budget.model_validate({"sampling": 0.001}))[BEGINNING:]

    assert {reason for reason in reasons if reason} == {Reason.LONGEST}
    runs = [number for number, reason in enumerate(reasons) if reason]
    assert set(np.diff(runs)) == {25}


def test_what_comes_is_seen_at_once() -> None:
    reasons = paced(frames(60, lambda frame: [(100, 60)] if frame >= 40 else []))

    assert Reason.MOTION in reasons[40:42]
    assert reasons[BEGINNING:40].count(None) >= 20


def test_what_moves_steadily_is_detected_on_some_frames_only() -> None:
    reasons = paced(frames(200, lambda frame: [(10 + frame, 60)]))[BEGINNING:]

    assert 0.05 < 1 - reasons.count(None) / len(reasons) < 0.4
    assert Reason.INTERVAL in reasons


def test_more_loss_allows_fewer_runs() -> None:
    def jumping(frame: int) -> list[tuple[float, float]]:
        return [(60 + 40 * np.sin(frame / 6), 60 + 30 * np.cos(frame / 5))]

    careful, bold = (
        sum(reason is not None for reason in paced(frames(200, jumping), Budget(max_loss=loss)))
        for loss in (0.005, 0.1)
    )

    assert bold < 0.8 * careful


@pytest.mark.parametrize("pixels", [0.5, 2, 6])
def test_a_moving_camera_is_detected_on_every_frame(pixels: float) -> None:
    assert None not in paced(panned(60, pixels=pixels))


def test_nothing_is_learned_while_the_camera_moves() -> None:
    pace = new_pace()
    paced(panned(40, pixels=2), pace=pace)
    reason = pace.decide_by_image(ground(seed=9), pts_ns=40 * FRAME_NS)

    assert reason is Reason.CAMERA
    assert pace.run(reason).image is None


def test_where_every_frame_is_detected_all_the_same_images_are_looked_at_now_and_then_only() -> None:
    reasons = paced(itertools.chain(panned(400, pixels=1), frames(450)))

    rests = [len(list(group)) for is_rest, group in itertools.groupby(reasons, lambda reason: reason is Reason.BUSY)]
    looked, first, looked_again, second, _ = rests
    assert 2 * 25 + BEGINNING - 2 <= looked == looked_again <= 2 * 25 + BEGINNING + 2
    assert (first, second) == (8 * 25 - 1, 16 * 25 - 1)
    assert None in reasons[sum(rests[:4]) :]


def test_a_shared_rate_is_not_spent_on_frames_that_nothing_looked_at() -> None:
    assert Reason.BUSY not in paced(panned(150, pixels=1), Budget.model_validate({"max_rate": 100}))


def test_light_that_fades_does_not_count_as_motion() -> None:
    still, nothing = ground().astype(int), np.empty((0, 4), np.float32)
    view = ((np.clip(still + frame // 8, 0, 255).astype(np.uint8), nothing) for frame in range(100))

    assert not {Reason.MOTION, Reason.CAMERA} & set(paced(view)[BEGINNING:])


def test_the_same_frames_give_the_same_decisions() -> None:
    def one() -> list[Reason | None]:
        return paced(frames(120, lambda frame: [(10 + 2 * frame, 60), (250 - frame, 80)]))

    assert one() == one()


def test_samples_are_taken_whatever_else_is_decided() -> None:
    pace = new_pace(sampling=0.05, max_interval="10s")
    reasons = paced(frames(200), pace=pace)

    assert [number for number, reason in enumerate(reasons, 1) if reason is Reason.SAMPLE] == [
        number for number in range(17, 201) if number % 40 < 2
    ]


def test_the_report_has_share_reasons_and_agreement() -> None:
    pace = new_pace(sampling=0.05)
    reasons = paced(frames(200, lambda frame: [(10 + frame, 60)]), pace=pace)
    report = pace.report()

    runs = sum(reason is not None for reason in reasons)
    assert report["detected"] == runs == sum(report["reasons"].values())
    assert report["share"] == round(runs / 200, 4)
    assert report["agreement"]["samples"] > 0
    assert report["agreement"]["overlap"] > 0.9


def test_time_that_runs_backward_begins_anew() -> None:
    pace = new_pace()
    paced(frames(60), pace=pace)

    assert pace.decide_by_image(ground(), pts_ns=FRAME_NS) is Reason.FIRST


def test_other_sizes_begin_anew() -> None:
    pace = new_pace()
    paced(frames(60), pace=pace)

    assert pace.decide_by_image(ground(160), pts_ns=60 * FRAME_NS) is Reason.FIRST


def test_streams_that_need_more_get_more_of_a_shared_rate_and_none_starves() -> None:
    budget = Budget.model_validate({"max_rate": 12})
    allowance = Allowance(budget)
    busy, quiet = (StreamPace(budget, allowance) for _ in range(2))
    allowance.share_among(2)
    views = [frames(300, lambda frame: [(10 + 0.8 * frame, 60 + 20 * np.sin(frame / 4))]), frames(300)]
    runs = [0, 0]
    for frame, both in enumerate(zip(*views, strict=True)):
        for number, (pace, (image, xyxy)) in enumerate(zip((busy, quiet), both, strict=True)):
            reason = pace.decide_by_image(image, pts_ns=frame * FRAME_NS) or pace.decide_by_tracks()
            if reason is not None:
                runs[number] += 1
                confidence = np.full(len(xyxy), 0.9, np.float32)
                pace.learn(pace.run(reason), xyxy, confidence, np.zeros(len(xyxy), np.int64))

    assert sum(runs) <= 12 * 12 * 1.1 + 24
    assert runs[0] > 2 * runs[1]
    assert runs[1] >= 11


def test_objects_that_are_no_longer_there_count_as_disagreement() -> None:
    pace = new_pace(sampling=0.1, max_loss=0.5)
    places = [(40.0, 40.0), (150.0, 40.0), (230.0, 100.0)]
    paced(frames(100, lambda frame: places), pace=pace)
    steady = pace.report()["agreement"]["overlap"]
    gone = new_pace(sampling=0.1, max_loss=0.5)
    paced(frames(100, lambda frame: places[: 1 + 2 * (frame % 40 < 30)]), pace=gone)

    assert steady > 0.9
    assert gone.report()["agreement"]["overlap"] < steady - 0.05
