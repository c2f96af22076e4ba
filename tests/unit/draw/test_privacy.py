"""`privacy`: what is hidden, what is hidden whole, and what the count says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sightline.devices import Device
from sightline.graph import Capability, Operator, Site
from sightline.graph.messages import Message
from sightline.media import Batch, Objects, Origin, Stream, Surface
from sightline.media.batch import FrameColumns
from sightline.media.shapes import Mask
from sightline.testing import make_frames
from sightline_plugins.draw.privacy import Privacy

SOURCE = Origin("detect-1", ("person", "face"))
PERSON, FACE = 0, 1
SIZE_WH = (160, 120)


def build(messages: list[Message] | None = None, **options: Any) -> Operator:
    element = Privacy.model_validate({"on": "face", "detector": "detect-1"} | options)
    return element.build(Site(device=Device(), element_id="privacy-1", post=(messages or []).append))


def found(*boxes: Sequence[float], frame: int = 0, class_id: int = FACE, source: Origin = SOURCE) -> Objects:
    count = len(boxes)
    return Objects.from_columns(
        frame=np.full(count, frame),
        xyxy=np.array(boxes).reshape(-1, 4),
        confidence=np.ones(count),
        class_id=np.full(count, class_id),
        source=source,
    )


def batch_of(*tables: Objects, searched: bool = True, by: str = "detect-1", index: int = 0) -> Batch:
    frame = make_frames(index + 1, size_wh=SIZE_WH)[index]
    batch = Batch((frame,), Objects.concat(tables), columns=FrameColumns(detected=(searched,)))
    return batch.with_search(by, {0}) if searched else batch


def shown(batch: Batch, **options: Any) -> Surface:
    result = build(**options).process(batch)
    assert isinstance(result, Batch)
    return result.frames[0].surface


def changes(batch: Batch, surface: Surface) -> Any:
    return batch.frames[0].surface.planes[0] != surface.planes[0]


def totals(operator: Operator, *batches: Batch) -> dict[str, int]:
    for batch in batches:
        operator.process(batch)
    return dict(operator.totals()["cam"])


def test_a_face_is_hidden_with_its_margin_and_nothing_else() -> None:
    batch = batch_of(found((40, 40, 80, 80)))
    surface = shown(batch)

    changed = changes(batch, surface)
    assert changed[34:86, 34:86].mean() > 0.9
    changed[34:86, 34:86] = False
    assert not changed.any()
    assert surface.planes[0][34:86, 34:86].astype(float).std() < 45


def test_objects_of_other_labels_are_not_hidden() -> None:
    batch = batch_of(found((40, 40, 80, 80), class_id=PERSON))

    assert shown(batch) is batch.frames[0].surface


def test_objects_of_another_step_are_not_hidden_where_one_is_named() -> None:
    other = Origin("detect-2", ("person", "face"))
    batch = batch_of(found((10, 10, 30, 30)), found((90, 60, 120, 100), source=other))

    changed = changes(batch, shown(batch, on={"label": ["face"], "from": "detect-2"}))
    assert not changed[:50].any()
    assert changed[60:100, 90:120].any()


def test_a_searched_frame_without_faces_passes_as_it_is() -> None:
    batch = batch_of()

    assert shown(batch) is batch.frames[0].surface


def test_a_shared_image_is_not_written_to() -> None:
    batch = batch_of(found((40, 40, 80, 80)))
    before = batch.frames[0].surface.planes[0].copy()
    shown(batch)

    np.testing.assert_array_equal(batch.frames[0].surface.planes[0], before)


@pytest.mark.parametrize(
    "batch",
    [
        batch_of(found((40, 40, 80, 80)), searched=False),
        batch_of(searched=False),
        batch_of(by="detect-2"),
        batch_of().with_columns(searched_by=()),
        batch_of(found((40, float("nan"), 80, 80))),
    ],
    ids=["not run", "not run, nothing found", "only another ran", "nothing known", "a box that is none"],
)
def test_a_frame_that_was_not_searched_is_hidden_whole(batch: Batch) -> None:
    surface = shown(batch)

    assert changes(batch, surface).mean() > 0.9
    assert surface.planes[0].astype(float).var() < 0.5 * batch.frames[0].surface.planes[0].astype(float).var()


def test_all_detectors_that_are_named_have_to_have_searched() -> None:
    both = batch_of().with_search("detect-2", {0})
    operator = build(detector=["detect-1", "detect-2"])

    assert totals(operator, batch_of(), both) == {
        "frames": 2,
        "objects_hidden": 0,
        "wholly_hidden": 1,
        "clear": 1,
        "objects": 0,
    }


def test_every_frame_is_counted_once() -> None:
    faces = found((10, 10, 30, 30), (50, 50, 70, 70))
    counted = totals(build(), batch_of(faces), batch_of(), batch_of(searched=False), batch_of(faces, searched=False))

    assert counted == {"frames": 4, "objects_hidden": 1, "wholly_hidden": 2, "clear": 1, "objects": 2}


def test_the_first_frame_that_was_not_searched_is_told_once_a_stream() -> None:
    messages: list[Message] = []
    element = Privacy.model_validate({"on": "face", "detector": "detect-1"})
    operator = element.build(Site(device=Device(), post=messages.append))
    for index in range(3):
        operator.process(batch_of(searched=False, index=index))

    assert [(message.stream, "frame 0 was not wholly searched" in message.text) for message in messages] == [
        ("cam", True)
    ]


def foreseen(index: int, *tables: Objects) -> Batch:
    return batch_of(*tables, searched=False, index=index)


def test_tracks_are_trusted_only_when_asked_for() -> None:
    face = found((40, 40, 80, 80))
    strict, trusting = build(), build(trust_tracks=True)

    assert totals(strict, batch_of(face), foreseen(1, face))["wholly_hidden"] == 1
    assert totals(trusting, batch_of(face), foreseen(1, face))["objects_hidden"] == 2


def test_tracks_are_trusted_for_a_second() -> None:
    operator = build(trust_tracks=True)
    counted = totals(operator, batch_of(), foreseen(25), foreseen(26))

    assert (counted["clear"], counted["wholly_hidden"]) == (2, 1)


def test_tracks_are_not_trusted_before_the_first_search_or_in_a_stream_that_began_anew() -> None:
    operator = build(trust_tracks=True)
    operator.process(foreseen(0))
    operator.process(batch_of(index=1))
    operator.end_stream(Stream("cam"))

    assert totals(operator, foreseen(2))["wholly_hidden"] == 2


def test_tracks_are_not_trusted_where_another_detector_ran_and_the_tracker_foresaw_nothing() -> None:
    seen_by_other = foreseen(1).with_columns(detected=(True,))

    assert totals(build(trust_tracks=True), batch_of(), seen_by_other)["wholly_hidden"] == 1


def test_trusted_tracks_have_to_be_there() -> None:
    element = Privacy.model_validate({"on": "face", "detector": "detect-1", "trust_tracks": True})

    assert Capability.TRACKS in element.required()


def test_a_mask_hides_less_than_its_box_and_its_lack_the_box() -> None:
    masks = np.empty(2, np.object_)
    masks[0] = Mask(20, 20, np.ones((10, 60), np.bool_))
    objects = found((20, 20, 80, 80), (100, 20, 140, 60)).with_columns(mask=masks)
    batch = batch_of(objects)

    changed = changes(batch, shown(batch, shape="mask", method="fill"))
    assert changed[20:30, 20:80].mean() > 0.95
    assert not changed[45:80, 20:80].any()
    assert changed[20:60, 100:140].mean() > 0.95


def test_a_filled_face_is_black() -> None:
    surface = shown(batch_of(found((40, 40, 80, 80))), method="fill")

    assert set(surface.planes[0][40:80, 40:80].ravel().tolist()) == {16}


@pytest.mark.parametrize(
    "wrong",
    [
        {"on": "face"},
        {"detector": "detect-1"},
        {"on": [], "detector": "detect-1"},
        {"on": "face", "detector": []},
        {"on": {"label": "face", "min_size": [1, 1]}, "detector": "detect-1"},
        {"on": "face", "detector": "detect-1", "strength": 2},
        {"on": "face", "detector": "detect-1", "method": "swirl"},
        {"on": "face", "detector": "detect-1", "margin": -1},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Privacy.model_validate(wrong)
