"""Lines and zones that are edited while objects move: what is counted, against a plain computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.rules.scenes import events, path, scene

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule, RuleOperator
from sightline.media import Batch
from sightline_plugins import Lines, Zones

FRAMES = 30
OUT, IN, LEFT = (10.0, 50.0), (50.0, 50.0), (30.0, 50.0)
SQUARE = [[0.2, 0.2], [0.8, 0.2], [0.8, 0.8], [0.2, 0.8]]
Coming = list[tuple[int, str, str, int]]
"""Frame, rule, direction and track of each event."""


def zones(gone: str = "2s", **named: Mapping[str, Any]) -> Zones:
    return Zones.model_validate({"gone": gone, **{name: {"margin": 0, **zone} for name, zone in named.items()}})


def lines(**named: float) -> Lines:
    return Lines.model_validate({name: {"from": [0, y], "to": [1, y], "margin": 0} for name, y in named.items()})


def box(left: float, right: float, **options: Any) -> dict[str, Any]:
    return {"polygon": [[left, 0], [right, 0], [right, 1], [left, 1]], **options}


def run(batches: Sequence[Batch], first: Rule, changes: Mapping[int, Rule]) -> tuple[Coming, RuleOperator]:
    """Change the options in front of these frames, and return what was reported."""
    operator, found = first.build(Site(device=Device())), []
    for batch in batches:
        if (element := changes.get(batch.frames[0].index)) is not None:
            operator.change(element)
        found += [
            (index, event.rule, str(event.data.get("direction", event.kind)), int(event.data.get("track_id", -1)))
            for index, event in events([operator.process(batch)])
        ]
    return found, operator


def counts(batch: Batch) -> dict[str, dict[str, int]]:
    return {overlay.name: dict(overlay.counts) for overlay in batch.columns.overlays[0]}


def test_who_is_inside_because_of_a_change_has_not_entered_and_leaves_as_everybody() -> None:
    batches = scene({1: path([OUT] * 4 + [IN])}, frames=5)

    found, operator = run(batches, zones(plaza=box(0.4, 0.6)), {2: zones(plaza=box(0.05, 0.2))})

    assert found == [(4, "plaza", "leave", 1)]
    totals = operator.totals()["cam"]["plaza"]
    assert (totals["entered"], totals["left"], totals["visitors"], totals["largest"]) == (0, 1, 0, 1)
    assert totals["mean_dwell_seconds"] == 0.3, "from the last frame before the change to the first frame outside"


def test_who_is_outside_because_of_a_change_has_not_left_and_enters_again_as_the_same_visitor() -> None:
    batches = scene({1: path([OUT, IN, IN, IN, OUT, IN])}, frames=6)
    elsewhere, there = zones(plaza=box(0.8, 0.9)), zones(plaza=box(0.4, 0.6))

    found, operator = run(batches, there, {2: elsewhere, 4: there})

    assert found == [(1, "plaza", "enter", 1), (4, "plaza", "leave", 1), (5, "plaza", "enter", 1)]
    totals = operator.totals()["cam"]["plaza"]
    assert (totals["entered"], totals["left"], totals["visitors"]) == (2, 1, 1)


def test_who_stays_inside_keeps_the_time_of_entering() -> None:
    batches = scene({1: path([OUT, IN, IN, IN, OUT])}, frames=5)
    operator = zones(plaza=box(0.4, 0.6)).build(Site(device=Device()))
    for batch in batches[:3]:
        operator.process(batch)
    operator.change(zones(plaza=box(0.3, 0.7)))

    left = [event for _, event in events([operator.process(batch) for batch in batches[3:]])]

    assert [event.data["dwell_seconds"] for event in left] == [0.3]


def test_a_change_that_concerns_another_zone_leaves_a_zone_alone() -> None:
    batches = scene({1: path([OUT, IN, IN, OUT])}, frames=4)
    plaza = box(0.4, 0.6)

    found, operator = run(
        batches,
        zones(first=box(0, 0.05), plaza=plaza),
        {2: zones(plaza=plaza, other=box(0.9, 1)), 3: zones(other=box(0.8, 1), plaza=plaza)},
    )

    assert found == [(1, "plaza", "enter", 1), (3, "plaza", "leave", 1)]
    assert set(operator.totals()["cam"]) == {"first", "plaza", "other"}, "a zone that is gone stays in the totals"


def test_a_hidden_track_is_judged_when_it_is_seen_again() -> None:
    walks = {1: {0: OUT, 1: IN, 4: IN, 5: OUT}, 2: {0: OUT, 1: IN, 4: LEFT, 5: OUT}}

    found, _ = run(scene(walks, frames=6), zones(plaza=box(0.25, 0.6)), {3: zones(plaza=box(0.4, 0.6))})

    assert [one for one in found if one[0] > 1] == [(5, "plaza", "leave", 1)]


def test_another_class_is_another_zone() -> None:
    batches = scene({1: path([OUT, IN, IN, IN])}, frames=4, class_id=0)

    found, _ = run(
        batches,
        zones(plaza=box(0.4, 0.6, classes=["person"])),
        {2: zones(plaza=box(0.4, 0.6, classes=["car"])), 3: zones(plaza=box(0.4, 0.6))},
    )

    assert found == [(1, "plaza", "enter", 1)]


def test_a_stay_is_reported_by_a_shorter_dwell_at_once_and_by_a_longer_one_again() -> None:
    batches = scene({1: path([IN] * 12)}, frames=12)

    def plaza(dwell: str | None) -> Zones:
        return zones(plaza=box(0.4, 0.6, dwell=dwell))

    found, _ = run(batches, plaza(None), {4: plaza("200ms"), 6: plaza("100ms"), 7: plaza("1s"), 9: plaza(None)})
    again, _ = run(batches, plaza("200ms"), {4: plaza("1s")})

    assert [frame for frame, _, kind, _ in found if kind == "dwell"] == [4]
    assert [frame for frame, _, kind, _ in again if kind == "dwell"] == [2, 10]


def test_a_limit_that_changes_is_judged_by_the_number_inside() -> None:
    batches = scene({1: path([IN] * 6), 2: path([IN] * 6)}, frames=6)

    def plaza(limit: int | None) -> Zones:
        return zones(plaza=box(0.4, 0.6, limit=limit))

    found, _ = run(batches, plaza(5), {2: plaza(1), 4: plaza(2)})

    assert [(frame, kind) for frame, _, kind, track_id in found if track_id < 0] == [(2, "crowd"), (4, "crowd")]


def test_counts_follow_a_zone_that_is_renamed_and_come_back_with_its_name() -> None:
    batches = scene({1: path([OUT, IN, OUT, IN, OUT])}, frames=5)
    plaza = box(0.4, 0.6)

    _, renamed = run(batches, zones(plaza=plaza), {2: zones(square=plaza)})
    _, back = run(batches, zones(plaza=plaza), {2: zones(other=box(0, 0.1)), 3: zones(plaza=plaza)})

    assert {name: own["entered"] for name, own in renamed.totals()["cam"].items()} == {"square": 2}
    assert {name: own["entered"] for name, own in back.totals()["cam"].items()} == {"plaza": 2, "other": 0}


def test_a_change_is_seen_on_the_next_frame() -> None:
    batches = scene({1: path([OUT] * 3), 2: path([IN] * 3)}, frames=3)
    operator = zones(plaza=box(0.4, 0.6)).build(Site(device=Device()))
    before = operator.process(batches[0])
    operator.change(zones(plaza=box(0, 0.6), gate=box(0.4, 1)))

    after = operator.process(batches[1])

    assert counts(before) == {"plaza": {"inside": 1, "visitors": 1}}
    assert counts(after) == {"plaza": {"inside": 2, "visitors": 1}, "gate": {"inside": 1, "visitors": 0}}
    assert [overlay.points[1] for overlay in after.columns.overlays[0]] == [(60, 0), (100, 0)]


def test_nobody_crosses_a_line_because_it_is_moved_and_its_new_place_counts_at_once() -> None:
    batches = scene({1: path([(50, 20), (50, 20), (50, 60), (50, 60), (50, 20)])}, frames=5)

    found, operator = run(batches, lines(gate=0.4), {1: lines(gate=0.1), 2: lines(gate=0.3), 3: lines(gate=0.8)})

    assert found == [(2, "gate", "in", 1)], "the step from 20 to 60 met the line at 30, and no other step met one"
    assert operator.totals()["cam"] == {"gate": {"in": 1, "out": 0}}


def test_a_new_line_knows_the_side_of_each_track() -> None:
    batches = scene({1: path([(50, 20), (50, 60)])}, frames=2)

    found, _ = run(batches, lines(far=0.9), {1: lines(far=0.9, near=0.4)})

    assert found == [(1, "near", "in", 1)]


def test_a_line_with_another_anchor_begins_anew() -> None:
    batches = scene({1: path([(50, 50), (50, 50), (50, 60)])}, frames=3)
    shape = {"from": [0, 0.48], "to": [1, 0.48], "margin": 0}
    top = Lines.model_validate({"gate": {**shape, "anchor": "top"}})

    found, _ = run(batches, Lines.model_validate({"gate": shape}), {1: top})

    assert found == [(2, "gate", "in", 1)], "the top was above the line after the change, and is below it now"


def test_a_change_before_the_first_frame_and_after_the_last_is_harmless() -> None:
    batches = scene({1: path([OUT, IN])}, frames=2)
    for first, other in ((zones(plaza=box(0, 0.1)), zones(plaza=box(0.4, 0.6))), (lines(a=0.1), lines(b=0.2))):
        operator = first.build(Site(device=Device()))
        operator.change(other)
        results = [operator.process(batch) for batch in batches]
        operator.end_stream(batches[0].frames[0].stream)
        before = operator.totals()
        operator.change(first)
        operator.close()
        assert len(results) == 2
        assert {**operator.totals()["cam"], **before["cam"]} == operator.totals()["cam"]


numbers = st.integers(0, 19).map(lambda number: number * 5.0 + 2)
walks = st.lists(st.lists(st.one_of(st.none(), numbers), min_size=FRAMES, max_size=FRAMES), min_size=1, max_size=4)
"""Places of each track by frame; None where it is not seen. Edges lie at multiples of 5, so no place is on one."""
edges = st.integers(0, 20).map(lambda number: number / 20)
drawn = st.dictionaries(st.sampled_from("abc"), edges, min_size=1, max_size=3)
edits = st.dictionaries(st.integers(0, FRAMES - 1), drawn, max_size=12)
sizes = st.integers(1, FRAMES)


def cut(batches: Sequence[Batch], *, size: int, at: Sequence[int]) -> Iterator[Batch]:
    """Batches of `size` frames at most, one of which begins at each of these frames."""
    together: list[Batch] = []
    for batch in batches:
        if together and (len(together) == size or batch.frames[0].index in at):
            yield joined(together)
            together = []
        together.append(batch)
    yield joined(together)


def joined(batches: Sequence[Batch]) -> Batch:
    frames = tuple(batch.frames[0] for batch in batches)
    objects = [batch.objects.with_columns(frame=batch.objects.frame + row) for row, batch in enumerate(batches)]
    return Batch(frames).with_objects(type(objects[0]).concat(objects))


def across(places: Sequence[Sequence[float | None]]) -> dict[int, dict[int, tuple[float, float]]]:
    """Walks of tracks 1, 2, ... from left to right, at these places."""
    return {
        track_id: {index: (x, 50.0) for index, x in enumerate(own) if x is not None}
        for track_id, own in enumerate(places, 1)
    }


@settings(max_examples=60, deadline=None)
@given(places=walks, first=drawn, changes=edits, size=sizes)
def test_lines_count_what_a_plain_computation_counts(
    places: list[list[float | None]], first: dict[str, float], changes: dict[int, dict[str, float]], size: int
) -> None:
    def upright(named: dict[str, float]) -> Lines:
        return Lines.model_validate(
            {name: {"from": [x, 0], "to": [x, 1], "margin": 0, "anchor": "bottom"} for name, x in named.items()}
        )

    batches = list(cut(scene(across(places), frames=FRAMES), size=size, at=list(changes)))
    found, operator = run(batches, upright(first), {frame: upright(named) for frame, named in changes.items()})

    expected, present = Counter[tuple[str, str]](), first
    last: dict[int, float] = {}
    for frame in range(FRAMES):
        present = changes.get(frame, present)
        for track_id, own in enumerate(places, 1):
            place = own[frame]
            if place is None:
                continue
            for name, x in present.items():
                before = last.get(track_id, place) - 100 * x
                if before * (place - 100 * x) < 0:
                    expected[name, "out" if before < 0 else "in"] += 1
            last[track_id] = place
    assert Counter((rule, direction) for _, rule, direction, _ in found) == expected
    # A line that is drawn again under another name takes its counts along.
    assert sum(sum(own.values()) for own in operator.totals()["cam"].values()) == expected.total()


@settings(max_examples=60, deadline=None)
@given(places=walks, first=drawn, changes=edits, size=sizes)
def test_zones_report_what_a_plain_computation_reports(
    places: list[list[float | None]], first: dict[str, float], changes: dict[int, dict[str, float]], size: int
) -> None:
    """Zones reach from the left edge of the frame to a line; every track is seen on every frame."""
    seen = [[place if place is not None else 2.0 for place in own] for own in places]

    def left_of(named: dict[str, float]) -> Zones:
        return Zones.model_validate({name: box(0, max(x, 0.05), margin=0) for name, x in named.items()})

    batches = list(cut(scene(across(seen), frames=FRAMES), size=size, at=list(changes)))
    found, operator = run(batches, left_of(first), {frame: left_of(named) for frame, named in changes.items()})

    expected, present = [], first
    for frame in range(FRAMES):
        present = changes.get(frame, present)
        for name, x in present.items():
            for track_id, own in enumerate(seen, 1):
                edge = 100 * max(x, 0.05)
                before = own[frame - 1] < edge if frame else False
                if before != (own[frame] < edge):
                    expected.append((frame, name, "leave" if before else "enter", track_id))
    assert sorted(found) == sorted(expected)
    inside = {name: sum(own[-1] < 100 * max(x, 0.05) for own in seen) for name, x in present.items()}
    last = operator._streams[batches[-1].frames[0].stream].rule.counts()
    assert {name: own["inside"] for name, own in last.items()} == inside
