"""The contract of rules, as a test class that any rule element can be put through.

    class TestMyRule(RuleConformance):
        element = MyRule()
        changed = MyRule(limit=3)  # other values of options that change live, if it has such

An assertion that fails says in a sentence which promise was broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from sightline.devices import Device
from sightline.graph.live_options import changes_live
from sightline.graph.rule import Rule, RuleOperator
from sightline.graph.schedule import Schedule
from sightline.graph.site import Site
from sightline.media import Batch, Frame, Objects, Origin, Stream
from sightline.testing.run import run_element
from sightline.testing.synthetic import make_batches, make_frames

SIZE_WH = (160, 120)
FPS = 25
CLOSES_NS = 1_767_348_060_000_000_000
"""The time of day of the first frame: Friday, 2026-01-02, 10:01 UTC."""
Seen = list[tuple[int, str, str, dict[str, Any]]]


class RuleConformance:
    """Tests of the `Rule` contract. A subclass sets `element`, and `changed` if its rule has options that change live;
    pytest collects it by its name.

    The scene has two tracked persons who walk through the middle of the frame, one down and one to the right, and back.
    An element that reacts to something else overrides `places`.
    """

    element: ClassVar[Rule]
    changed: ClassVar[Rule | None] = None
    """The element with other values of options that change live; None when it has no such options."""
    frames: ClassVar[int] = 24
    label: ClassVar[str] = "person"

    def places(self, index: int) -> Sequence[tuple[int, float, float]]:
        """Return track id and middle of the box, in fractions of the frame, of each object on frame `index`."""
        way = abs(self.frames / 2 - index) / (self.frames / 2)
        return ((1, 0.5, way), (2, 1 - way, 0.5))

    def test_the_scene_makes_it_react(self) -> None:
        """The rule sees something in this scene: an event, or a count that is not 0."""
        events, totals = self.run(self.batches())
        counted = any(value for own in totals["cam"].values() for value in own.values())
        assert events or counted, "nothing happens in the scene: override `places`"

    def test_events_name_rules_of_the_element(self) -> None:
        """Events, outlines and totals are of the rules that the element names."""
        names = set(self.element.rule_names())
        assert self.element.found_rules() == names
        events, totals = self.run(self.batches())
        assert {rule for _, _, rule, _ in events} <= names, "an event is of a rule that rule_names() does not name"
        assert set(totals["cam"]) <= names, "a total is of a rule that rule_names() does not name"
        drawn = {
            overlay.name for batch in self.made(self.batches()) for own in batch.columns.overlays for overlay in own
        }
        assert drawn <= names, "an outline is of a rule that rule_names() does not name"

    def test_results_do_not_depend_on_the_size_of_batches(self) -> None:
        """Batches of one frame give the events, counts and totals of larger ones."""
        single = self.run(self.batches())
        for size in (3, self.frames):
            assert self.run(self.batches(size=size)) == single, f"batches of {size} frames give something else"

    def test_outlines_follow_the_size_of_the_frames(self) -> None:
        """Outlines are within frames of any size."""
        for size_wh in (SIZE_WH, (640, 480)):
            for batch in self.made(self.batches(size_wh=size_wh))[:1]:
                for overlay in batch.columns.overlays[0]:
                    points = np.array(overlay.points)
                    assert (points >= 0).all(), f"{overlay.name}: {overlay.points} lies outside the frame"
                    assert (points <= size_wh).all(), f"{overlay.name}: {overlay.points} lies outside the frame"

    def test_streams_are_counted_apart(self) -> None:
        """Two streams with the same objects have the same totals as one alone."""
        operator = self.element.build(Site(device=Device(), element_id=self.element.name))
        for one, other in zip(self.batches(), self.batches(stream="other"), strict=True):
            operator.process(one)
            operator.process(other)
        operator.close()
        totals = operator.totals()
        assert totals["cam"] == totals["other"] == self.run(self.batches())[1]["cam"], "streams are not counted apart"

    def test_a_stream_that_comes_back_goes_on_counting_but_knows_no_track(self) -> None:
        """Totals of a stream that ended stay, those of its next run are added, and its tracks are new ones."""
        operator = self.element.build(Site(device=Device(), element_id=self.element.name))
        rounds = []
        for _ in range(2):
            found: Seen = []
            for batch in self.batches():
                found += _events(operator, batch)
            operator.end_stream(_stream(batch))
            rounds.append(found)
        operator.close()
        assert rounds[0] == rounds[1], "state of tracks outlived the end of the stream"
        once = self.run(self.batches())[1]["cam"]
        for rule, own in operator.totals()["cam"].items():
            for name, value in own.items():
                assert not isinstance(value, int) or value >= once[rule][name], f"{rule}: {name} was lost"

    def test_options_that_change_live_are_changed_by_these_tests(self) -> None:
        """`changed` is set if any option changes live, and differs in such options only."""
        kind = type(self.element)
        has_any = kind.others_change_live or any(map(changes_live, kind.model_fields.values()))
        assert has_any == (self.changed is not None), "set `changed` exactly when options change live"
        if self.changed is not None:
            assert self.element != self.changed, "`changed` does not differ from `element`"
            assert self.element.changes_live_into(self.changed), "`changed` differs in options that do not change live"

    def test_a_change_to_equal_options_changes_nothing(self) -> None:
        """The same options again, before any frame, are as good as no change."""
        if self.changed is not None:
            equal = dict.fromkeys(range(self.frames), self.element.model_copy())
            assert self.run_changing(equal) == self.run(self.batches()), "a change to equal options changed something"

    def test_a_change_falls_between_two_frames_whatever_the_batches_are(self) -> None:
        """Changes in front of the same frames give the same results with batches of any size."""
        if self.changed is not None:
            for frame in range(1, self.frames - 2):
                changes = {frame: self.changed, frame + 2: self.element}
                size = 3 if frame % 2 else self.frames  # at every place in a batch of three, and in one of all frames
                single = self.run_changing(changes)
                assert self.run_changing(changes, size=size) == single, f"batches of {size} give something else"

    def test_a_change_and_back_loses_no_count(self) -> None:
        """Counts go on after a change, also those of rules that are gone or have another name for a while."""
        if self.changed is None:
            return
        operator = self.element.build(Site(device=Device(), element_id=self.element.name))
        for batch in self.batches():
            operator.process(batch)
        seen = {rule: dict(own) for rule, own in operator.totals()["cam"].items()}
        operator.change(self.changed)
        operator.change(self.element)
        totals = operator.totals()["cam"]
        assert {rule: dict(totals.get(rule, {})) for rule in seen} == seen, "a change and back lost counts"
        operator.close()

    def test_another_process_goes_on_where_this_one_was_stopped(self) -> None:
        """Whenever a process is stopped: its state as JSON is taken up by another one, which then finds the same. Its
        stream begins anew, at the time 0.
        """
        whole = self.run(self.batches())
        site = Site(device=Device(), element_id=self.element.name)
        first, batches, before = self.element.build(site), self.batches(), Seen()
        for cut in range(1, self.frames):
            before += _events(first, batches[cut - 1])
            saved = first.save(_stream(batches[0]))
            second, found = self.element.build(site), Seen(before)
            second.restore("cam", json.loads(json.dumps(saved)))
            begin_ns = batches[cut].frames[0].pts_ns
            for batch in batches[cut:]:
                frames = tuple(replace(frame, pts_ns=frame.pts_ns - begin_ns) for frame in batch.frames)
                found += _events(second, replace(batch, frames=frames))
            second.close()
            totals = {rule: dict(own) for rule, own in second.totals()["cam"].items()}
            assert (found, {"cam": totals}) == whole, f"a process that is stopped after {cut} frames is not continued"

    def test_counts_that_begin_anew_change_nothing_else(self) -> None:
        """Whenever counts begin anew: the same is reported, and nothing that was counted before is left."""
        whole, totals = self.run(self.batches())
        for cut in range(1, self.frames, 7):
            operator = self.element.build(Site(device=Device(), element_id=self.element.name))
            found = Seen()
            for number, batch in enumerate(self.batches()):
                if number == cut:
                    operator.reset_counts("cam")
                found += _events(operator, batch)
            assert found == whole, f"counts that begin anew with frame {cut} change what is reported"
            for rule, own in _whole_numbers(operator).items():
                for name, value in own.items():
                    assert value <= totals["cam"][rule][name], f"{rule}: {name} counts more than before"
            operator.reset_counts(None)
            operator.process(batch.with_objects(batch.objects.select(np.zeros(len(batch.objects), np.bool_))))
            kept = {rule: own for rule, own in _whole_numbers(operator).items() if any(own.values())}
            assert kept == {}, "counts that were to begin anew were kept"
            operator.close()

    def test_outside_its_schedule_a_rule_sees_nothing(self) -> None:
        """With a schedule that never comes nothing happens; one that ends within the scene ends what lasts."""
        if not self.element.rule_options():
            return
        totals = self.run(self.batches())[1]
        asleep = self.scheduled("mon 00:00-00:01").build(Site(device=Device()))
        for batch in self.batches():
            assert not _events(asleep, batch), "it reports something outside its schedule"
        asleep.close()
        assert not any(value for own in asleep.totals()["cam"].values() for value in own.values()), (
            "it counts something outside its schedule"
        )
        assert totals == self.run(self.batches(), rule=self.scheduled("mon-sun"))[1]

        last = self.frames // 2
        closing = self.scheduled("fri 10:00-10:01")
        before_ns = CLOSES_NS - round((last + 0.5) / FPS * 1e9)
        single = self.run(self.batches(begin_ns=before_ns), rule=closing)
        assert single == self.run(self.batches(size=5, begin_ns=before_ns), rule=closing), "it depends on batches"
        late = [event for event in single[0] if event[0] > last + 1]
        assert not late, f"it goes on after its schedule has ended: {late}"

    def scheduled(self, hours: str) -> Rule:
        """Return the element with a schedule, in UTC, for each of its rules."""
        schedule = Schedule(hours=(hours,), timezone="UTC")
        named = {
            name: one.model_copy(update={"schedule": schedule}) for name, one in self.element.rule_options().items()
        }
        return self.element.model_copy(update=named)

    def test_closing_twice_is_harmless(self) -> None:
        """An operator can be closed at once, and again; totals can be read afterwards."""
        operator = self.element.build(Site(device=Device()))
        operator.close()
        operator.close()
        assert dict(operator.totals()) == {}

    def batches(
        self,
        *,
        size: int = 1,
        stream: str = "cam",
        size_wh: tuple[int, int] = SIZE_WH,
        cuts: Iterable[int] = (),
        begin_ns: int = CLOSES_NS,
    ) -> list[Batch]:
        """Return the scene as batches of `size` frames at most; a batch begins at each frame of `cuts`. `begin_ns` is
        the time of day of the first frame.
        """
        width, height = size_wh
        half = np.array([width, height], np.float32) / 20
        frames = [replace(frame, capture_ns=begin_ns + frame.pts_ns) for frame in _frames(self.frames, size_wh, stream)]
        parts = pairwise([0, *sorted(cuts), self.frames])
        batches = []
        for batch in chain.from_iterable(make_batches(frames[first:last], size=size) for first, last in parts):
            rows = [
                (
                    row,
                    track_id,
                    *(np.array([x * width, y * height]) - half),
                    *(np.array([x * width, y * height]) + half),
                )
                for row, frame in enumerate(batch.frames)
                for track_id, x, y in self.places(frame.index)
            ]
            table = np.array(rows, np.float64).reshape(-1, 6)
            objects = Objects.from_columns(
                frame=table[:, 0],
                track_id=table[:, 1],
                xyxy=table[:, 2:],
                confidence=np.ones(len(table)),
                class_id=np.zeros(len(table)),
                source=Origin("test", (self.label,)),
            )
            batches.append(batch.with_objects(objects))
        return batches

    def made(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return what the element makes of batches."""
        return run_element(self.element, batches, outputs=Path())

    def run_changing(self, changes: Mapping[int, Rule], *, size: int = 1) -> tuple[Seen, dict[str, Any]]:
        """Return what `run` does when the options change in front of these frames."""
        return self.run(self.batches(size=size, cuts=changes), changes=changes)

    def run(
        self,
        batches: Sequence[Batch],
        *,
        changes: Mapping[int, Rule] = MappingProxyType({}),
        rule: Rule | None = None,
    ) -> tuple[Seen, dict[str, Any]]:
        """Return the events with the index of their frame, and the totals, of `element` or another rule."""
        operator = (rule or self.element).build(Site(device=Device(), element_id=self.element.name))
        found: Seen = []
        for batch in batches:
            if (element := changes.get(batch.frames[0].index)) is not None:
                operator.change(element)
            found += _events(operator, batch)
        operator.close()
        return found, {
            stream: {rule: dict(own) for rule, own in of.items()} for stream, of in operator.totals().items()
        }


@cache
def _frames(count: int, size_wh: tuple[int, int], stream: str) -> Sequence[Frame]:
    """Frames that all rules share: none looks at their pixels."""
    return make_frames(count, size_wh=size_wh, stream=stream, fps=FPS)


def _events(operator: RuleOperator, batch: Batch) -> Seen:
    """What an operator adds to a batch."""
    made = operator.process(batch)
    new = [event for event in made.events if event not in batch.events]
    return [(made.frames[event.frame].index, event.kind, event.rule, dict(event.data)) for event in new]


def _stream(batch: Batch) -> Stream:
    return batch.frames[-1].stream


def _whole_numbers(operator: RuleOperator) -> dict[str, dict[str, int]]:
    """What an operator has counted in whole numbers, by rule."""
    return {
        rule: {name: value for name, value in own.items() if isinstance(value, int)}
        for rule, own in operator.totals()["cam"].items()
    }
