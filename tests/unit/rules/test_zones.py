from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.rules.scenes import events, path, scene, truth_scene

from sightline.devices import Device
from sightline.graph import Site
from sightline.media import Batch, Frame, Overlay
from sightline.media.time import parse_duration_ns
from sightline.testing import run_element
from sightline_plugins.rules.zone_monitor import ZoneCounts, ZoneLimits, ZoneMonitor
from sightline_plugins.rules.zones import StreamZones, Zones

SQUARE = [[0.2, 0.2], [0.8, 0.2], [0.8, 0.8], [0.2, 0.8]]
OUT, IN = (10.0, 50.0), (50.0, 50.0)
SECOND_NS = 1_000_000_000


def zones(*, gone: str = "2s", **options: Any) -> Zones:
    return Zones.model_validate({"plaza": {"polygon": SQUARE, **options}, "gone": gone})


def reported(element: Zones, batches: list[Batch]) -> list[tuple[int, str, dict[str, object]]]:
    return [(index, event.kind, dict(event.data)) for index, event in events(run_element(element, batches))]


@pytest.mark.parametrize("sequence", ["TUD-Campus", "TUD-Stadtmitte"])
@pytest.mark.parametrize("size", [1, 16])
def test_figures_of_true_tracks_are_the_known_ones(shared_data: Path, sequence: str, size: int) -> None:
    truth, batches = truth_scene(shared_data, sequence, size=size)
    shapes = {name: {"polygon": zone["polygon"]} for name, zone in truth["zones"].items()}
    rule = Zones.model_validate({"pixels": True, **shapes}).build(Site(device=Device()))
    results = [rule.process(batch) for batch in batches]
    for number, (name, zone) in enumerate(truth["zones"].items()):
        inside = [dict(shapes[number].counts)["inside"] for batch in results for shapes in batch.columns.overlays]
        totals = rule.totals()["cam"][name]
        assert inside == zone["occupancy_per_frame"]
        assert (totals["visitors"], totals["largest"]) == (zone["visitors"], zone["largest"])


@pytest.mark.parametrize("sequence", ["TUD-Campus", "TUD-Stadtmitte"])
def test_dwell_of_true_tracks_is_the_known_one_within_a_frame(shared_data: Path, sequence: str) -> None:
    truth, batches = truth_scene(shared_data, sequence, size=8)
    shapes = {name: {"polygon": zone["polygon"]} for name, zone in truth["zones"].items()}
    rule = Zones.model_validate({"pixels": True, **shapes}).build(Site(device=Device()))
    dwell: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _, event in events([rule.process(batch) for batch in batches]):
        if event.data["direction"] == "leave":
            dwell[event.rule][str(event.data["track_id"])] += float(event.data["dwell_seconds"])
    watched = rule._streams[batches[0].frames[0].stream].rule
    assert isinstance(watched, StreamZones)
    for open_stay in watched.monitor.close():
        dwell[list(shapes)[open_stay.zone]][str(open_stay.track_id)] += open_stay.dwell_ns / SECOND_NS
    for name, zone in truth["zones"].items():
        assert dwell[name] == pytest.approx(zone["dwell_s"], abs=1 / truth["fps"])


def test_entering_and_leaving_are_reported_with_the_time_inside() -> None:
    walk = path([OUT, IN, IN, IN, OUT])
    assert reported(zones(), scene({3: walk}, frames=5)) == [
        (1, "zone", {"direction": "enter", "track_id": 3}),
        (4, "zone", {"direction": "leave", "track_id": 3, "dwell_seconds": 0.3}),
    ]


def test_a_track_that_vanishes_inside_leaves_after_a_while_with_the_time_it_was_seen() -> None:
    assert reported(zones(gone="500ms"), scene({3: path([IN, IN, IN])}, frames=10))[1:] == [
        (8, "zone", {"direction": "leave", "track_id": 3, "dwell_seconds": 0.3})
    ]


def test_a_short_occlusion_does_not_end_a_stay() -> None:
    walk = {0: IN, 1: IN, 5: IN, 6: OUT}
    assert reported(zones(), scene({3: walk}, frames=7))[1:] == [
        (6, "zone", {"direction": "leave", "track_id": 3, "dwell_seconds": 0.6})
    ]


def test_a_hidden_track_does_not_count_as_inside() -> None:
    batches = run_element(zones(), scene({3: path([IN])}, frames=2, size=2))
    assert [dict(shapes[0].counts)["inside"] for shapes in batches[0].columns.overlays] == [1, 0]


def test_a_track_that_comes_back_is_the_same_visitor() -> None:
    last = run_element(zones(), scene({3: path([IN, OUT, IN])}, frames=3))[-1]
    assert last.columns.overlays[0][0] == Overlay(
        "zone", "plaza", ((20, 20), (80, 20), (80, 80), (20, 80)), (("inside", 1), ("visitors", 1))
    )


def test_a_margin_keeps_a_trembling_box_from_coming_and_going() -> None:
    walk = path([OUT, IN, (21.0, 50.0), (19.0, 50.0), (21.0, 50.0), (19.0, 50.0), IN, OUT])
    trembling = scene({7: walk}, frames=8)

    plain = [data["direction"] for _, _, data in reported(zones(), trembling)]
    steady = [data["direction"] for _, _, data in reported(zones(margin=0.05), trembling)]

    assert plain == ["enter", "leave", "enter", "leave", "enter", "leave"]
    assert steady == ["enter", "leave"]


def test_who_walks_along_within_the_margin_outside_has_not_entered() -> None:
    assert reported(zones(margin=0.05), scene({7: path([OUT, (17.0, 50.0), OUT])}, frames=3)) == []


def test_a_long_stay_is_reported_once() -> None:
    walk = path([IN] * 8)
    assert [event for event in reported(zones(dwell="300ms"), scene({3: walk}, frames=8)) if event[1] == "dwell"] == [
        (3, "dwell", {"track_id": 3, "dwell_seconds": 0.3})
    ]


def test_a_crowd_is_reported_when_it_forms_and_when_it_clears() -> None:
    batches = scene({1: path([IN] * 4), 2: path([IN] * 2 + [OUT] * 2, start=1)}, frames=5)
    crowds = [(index, data) for index, kind, data in reported(zones(limit=1), batches) if kind == "crowd"]
    assert crowds == [
        (1, {"state": "crowded", "occupancy": 2}),
        (3, {"state": "cleared", "occupancy": 1}),
    ]


def test_a_crowd_shorter_than_the_time_asked_for_is_not_told() -> None:
    batches = scene({1: path([IN] * 6), 2: path([IN] * 2 + [OUT] * 2, start=1)}, frames=6)
    assert not [kind for _, kind, _ in reported(zones(limit=1, limit_after="500ms"), batches) if kind == "crowd"]


def test_only_the_classes_asked_for_enter() -> None:
    assert reported(zones(classes=["car"]), scene({1: path([OUT, IN])}, frames=2, class_id=0)) == []


def test_another_label_for_a_frame_does_not_end_a_stay() -> None:
    batches = [*scene({1: path([IN])}, frames=1, class_id=1)]
    batches += scene({1: path([IN, IN])}, frames=2, class_id=0)[1:]
    assert [data["direction"] for _, _, data in reported(zones(classes=["car"]), batches)] == ["enter"]


def test_the_end_of_a_stream_ends_its_stays_in_the_totals() -> None:
    rule = zones().build(Site(device=Device()))
    for batch in scene({1: path([IN] * 5)}, frames=5):
        rule.process(batch)
    rule.end_stream(batch.frames[0].stream)
    assert rule.totals()["cam"]["plaza"] == {
        "entered": 1,
        "left": 1,
        "visitors": 1,
        "largest": 1,
        "mean_dwell_seconds": 0.5,
    }


def test_streams_have_figures_of_their_own() -> None:
    rule = zones().build(Site(device=Device()))
    for batch in scene({1: path([IN])}, frames=1) + scene({1: path([OUT])}, frames=1, stream="other"):
        rule.process(batch)
    assert {name: figures["plaza"]["visitors"] for name, figures in rule.totals().items()} == {"cam": 1, "other": 0}


def test_a_stream_of_one_frame_has_no_time_to_stay() -> None:
    monitor = ZoneMonitor([ZoneLimits()], [ZoneCounts()], gone_ns=0)
    monitor.update(5 * SECOND_NS, changed={0}, inside=[{1}], counted=[{1}], visible={1}, came={1})
    assert [stay.dwell_ns for stay in monitor.close()] == [0]


def test_who_left_long_ago_is_forgotten() -> None:
    monitor = ZoneMonitor([ZoneLimits()], [ZoneCounts()], gone_ns=0)
    for number in range(500):
        own = {number}
        monitor.update(number * SECOND_NS, changed={0}, inside=[own], counted=[own], visible=own, came=own)
    assert len(monitor._left_ns) <= 62


@pytest.mark.parametrize("size", [1, 3, 8])
def test_what_is_reported_does_not_depend_on_batch_size(size: int) -> None:
    walks = {1: path([OUT, IN, IN, OUT, IN]), 2: path([IN, IN, OUT, IN], start=2)}
    element = zones(gone="200ms", dwell="100ms", limit=1)
    assert reported(element, scene(walks, frames=9, size=size)) == reported(element, scene(walks, frames=9, size=9))


@pytest.mark.parametrize(
    ("text", "location", "message"),
    [
        ({"plaza": {"polygon": [[0, 0], [1, 1]]}}, ("plaza", "polygon"), "at least 3 items"),
        ({"plaza": {"polygon": [[0, 0], [1, 1], [2, 1]]}}, ("plaza", "polygon", 2), "[2, 1] is outside the image"),
        ({"plaza": {"polygon": [[0, 0], [1, 1], [1, float("nan")]]}}, ("plaza", "polygon", 2, 1), "finite number"),
        ({"pixels": True, "a": {"polygon": [[0, 0], [-5, 1], [2, 1]]}}, ("a", "polygon", 1), "[-5, 1] is outside"),
        ({"plaza": {"polygon": [[0, 0], [1, 0], [1, 0], [1, 1]]}}, ("plaza", "polygon"), "corners 2 and 3 are both"),
        ({"plaza": {"polygon": [*SQUARE, SQUARE[0]]}}, ("plaza", "polygon"), "closes by itself, leave out the last"),
        ({"plaza": {"polygon": [[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]]}}, ("plaza", "polygon"), "a polygon needs an area"),
        (
            {"plaza": {"polygon": [[0, 0], [1, 1], [1, 0], [0, 1]]}},
            ("plaza", "polygon"),
            "crosses itself: edge 1 (from [0, 0] to [1, 1]) meets edge 3 (from [1, 0] to [0, 1])",
        ),
        ({"plaza": {"polygon": SQUARE, "dwel": "3s"}}, ("plaza", "dwel"), "Extra inputs are not permitted"),
        ({"plaza": {"polygon": SQUARE, "dwell": "3 apples"}}, ("plaza", "dwell"), "is not a duration"),
        ({"plaza": {"polygon": SQUARE}, "gon": "2s"}, ("gon",), "nor an option: those are id, streams, pixels, gone"),
        ({}, (), "no zone is given"),
    ],
)
def test_a_mistake_is_reported_where_it_is(text: dict[str, Any], location: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Zones.model_validate(text)
    assert [(error["loc"], message in error["msg"]) for error in caught.value.errors()] == [(location, True)]


def test_the_classes_of_each_zone_are_reported_with_their_paths() -> None:
    assert list(zones(classes=["person"]).wanted_labels()) == [(("plaza", "classes", 0), "person")]


def after_gap(batches: list[Batch], *, gap: str, at: int) -> list[Batch]:
    """The batches, with a pause of the stream before that frame."""

    def later(frame: Frame) -> Frame:
        return replace(frame, pts_ns=frame.pts_ns + parse_duration_ns(gap)) if frame.index >= at else frame

    return [replace(batch, frames=tuple(map(later, batch.frames))) for batch in batches]


@pytest.mark.parametrize("fps", [5, 30])
@pytest.mark.parametrize("gap", ["1s", "60s"])
def test_a_pause_of_the_stream_belongs_to_the_stay_of_who_is_seen_right_after_it(fps: int, gap: str) -> None:
    walk = path([*[IN] * 2 * fps, OUT, OUT])
    told = reported(zones(), after_gap(scene({3: walk}, frames=2 * fps + 2, fps=fps), gap=gap, at=fps))

    [(_, _, left)] = told[1:]
    assert left["dwell_seconds"] == pytest.approx(2 + parse_duration_ns(gap) / SECOND_NS, abs=1 / fps)


@pytest.mark.parametrize("fps", [5, 30])
def test_who_is_missing_after_a_pause_of_the_stream_has_left_on_the_first_frame_after_it(fps: int) -> None:
    walk = path([IN] * fps)
    told = reported(zones(), after_gap(scene({3: walk}, frames=6 * fps, fps=fps), gap="60s", at=fps))

    [(index, _, left)] = told[1:]
    assert index == pytest.approx(3 * fps, abs=1)
    assert left["dwell_seconds"] == pytest.approx(61, abs=1 / fps)
