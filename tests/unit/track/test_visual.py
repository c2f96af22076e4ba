"""With `visual: true` the default tracker follows objects in the images, between detections and without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.track.test_correlation import texture

from sightline.errors import ConfigurationError
from sightline.graph.tracker import Predictions, Tracker
from sightline.media import Batch, Objects, Origin
from sightline.media.batch import FrameColumns
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_frames, run_element
from sightline.testing.tracker_conformance import FRAME_NS, Ids, TrackerConformance
from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.track import Track

Image = npt.NDArray[np.uint8]
Boxes = npt.NDArray[np.float32]
SIZE_WH = 320, 240
OBJECT = texture(seed=5, size_wh=(40, 60))
BACKGROUND = texture(seed=6, size_wh=SIZE_WH) // 4 + 90
NOTHING = np.empty((0, 4), np.float32)


def image_of(*corners: tuple[float, float], hidden: bool = False) -> tuple[Image, Boxes]:
    """Objects with these left upper corners in front of the background, and their boxes; or hidden behind a wall."""
    image, boxes = BACKGROUND.copy(), []
    for x, y in corners:
        left, top = round(x), round(y)
        boxes.append([left, top, left + 40, top + 60])
        rows, columns = (slice(max(0, start), max(0, start + side)) for start, side in ((top, 60), (left, 40)))
        part = OBJECT[max(0, -top) :, max(0, -left) :]
        space = image[rows, columns]
        space[:] = part[: space.shape[0], : space.shape[1]]
        if hidden:
            space[:] = texture(seed=7, size_wh=(40, 60))[: space.shape[0], : space.shape[1]]
    return image, np.array(boxes, np.float32).reshape(-1, 4)


def tracker(**options: object) -> AdaptiveTracker:
    return AdaptiveTracker(AdaptiveOptions.model_validate({"visual": True, "calibrate": False, **options}))


def detect(one: AdaptiveTracker, image: Image | None, xyxy: Boxes, number: int) -> Ids:
    """Show a frame and its detections."""
    if image is not None:
        one.look(image)
    count = len(xyxy)
    return one.update(xyxy, np.full(count, 0.9, np.float32), np.zeros(count, np.int64), pts_ns=number * FRAME_NS)


def expect(one: AdaptiveTracker, image: Image | None, number: int) -> Predictions:
    """Show a frame that no detector looked at."""
    if image is not None:
        one.look(image)
    return one.predict(pts_ns=number * FRAME_NS)


def standing(one: AdaptiveTracker, *, frames: int = 8) -> None:
    """Let an object stand at (100, 80) for so many frames."""
    for number in range(frames):
        detect(one, *image_of((100, 80)), number)


class TestVisualWithoutImages(TrackerConformance):
    options = AdaptiveOptions(visual=True)


class TestVisual(TrackerConformance):
    options = AdaptiveOptions(visual=True)

    def run(self, tracker: Tracker, *, swapped: bool = False, since_ns: int = 0) -> Iterator[Ids]:
        """Show an image before each frame."""
        noise = np.random.default_rng(1)
        for number in range(self.frames):
            xyxy, confidence, class_id = self.detections(number)
            tracker.look(noise.integers(0, 256, (120, 300), dtype=np.uint8))
            now_ns = since_ns + number * FRAME_NS
            yield tracker.update(xyxy[::-1] if swapped else xyxy, confidence, class_id, pts_ns=now_ns)


def test_a_turn_between_detections_is_followed() -> None:
    followed, expected = tracker(), tracker(visual=False)
    for one in (followed, expected):
        for number in range(10):
            detect(one, *image_of((60 + 4 * number, 80)), number)
    for number in range(10, 15):
        image, xyxy = image_of((96, 80 + 4 * (number - 9)))
        found = expect(followed, image, number).xyxy
        np.testing.assert_allclose(found, xyxy, atol=6)
    assert np.abs(expect(expected, None, 14).xyxy - xyxy).max() > 15


def test_an_object_that_moves_on_is_where_it_is_expected_with_and_without_images() -> None:
    followed = tracker()
    for number in range(10):
        detect(followed, *image_of((60 + 4 * number, 80)), number)
    for number in range(10, 14):
        image, xyxy = image_of((60 + 4 * number, 80))
        np.testing.assert_allclose(expect(followed, image, number).xyxy, xyxy, atol=1.5)


def test_an_object_that_is_not_seen_is_where_the_motion_model_expects_it() -> None:
    followed, expected = tracker(), tracker(visual=False)
    for one in (followed, expected):
        for number in range(10):
            detect(one, *image_of((60 + 4 * number, 80)), number)
    for number in range(10, 14):
        blank, _ = image_of((60 + 4 * number, 80), hidden=True)
        found, plain = expect(followed, blank, number), expect(expected, None, number)
        np.testing.assert_allclose(found.xyxy, plain.xyxy, atol=1.5)


def test_tracker_confidence_is_higher_where_the_object_is_seen() -> None:
    seen, hidden = tracker(), tracker()
    for one in (seen, hidden):
        standing(one)
    for number in range(8, 12):
        clear = expect(seen, image_of((100, 80))[0], number).certainty
        gone = expect(hidden, image_of((100, 80), hidden=True)[0], number).certainty
    assert clear is not None
    assert gone is not None
    assert clear[0] > gone[0] + 0.05


@pytest.mark.parametrize(("detections", "is_followed_then"), [(3, "object"), (22, "what hides it")])
def test_what_hides_an_object_is_learned_only_when_it_stays(detections: int, is_followed_then: str) -> None:
    for hidden in (False, True):
        followed = tracker()
        standing(followed)
        for number in range(8, 8 + detections):
            detect(followed, *image_of((100, 80), hidden=True), number)
        for step in range(1, 8):
            image, xyxy = image_of((100 + 2 * step, 80), hidden=hidden)
            found = expect(followed, image, 7 + detections + step).xyxy
        is_followed = bool(np.abs(found - xyxy).max() < 6)
        assert is_followed == ((is_followed_then == "what hides it") == hidden)


def test_an_object_that_stops_while_no_detection_finds_it_keeps_its_id() -> None:
    ids = []
    for visual in (True, False):
        one = tracker(visual=visual)
        for number in range(10):
            detect(one, *image_of((60 + 5 * number, 80)), number)
        for number in range(10, 22):
            detect(one, image_of((105, 80))[0], NOTHING, number)
        ids.append(detect(one, *image_of((105, 80)), 22).tolist())
    assert ids == [[1], [-1]]


def test_an_object_is_not_followed_forever_without_a_detection() -> None:
    followed = tracker(max_lost="10s")
    standing(followed)
    for number in range(8, 80):
        moved = min(number - 8, 40)
        detect(followed, image_of((100 + moved, 80))[0], NOTHING, number)
        if moved == 20:
            assert followed.tracks.mean[0, 0, 0] == pytest.approx(120 + 20, abs=3)

    assert followed.tracks.mean[0, 0, 0] > 120 + 60


def test_objects_that_leave_the_image_are_expected_outside() -> None:
    followed = tracker()
    for number in range(10):
        detect(followed, *image_of((280 - 25 + 5 * number - 25, 80)), number)
    for number in range(10, 30):
        found = expect(followed, image_of((230 + 5 * number, 80))[0], number)
        assert np.isfinite(found.xyxy).all()
    assert found.xyxy[0, 0] > 320


def test_tiny_boxes_even_images_and_images_of_any_size_are_taken() -> None:
    followed = tracker()
    boxes = np.array([[5, 5, 7, 8], [100, 80, 140, 140], [-3000, -3000, 4000, 4000]], np.float32)
    for number, image in enumerate([*[np.full((240, 320), 128, np.uint8)] * 3, texture(), texture()[:1, :1]]):
        detect(followed, image, boxes, 2 * number)
        found = expect(followed, image, 2 * number + 1)
        assert np.isfinite(found.xyxy).all()
    np.testing.assert_allclose(found.xyxy, boxes, atol=25)


def test_a_prediction_that_is_asked_for_twice_is_the_same() -> None:
    followed = tracker()
    standing(followed)
    one = expect(followed, image_of((106, 84))[0], 8)
    other = followed.predict(pts_ns=8 * FRAME_NS)

    np.testing.assert_array_equal(one.xyxy, other.xyxy)
    np.testing.assert_array_equal(one.certainty, other.certainty)


def test_two_runs_are_equal_to_the_bit() -> None:
    def run() -> list[npt.NDArray[np.float32]]:
        one, random = tracker(), np.random.default_rng(3)
        found = []
        for number in range(40):
            image, xyxy = image_of(*((30 + 60 * place + 2 * number, 30 + 40 * place) for place in range(3)))
            if number % 3 == 0:
                detect(one, image, xyxy[random.random(3) < 0.8], number)
            else:
                found.append(expect(one, image, number).xyxy)
        return found

    assert all(np.array_equal(one, other) for one, other in zip(run(), run(), strict=True))


def batches(frames_each: int) -> list[Batch]:
    """Thirty frames of two objects, of which a detector looked at every third, so many in a batch."""
    stills = make_frames(30, size_wh=SIZE_WH)
    made = []
    for first in range(0, 30, frames_each):
        frames, columns, looked = [], [], []
        for row, index in enumerate(range(first, min(30, first + frames_each))):
            image, xyxy = image_of((40 + 4 * index, 40), (200, 100 + (index % 6)))
            surface = surface_from_rgb(np.repeat(image[..., None], 3, axis=2))
            frames.append(replace(stills[index], pts_ns=index * FRAME_NS, surface=surface))
            looked.append(index % 3 == 0)
            columns += [(row, box) for box in xyxy if looked[-1]]
        zeros = np.zeros(len(columns))
        objects = Objects.from_columns(
            frame=np.array([row for row, _ in columns], np.int32),
            xyxy=np.array([box for _, box in columns], np.float32).reshape(-1, 4),
            confidence=zeros + 0.9,
            class_id=zeros,
            source=Origin("test", ("thing",)),
        )
        made.append(replace(Batch(tuple(frames), objects), columns=FrameColumns(detected=tuple(looked))))
    return made


def test_results_are_the_same_for_any_batching() -> None:
    found = []
    for frames_each in (1, 7, 30):
        done = run_element(Track.model_validate({"visual": True}), batches(frames_each))
        found.append([np.concatenate([getattr(one.objects, name) for one in done]) for name in ("xyxy", "track_id")])

    assert len(found[0][0]) == 60
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)


def test_images_are_asked_for_only_where_they_are_used() -> None:
    assert AdaptiveOptions(visual=True).needs_images
    assert not AdaptiveOptions().needs_images


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"visual": "sometimes"}, "visual: "),
        ({"algorithm": "sort", "visual": True}, "visual: is an option of adaptive, not of sort"),
        ({"visul": True}, "did you mean 'visual'"),
    ],
)
def test_a_wrong_setting_is_one_clear_error(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Track(**options)

    assert said in str(raised.value)
    assert str(raised.value).count("\n") == 0
