"""What is reported of a camera, and when: on the sample clips, altered from the 20th second on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sightline_plugins import CameraHealth
from sightline_plugins.camera_health.watch import CameraWatch
from tests.unit.camera_health.scenes import FAULTS, HARMLESS, altered, noisy, scene, told

START, END = 20, 60
CLIPS = ("street", "entrance")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", CLIPS)
def test_a_fault_is_reported_within_a_minute_and_its_end(name: str, fault: str) -> None:
    check, alter = FAULTS[fault]

    (began, first, state), *others = told(altered(scene(name, 75), alter, start=START, end=END))

    assert (first, state) == (check, "began")
    assert began <= START + 40
    assert [(one, kind) for _, one, kind in others] == [(check, "ended")]
    assert END < others[0][0] <= END + 15


@pytest.mark.parametrize("change", HARMLESS)
@pytest.mark.parametrize("name", [*CLIPS, "gate"])
def test_light_weather_and_traffic_are_no_fault(name: str, change: str) -> None:
    assert told(altered(scene(name, 70), HARMLESS[change], start=START, end=70)) == []


@pytest.mark.parametrize("hertz", [0.5, 1, 10])
def test_results_do_not_depend_on_the_frame_rate(hertz: float) -> None:
    _, alter = FAULTS["turned by a tenth"]
    found = told(altered(scene("street", 75, hertz=hertz), alter, start=START, end=END), interval="50ms")
    assert [(check, state) for _, check, state in found] == [("turned", "began"), ("turned", "ended")]
    assert found[0][0] == pytest.approx(START + 20, abs=2.5)


def test_night_falls_and_ends_without_an_event() -> None:
    """Within six minutes to a sixteenth of the light, with the noise of a sensor."""

    def light(seconds: float) -> float:
        return max(abs(seconds - 375) / 375, 1 / 16)

    dark = ((at, noisy(16 + (image - 16.0) * light(at), at, 1.5)) for at, image in scene("street", 750, hertz=1))

    assert told((at, np.clip(image, 0, 255).astype(np.uint8)) for at, image in dark) == []


def test_a_camera_that_shows_nothing_from_the_beginning_is_covered() -> None:
    _, cap = FAULTS["cap"]
    found = told(altered(scene("street", 60), cap, start=0, end=35))
    assert [(check, state) for _, check, state in found] == [("covered", "began"), ("covered", "ended")]


def test_a_view_in_which_nothing_stands_still_is_not_judged() -> None:
    random = np.random.default_rng(1)
    images = ((number / 2, random.integers(0, 256, (180, 320), np.uint8)) for number in range(120))
    assert told(images) == []


def test_only_what_is_asked_for_is_reported() -> None:
    _, turn = FAULTS["turned by a tenth"]
    assert told(altered(scene("street", 75), turn, start=START, end=75), checks=["covered", "defocused"]) == []


def test_a_turned_camera_has_a_new_view_in_the_end() -> None:
    _, turn = FAULTS["turned by a tenth"]
    found = told(altered(scene("street", 120), turn, start=START, end=120), relearn="40s")
    assert [(check, state) for _, check, state in found] == [("turned", "began"), ("turned", "relearned")]


def test_a_cap_stays_a_cap() -> None:
    _, cap = FAULTS["cap"]
    found = told(altered(scene("street", 120), cap, start=START, end=120), relearn="40s")
    assert [(check, state) for _, check, state in found] == [("covered", "began")]


def test_a_size_that_changes_is_learned_anew() -> None:
    images = [(at, image if at < 30 else np.ascontiguousarray(image[:120])) for at, image in scene("street", 90)]
    assert told(iter(images)) == []


# frozen


def test_a_frozen_image_is_reported_though_key_frames_encode_it_anew() -> None:
    images = [image for _, image in scene("street", 100)]
    for number in range(60, 160):
        images[number] = np.minimum(images[60], 254) + np.uint8(
            number // 4 % 2
        )  # two seconds from key frame to key frame

    found = told((number / 2, image) for number, image in enumerate(images))

    assert [(check, state) for _, check, state in found] == [("frozen", "began"), ("frozen", "ended")]
    assert 60 <= found[0][0] <= 75


def test_a_scene_in_which_nothing_happens_is_not_frozen() -> None:
    _, still = next(scene("street", 1))
    images = ((number / 2, np.clip(noisy(still, number, 0.4), 0, 255).astype(np.uint8)) for number in range(200))
    assert told(images) == []


def test_a_camera_whose_images_are_often_the_same_gets_more_time() -> None:
    images = [image for _, image in scene("street", 120)]
    for number in range(40, 90):
        images[number] = images[40]  # 25 s, and again 45 s
    for number in range(100, 190):
        images[number] = images[100]

    assert told((number / 2, image) for number, image in enumerate(images)) == []
    assert told((number / 2, image) for number, image in enumerate(images[60:])) != []


# state


def test_a_camera_that_was_turned_while_nobody_looked_is_reported() -> None:
    before = CameraWatch(CameraHealth())
    assert told(scene("street", 20), before) == []
    after = CameraWatch(CameraHealth())
    after.restore(json.loads(json.dumps(before.save())), gap_ns=10**12)
    _, turn = FAULTS["turned by a tenth"]

    found = told(altered(scene("street", 30), turn, start=0, end=30), after)

    assert [(check, state) for _, check, state in found] == [("turned", "began")]


def test_what_lasts_over_a_restart_ends_once() -> None:
    _, turn = FAULTS["turned by a tenth"]
    before = CameraWatch(CameraHealth())
    told(altered(scene("street", 60), turn, start=START, end=60), before)
    after = CameraWatch(CameraHealth())
    after.restore(before.save(), gap_ns=5 * 10**9)

    changes = [change for at, image in scene("street", 30) for change in after.update(image, now_ns=round(at * 10**9))]

    assert [(one.check, one.began) for one in changes] == [("turned", False)]
    assert changes[0].lasted_ns == pytest.approx((40 + 5 + 10) * 10**9, abs=2 * 10**9)


@pytest.mark.parametrize(
    "damage",
    [
        lambda saved: saved.pop("view"),
        lambda saved: saved["view"].update(background="AAAA"),
        lambda saved: saved["view"].update(size_wh=[100_000, 100_000]),
        lambda saved: saved["view"].update(edges=[1.0]),
        lambda saved: saved["view"].update(sharp=[float("nan")] * len(saved["view"]["sharp"])),
        lambda saved: saved.update(lasted_ns=[1]),
    ],
)
def test_a_state_that_is_damaged_is_refused(damage: object) -> None:
    watch = CameraWatch(CameraHealth())
    told(scene("street", 20), watch)
    saved = json.loads(json.dumps(watch.save()))
    assert callable(damage)
    damage(saved)
    with pytest.raises((KeyError, TypeError, ValueError)):
        CameraWatch(CameraHealth()).restore(saved, gap_ns=0)
